/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* In a trace, whether CUPTI calls back at each launch of a kernel. */

#include "client/agent/capture.h"

/* Is a launch of a kernel left alone? The calling thread is in a section. */
static inline bool unwatched_leaves(const struct capture *c)
{
	return atomic_load(&c->trace.launches) != LAUNCHES_WATCHED;
}

/* When the capture starts, before the first launch is noted. */
void unwatched_begin(struct capture *c);

/* Does id begin a launch of a kernel, which need not be watched? */
bool unwatched_concerns(CUpti_CallbackId id);

/* In a program that runs, when its kernels are traced and before its launches are watched: they are
 * not, if nobody needs to know of each one. */
void unwatched_start(struct capture *c);

/* Now and then, for the delivering thread: once tracing is on, and if nobody needs to know of each
 * launch when it is made, launches are left alone, and CUPTI's records are heard. */
void unwatched_look(struct capture *c);

/* An NVTX range was opened, and the program had none before: launches are watched again. Calls of
 * any thread, which must be in a section of c. */
void unwatched_watch_again(struct capture *c);

/* At the end: makes CUPTI tell of all kernels launched so far. Of later ones nothing is told. */
void unwatched_end(struct capture *c);
