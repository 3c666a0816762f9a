/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The push/pop ranges of all threads as one stack, for --nvtx-push-pop-scope process. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/agent/lock.h"
#include "client/agent/nvtx_filter.h"

struct scoped_range {
	uint64_t id;
	const char *domain; /* lives as long as the process */
	char *message;
};

struct nvtx_scope {
	bool on; /* constant; if false each thread has a stack of its own, and this one is empty */
	struct nvtx_filter *filter;
	struct lock lock; /* the filter's lock is taken while this one is held */
	struct scoped_range *v;
	uint64_t *states; /* the matches of the filter's terms, for each range */
	size_t n, room;
	uint64_t last_id;
	_Atomic uint64_t version; /* changes with the stack; never 0 */
};

/* filter is borrowed, and is there already. */
void nvtx_scope_init(struct nvtx_scope *s, bool on, struct nvtx_filter *filter);
void nvtx_scope_deinit(struct nvtx_scope *s);

/* Puts a range on top, and returns its number; 0: out of memory. The message is copied. */
uint64_t nvtx_scope_push(struct nvtx_scope *s, const char *domain, const char *message);

/* Removes the range from any position in the stack. */
void nvtx_scope_pop(struct nvtx_scope *s, uint64_t id);

/* How the filter matches the stack as it is now: n_terms numbers, valid for the calling thread
 * until its next call. capture is the number of the capture that s belongs to. */
const uint64_t *nvtx_scope_match(struct nvtx_scope *s, uint32_t capture);
