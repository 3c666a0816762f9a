/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reports ranges and marks that begin or end a measured phase to phase.h. */

#include <stdint.h>

#include "client/agent/nvtx_stack.h"

struct capture;

/* To be called after a push, and after the start of a start/end range. Returns the number of the
 * capture in which the range has begun a phase, for nvtx_watch_end(); 0: none. */
uint32_t nvtx_watch_push(struct stack *s);
uint32_t nvtx_watch_start(const struct event *e);
void nvtx_watch_end(uint32_t capture);

/* The calling thread is in a section of c. */
void nvtx_watch_mark(struct capture *c, const struct event *e);
