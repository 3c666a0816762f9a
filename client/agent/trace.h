/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A capture that reads no counter: each launch is noted as it is made, and CUPTI's activity records
 * tell later when its kernel ran. See method.h. */

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
	uint64_t begin_ns; /* of its first launch */
	unsigned n_unseen; /* launches of graphs of which no kernel came; the delivering thread's */
};

void trace_init(struct trace *t);
void trace_deinit(struct trace *t); /* after the last trace_flush() */

/* For the delivering thread: queues what has waited for long, or, at the end, all there is. */
void trace_flush(struct capture *c, bool all);

/* Where a capture has the kernels' times from: CUPTI's tracing (activity.h), or the lengths of the
 * ranges around them. */

/* Where somebody else in the process uses CUPTI's records. */
#define TIMES_OTHERS_REMEDY \
	"Run the program without its own tracing (torch.profiler, CUPTI's activity API)."

/* While metrics can still be added to the plan: decides for lengths of ranges if tracing would
 * change what is measured. */
void times_init(struct capture *c);

/* Before a context is set up for its first range, or a graph is captured: CUPTI traces from now on,
 * unless times_init() has settled it. Not before, because tracing costs each launch of the process
 * something, whether it is measured or not. The launch whose callback this is called in is traced
 * as well. False: another thread is at it, within CUPTI, and does not come back. */
bool times_begin(struct capture *c);
