/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_ACTIVITY_H
#define GPUCTR_AGENT_ACTIVITY_H

/* The kernels' own times: CUPTI traces when each began and ended on the GPU, beside the ranges. */

#include "client/agent/deliver.h"
#include "client/agent/lock.h"
#include "client/agent/profiler.h"
#include "client/agent/spans.h"

struct activity_buffer;

struct activity {
	/* Set before activity_start(). Calls act while no kernel is under way, and none comes;
	 * false: not now. NULL: at any time. */
	bool (*while_quiet)(void *userdata, void (*act)(void *argument), void *argument);
	void *userdata;

	const struct profiler *profiler;
	struct spans spans;
	bool made;	  /* it was started once, and the locks are there */
	struct lock lock; /* of what follows */
	bool started;
	struct activity_buffer *spare;
	size_t n_buffers;
	uint64_t dropped;     /* records that CUPTI had no room for */
	unsigned patience_ms; /* for the next batch */
};

/* One a process, zeroed before its first start, and never freed: CUPTI's callbacks know no object,
 * and may come late. It is started and stopped any number of times. 0, or CUPTI's result: no kernel
 * has a time of its own. */
CUptiResult activity_start(struct activity *v, const struct profiler *p);

/* Before a launch that is measured. Cheap; nothing when it was not started. */
void activity_expect(struct activity *v, uint32_t correlation);

/* Has CUPTI hand over what it has, while no kernel of the process is under way. */
void activity_flush(struct activity *v);

/* Fills in begin and duration of the launches of a batch whose records have been flushed. For the
 * delivering thread alone, without any lock: it waits a moment for what has not come. */
void activity_fill(struct activity *v, struct batch *b);

/* Has CUPTI dropped records for want of room? */
bool activity_drops(struct activity *v);

/* Nothing is traced any more, unless a kernel is under way now, which CUPTI might wait for. */
void activity_stop(struct activity *v);

#endif
