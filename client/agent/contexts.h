/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The CUDA contexts of a captured process: found at their first launch in the capture, or when a
 * stream is made in them, and kept until the capture is freed. */

#include <stdatomic.h>
#include <stdbool.h>

#include "client/agent/ranges.h"

enum { CONTEXTS_MAX = 256 }; /* contexts at a time; launches in further ones are not measured */

/* --- contexts.c: the list --- */

/* The first context from r on in the capture's list that has not ended. */
static inline struct ranges *contexts_present(struct ranges *r)
{
	while (r && !atomic_load(&r->context)) {
		r = r->next;
	}
	return r;
}

/* Loops over the present contexts. The list needs no lock: it only grows, at its head. */
#define contexts_for_each(r, c)                                                     \
	for (struct ranges *r = contexts_present(atomic_load(&(c)->contexts)); (r); \
	     (r) = contexts_present((r)->next))

/* Finds or adds the context; NULL: there are too many, or out of memory. */
struct ranges *contexts_find(struct capture *c, CUcontext context);

/* Finds the context; NULL: the capture does not know it. */
struct ranges *contexts_known(struct capture *c, CUcontext context);

/* With r's lock held. The context has ended, and a new one may get the same handle. */
void contexts_forget(struct ranges *r);

void contexts_free(struct capture *c);

/* --- contexts_end.c: contexts release the counters --- */

/* The program destroys the context. except: a context to leave alone, because the thread is within
 * a launch in it. */
void contexts_end(struct capture *c, CUcontext context, const struct ranges *except);

/* This and the functions below are for the delivering thread. Ends batches whose first launch is
 * more than a second old. */
void contexts_flush_old(struct capture *c);

/* Calls act while no work is running in any context and none can begin. call: name of CUPTI's
 * function that act calls. False: work is running or a lock is taken; act was not called. */
bool contexts_while_quiet(struct capture *c, const char *call, void (*act)(void *argument),
			  void *argument);

/* Releases the counters in all contexts. Waits for running kernels, but not for ever. */
void contexts_let_go(struct capture *c);

/* To be called when no thread is inside the capture. Releases all that can be released without
 * waiting. True: CUPTI holds nothing in any context any more. */
bool contexts_retire(struct capture *c);
