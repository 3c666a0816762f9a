/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How the ranges that are open select launches, and begin or end the phases of phase.h. */

#include <stdint.h>

#include "client/agent/nvtx_filter.h"
#include "client/agent/nvtx_stack.h"

struct capture;

/* Is a launch that the calling thread makes now measured, by the ranges that are open? capture is
 * the number of the one that f belongs to. */
bool nvtx_selects(struct nvtx_filter *f, uint32_t capture);

/* To be called after a push, and after the start of a start/end range. Returns the number of the
 * capture in which the range has begun a phase, for nvtx_watch_end(); 0: none. */
uint32_t nvtx_watch_push(struct stack *s);
uint32_t nvtx_watch_start(const struct event *e);
void nvtx_watch_end(uint32_t capture);

/* The calling thread is in a section of c. */
void nvtx_watch_mark(struct capture *c, const struct event *e);
