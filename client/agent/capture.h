/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One capture of this process, from the daemon's welcome to the goodbye. A process can be captured
 * any number of times, one capture after another; agent.h has the state that lives as long as the
 * process. Threads of the program use a capture only within sections (section.h). */

#include "client/agent/activity.h"
#include "client/agent/deliver.h"
#include "client/agent/filter.h"
#include "client/agent/lock.h"
#include "client/agent/method.h"
#include "client/agent/passes.h"
#include "client/agent/profiler.h"
#include "client/agent/ranges.h"
#include "client/agent/recurrence.h"
#include "client/agent/stream_captures.h"
#include "client/agent/guard_wait.h"
#include "client/agent/trace.h"
#include "client/agent/watch.h"
#include "proto/wire/limits.h"

struct capture {
	uint32_t number; /* number of the capture in this process, from 1; never reused */
	bool late; /* the program was already running, and may have contexts, streams and stream
		      captures that no callback has reported */
	uint64_t made_ns;		 /* clock_now_ns() */
	const struct profiler *profiler; /* this and the next two belong to the process */
	struct activity *activity;
	struct connection *connection;
	const struct method *method; /* functions called around a launch */

	atomic_uint n_contexts;	  /* contexts that have not ended */
	atomic_bool has_too_many; /* a context was left out, beyond CONTEXTS_MAX */
	_Atomic uint64_t n_apart; /* launches of apart_on_launch() */
	struct stream_captures stream_captures;
	struct patience patience;
	struct suspects suspects;
	struct arena arena; /* holds welcome */
	struct wire_agent_welcome welcome;
	struct passes passes; /* passes of the plan */
	struct intern intern;
	struct counters counters;
	struct deliver deliver;
	struct filter filter;
	struct recurrence recurrence;
	enum recurrence_state reported_steps; /* used by the delivering thread only */
	bool reported_drops;		      /* used by the delivering thread only */
	bool reported_others;		      /* likewise */
	CUpti_SubscriberHandle subscriber;
	struct watch watch;

	struct trace trace;

	struct lock times_lock; /* held while tracing begins */
	bool has_times;		/* the source of kernels' times is decided */

	struct lock lock; /* taken to add a context; not held during calls of the driver */
	_Atomic(struct ranges *) contexts; /* contexts.h */
	struct lock devices_lock;
	struct device_info *devices[LIMIT_GPUS];
	size_t n_devices;
};

/* Are launches measured? */
static inline bool capture_is_measuring(const struct capture *c)
{
	return atomic_load_explicit(&c->deliver.state, memory_order_relaxed) == CAPTURE_MEASURING;
}

/* Creates an inactive capture; NULL: out of memory. The pointers are borrowed until capture_free().
 */
struct capture *capture_new(const struct profiler *p, struct activity *activity,
			    struct connection *connection, bool late);

/* The caller has filled in the welcome. Opens the parts of CUPTI that the capture needs, and starts
 * to handle launches. Returns 0, or a code with r filled, which is also reported to the user. The
 * caller must call capture_run() in any case. */
int capture_start(struct capture *c, const char *socket_path, const char *token, struct refusal *r);

/* Runs the capture on the calling thread, which becomes the delivering thread, until the daemon
 * ends the capture, the connection breaks, or capture_request_end() is called. Then undoes what the
 * capture has set up, and sends goodbye. If the program exits, leaves CUPTI as it is, and does not
 * call it after the last batch. */
void capture_run(struct capture *c);

/* Any thread and signal handlers may call this; waits for a lock until by_ns at most. */
void capture_request_end(struct capture *c, uint64_t by_ns);

/* To be called after capture_run(). False: the program exits, so the capture must not be freed. */
bool capture_free(struct capture *c);

/* Reports the process and its devices to the daemon, as they are known now. */
void capture_announce(struct capture *c);

/* Subscribes to CUPTI's callbacks, for which CUPTI allows one user per process. Returns 0, or a
 * code with r filled. */
int callbacks_subscribe(struct capture *c, struct refusal *r);
int callbacks_enable(struct capture *c, struct refusal *r);
void callbacks_unsubscribe(struct capture *c);
