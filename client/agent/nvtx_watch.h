/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_NVTX_WATCH_H
#define GPUCTR_AGENT_NVTX_WATCH_H

/* Ranges and marks that begin or end a phase that is measured, told to phase.h, and what all
 * threads have pushed, told to nvtx_scope.h. */

#include <stdint.h>

#include "client/agent/nvtx_stack.h"

struct capture;

/* The topmost range of the calling thread's stack is new; so is a start/end range. Gives the number
 * of the capture for which it has begun a phase, which nvtx_watch_end() takes; 0: none. */
uint32_t nvtx_watch_push(struct stack *s);
uint32_t nvtx_watch_start(const struct event *e);
void nvtx_watch_end(uint32_t capture);

/* An entry whose scope is not 0 is taken off its stack. */
void nvtx_watch_pop(const struct entry *e);

/* Inside of c. */
void nvtx_watch_mark(struct capture *c, const struct event *e);

#endif
