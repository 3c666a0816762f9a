/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A capture that reads no counter: each launch is noted when it is made, and later CUPTI's activity
 * records give the time of its kernel. See method.h. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/agent/lock.h"

struct batch;
struct capture;

/* The launches of all threads and contexts that wait to be delivered. */
struct trace {
	struct lock lock;
	struct batch *batch;
	uint64_t begin_ns; /* when the first launch was added */
	unsigned n_unseen; /* launches of graphs of which no kernel came; used by the delivering
			      thread */
};

void trace_init(struct trace *t);
void trace_deinit(struct trace *t); /* after the last trace_flush() */

/* For the delivering thread: queues the batch if it is old, or, with all, in any case. */
void trace_flush(struct capture *c, bool all);

/* The source of the kernels' times: CUPTI's tracing (activity.h), or the lengths of the ranges
 * around the kernels. */

/* Remedy if somebody else in the process uses CUPTI's records. */
#define TIMES_OTHERS_REMEDY \
	"Run the program without its own tracing (torch.profiler, CUPTI's activity API)."

/* Chooses lengths of ranges if tracing would change the measured values. To be called while metrics
 * can still be added to the plan. */
void times_init(struct capture *c);

/* Turns CUPTI's tracing on, unless times_init() has chosen lengths of ranges. To be called before a
 * context is set up for its first range, or a stream capture begins, and not earlier, because
 * tracing slows each launch of the process, measured or not. If called in the callback of a launch,
 * that launch is traced as well. False: another thread is turning tracing on and does not return
 * from CUPTI. */
bool times_begin(struct capture *c);
