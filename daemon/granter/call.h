/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One thing that a thread does: a call that may have to wait for the driver. */

#include "proto/nvidia/rm.h"

enum call_act {
	CALL_ALLOC, /* allocate the object, if the client was made on the file and the GPU is one
			 of these; close the file unless that worked */
	CALL_FREE,  /* free the object, and close the file */
	CALL_CLOSE, /* close the file alone: the driver was not asked for the object */
};

struct call {
	enum call_act act;
	int fd; /* consumed, unless an allocation worked */
	uint32_t root, parent, object;
	struct rm_profiler_parameters parameters;
	const struct rm_gpu *gpus; /* borrowed until it is done */
	unsigned n_gpus;

	int error; /* the result, as in rm.h; -EPERM: the client was not made on the file; -EXDEV:
		      the object would be of another GPU; -EPROTO: the driver gave it another
		      number */
	uint32_t status; /* of the driver */
};

void call_do(struct call *c);

/* Did it allocate its object? */
static inline bool call_has_allocated(const struct call *c)
{
	return c->act == CALL_ALLOC && c->error == 0 && c->status == RM_STATUS_OK;
}
