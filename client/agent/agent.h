/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_AGENT_H
#define GPUCTR_AGENT_AGENT_H

/* The agent's one object. It is made when the program initialises CUDA and lives as long as the
 * process. */

#include "client/agent/activity.h"
#include "client/agent/deliver.h"
#include "client/agent/filter.h"
#include "client/agent/profiler.h"
#include "client/agent/ranges.h"
#include "proto/wire/limits.h"

enum { AGENT_CONTEXTS_MAX = 256 };

struct agent {
	atomic_bool active;	    /* launches are looked at */
	atomic_bool stop_requested; /* the program exits */
	atomic_uint capturing;	    /* streams that capture a graph now */
	atomic_uint n_contexts;	    /* there are now */
	bool blocks;		    /* guard_blocks() of the plan's metrics */
	struct patience patience;
	struct profiler profiler;
	struct link link;
	struct arena arena; /* holds welcome */
	struct wire_agent_welcome welcome;
	struct intern intern;
	struct counters counters;
	struct deliver deliver;
	struct activity activity;
	bool told_drops; /* by the delivering thread */
	CUpti_SubscriberHandle subscriber;

	struct filter filter;

	pthread_mutex_t lock; /* of the lists */
	struct list contexts; /* struct ranges */
	struct device_info *devices[LIMIT_GPUS];
	size_t n_devices;
};

/* Entered by CUDA_INJECTION64_PATH; NULL when the process is not part of a capture. */
extern struct agent *agent_self;

/* Ends the capture in this process: flushes every context, delivers, says goodbye. The program goes
 * on unmeasured. May be called twice. */
void agent_finish(struct agent *a, uint64_t timeout_ns);

/* Tells the daemon about the process and its devices as they are known now. */
void agent_announce(struct agent *a);

/* The contexts there are now, AGENT_CONTEXTS_MAX at most; they are never freed. */
size_t agent_contexts(struct agent *a, struct ranges **ret);

/* Finds or makes the device of the calling thread's context; NULL: out of room. */
struct device_info *agent_device(struct agent *a);

/* Becomes CUPTI's one user in this process, and then is told of launches. 0, or a code with r
 * filled. */
int launches_subscribe(struct agent *a, struct refusal *r);
int launches_enable(struct agent *a, struct refusal *r);
void launches_unsubscribe(struct agent *a);

#endif
