/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_CAPTURE_H
#define GPUCTR_AGENT_CAPTURE_H

/* All that belongs to one capture of this process, from the daemon's welcome to the goodbye. A
 * process may be captured any number of times, one capture after another; what lives as long as the
 * process is in agent.h. Threads of the program come in through section.h alone. */

#include "client/agent/activity.h"
#include "client/agent/choosing.h"
#include "client/agent/deliver.h"
#include "client/agent/filter.h"
#include "client/agent/lock.h"
#include "client/agent/method.h"
#include "client/agent/nvtx_scope.h"
#include "client/agent/passes.h"
#include "client/agent/profiler.h"
#include "client/agent/ranges.h"
#include "client/agent/stream_captures.h"
#include "client/agent/watch.h"
#include "proto/wire/limits.h"

struct capture {
	uint32_t number;  /* among the captures of this process, from 1; never used again */
	bool late;	  /* the program has run before: contexts, streams and graph captures may be
			   * there that no callback has told of */
	uint64_t made_ns; /* clock_now_ns() */
	const struct profiler *profiler; /* the process's, and so are the next two */
	struct activity *activity;
	struct link *link;
	const struct method *method; /* what is done around a launch; none until it has started */

	atomic_uint n_contexts; /* there are now */
	struct stream_captures stream_captures;
	struct patience patience;
	struct suspects suspects;
	struct arena arena; /* holds welcome */
	struct wire_agent_welcome welcome;
	struct passes passes; /* of its plan */
	struct intern intern;
	struct counters counters;
	struct deliver deliver;
	struct filter filter;
	struct nvtx_scope scope;
	struct choosing choosing;
	uint64_t reported_strata_ns; /* by the delivering thread */
	bool reported_drops;	     /* by the delivering thread */
	CUpti_SubscriberHandle subscriber;
	struct watch watch;

	struct lock times_lock; /* of has_times, while tracing is begun */
	bool has_times;		/* it is settled where kernels' times come from */

	struct lock lock;     /* of the list; not held over calls of the driver */
	struct list contexts; /* struct ranges */
	struct lock devices_lock;
	struct device_info *devices[LIMIT_GPUS];
	size_t n_devices;
};

/* Are launches measured? */
static inline bool capture_is_measuring(const struct capture *c)
{
	return atomic_load_explicit(&c->deliver.state, memory_order_relaxed) == CAPTURE_MEASURING;
}

/* Does nobody wait for the program's threads any more? Calls of theirs may go unnoticed. */
static inline bool capture_is_closing(const struct capture *c)
{
	return atomic_load(&c->deliver.state) >= CAPTURE_CLOSING;
}

/* An empty one, inactive; NULL: out of memory. The pointers are borrowed until capture_free(). */
struct capture *capture_new(const struct profiler *p, struct activity *activity, struct link *link,
			    bool late);

/* With the welcome filled in: opens what it needs of CUPTI, and looks at launches from then on.
 * 0, or a code with r filled, which is also told to the user; capture_run() follows in any case. */
int capture_start(struct capture *c, const char *socket_path, const char *token, struct refusal *r);

/* On the thread that delivers: until the daemon ends it, its connection breaks, or
 * capture_request_end(). At the end all is as before, but what CUPTI leaves behind, and goodbye is
 * said; when the program exits, CUPTI is left in peace. */
void capture_run(struct capture *c);

/* From any thread, a signal's handler too; by_ns bounds how long it waits for a lock. */
void capture_request_end(struct capture *c, uint64_t by_ns);

/* After capture_run(). False: the program exits, and it must stay where it is. */
bool capture_free(struct capture *c);

/* Tells the daemon about the process and its devices as they are known now. */
void capture_announce(struct capture *c);

/* Becomes CUPTI's one user in this process, and then is told of launches. 0, or a code with r
 * filled. */
int callbacks_subscribe(struct capture *c, struct refusal *r);
int callbacks_enable(struct capture *c, struct refusal *r);
void callbacks_unsubscribe(struct capture *c);

#endif
