/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The matches of the calling thread's stack, in buffer or in the stack's own memory; before them
 * are those of the stack below its topmost range. */

#include <stdint.h>

#include "client/agent/nvtx_filter.h"
#include "client/agent/nvtx_stack.h"

struct capture;

const uint64_t *nvtx_match_stack(struct nvtx_filter *f, uint32_t capture,
				 struct nvtx_matched *buffer);

/* Is a launch that the calling thread makes now measured, by the ranges that are open? capture is
 * the number of the one that f belongs to. */
bool nvtx_selects(struct nvtx_filter *f, uint32_t capture);

/* Reports ranges and marks that begin or end a measured phase to phase.h. */

/* To be called after a push, and after the start of a start/end range. Returns the number of the
 * capture in which the range has begun a phase, for nvtx_watch_end(); 0: none. */
uint32_t nvtx_watch_push(struct stack *s);
uint32_t nvtx_watch_start(const struct event *e);
void nvtx_watch_end(uint32_t capture);

/* The calling thread is in a section of c. */
void nvtx_watch_mark(struct capture *c, const struct event *e);
