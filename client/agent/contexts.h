/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_CONTEXTS_H
#define GPUCTR_AGENT_CONTEXTS_H

/* The CUDA contexts of a captured process: found at their first launch in the capture, or when a
 * stream is made in them, and kept until the capture is freed. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/agent/ranges.h"

enum { CONTEXTS_MAX = 256 };

/* --- contexts.c: which there are --- */

/* Those there are now, CONTEXTS_MAX at most. */
size_t contexts_list(struct capture *c, struct ranges **ret);

/* Finds or makes it; NULL: out of memory. */
struct ranges *contexts_find(struct capture *c, CUcontext context);

/* The same; NULL: nobody has launched into it. */
struct ranges *contexts_known(struct capture *c, CUcontext context);

/* A stream of any of them is about to be ended. */
void contexts_remove_stream(struct capture *c, CUstream stream);

/* With its lock: the context has ended, and a new one may get the same handle. */
void contexts_forget(struct ranges *r);

void contexts_free(struct capture *c);

/* --- contexts_end.c: how they let go of the counters --- */

/* The program ends it; except: the calling thread is within a launch of this one. */
void contexts_end(struct capture *c, CUcontext context, const struct ranges *except);

/* The rest is called on the delivering thread. Hands over the batches whose first launch was a
 * second ago. */
void contexts_flush_old(struct capture *c);

/* Calls act, which calls CUPTI's function of that name, while nothing is under way in any of them,
 * and nothing comes. False: something is, and it was not called. */
bool contexts_while_quiet(struct capture *c, const char *call, void (*act)(void *argument),
			  void *argument);

/* Lets go of the counters everywhere. Kernels under way are waited for, but not for ever. */
void contexts_let_go(struct capture *c);

/* When no thread is inside the capture: lets go of what can be let go of without waiting. True:
 * CUPTI has nothing in any of them. */
bool contexts_retire(struct capture *c);

#endif
