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
struct launch;
struct ranges;
struct section;

/* The launches of all threads and contexts that wait to be delivered. */
struct trace {
	struct lock lock;
	struct batch *batch;
	uint64_t begin_ns; /* of its first launch */
	unsigned n_unseen; /* launches of graphs of which no kernel came; the delivering thread's */
};

void trace_init(struct trace *t);
void trace_deinit(struct trace *t); /* after the last trace_flush() */

/* Before capture_start() subscribes to launches: whom CUPTI's records are for. */
void trace_begin(struct capture *c);

/* Without a lock. *ret is the calling thread's own until trace_close(). */
bool trace_open(struct capture *c, struct ranges *r, struct section *v, struct launch **ret);
void trace_close(struct capture *c, struct ranges *r, struct section *v, bool launched);

/* For the delivering thread: queues what has waited for long, or, at the end, all there is. */
void trace_flush(struct capture *c, bool all);
