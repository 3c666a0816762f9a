/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "proto/nvidia/rm.h"
#include "daemon/granter/granter.h"

/* A task of a thread: a call that may have to wait for the driver. */

enum call_act {
	CALL_ALLOC, /* allocate the object, if the client was made on the file and the GPU is one of
		       gpus; close the file unless it was allocated */
	CALL_FREE,  /* free the object, and close the file */
	CALL_CLOSE, /* only close the file: the driver was not asked for the object */
};

struct call {
	enum call_act act;
	int fd; /* consumed, unless an allocation worked */
	uint32_t root, parent, object;
	struct rm_profiler_parameters parameters;
	const struct rm_gpu *gpus; /* borrowed until the call is done */
	unsigned n_gpus;

	int error; /* the result, as in rm.h; -EPERM: the client was not made on the file; -EXDEV:
		      the object would be of another GPU; -EPROTO: the driver gave it another
		      number */
	uint32_t status; /* status of the driver */
};

void call_do(struct call *c);

/* Is gpu one of these n? A GPU without a name, all zeros, never is. */
bool call_names(const struct rm_gpu *gpus, unsigned n, const struct rm_gpu *gpu);

/* Did the call allocate its object? */
static inline bool call_has_allocated(const struct call *c)
{
	return c->act == CALL_ALLOC && c->error == 0 && c->status == RM_STATUS_OK;
}

/* The threads that call the driver. Each does one call at a time and serves one lease, so a call
 * that does not return holds up no other lease. */

enum { THREADS = GRANTER_LEASES_MAX };

/* Starts the threads, once in a process. -errno. */
int threads_start(void);

/* Readable when a call is done. */
int threads_fd(void);
void threads_acknowledge(void);

/* Gives a call to an idle thread. */
void thread_give(unsigned thread, const struct call *call);

/* True when the call is done: *ret is the call with its result, and the thread is idle again. */
bool thread_take(unsigned thread, struct call *ret);
