/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_GRANTER_ERRAND_H
#define GPUCTR_GRANTER_ERRAND_H

/* One thing that a hand does: a call that may have to wait for the driver. */

#include "proto/nvidia/rm.h"

enum errand_act {
	ERRAND_ALLOC, /* allocate the object, if the client was made on the file; close the file
			 unless that worked */
	ERRAND_FREE,  /* free the object, and close the file */
	ERRAND_CLOSE, /* close the file alone: its process has ended, and its objects with it */
};

struct errand {
	enum errand_act act;
	int fd; /* consumed, unless an allocation worked */
	uint32_t root, parent, object;
	struct rm_profiler_parameters parameters;

	int error;	 /* the result, as in rm.h; -EPERM: the client was not made on the file */
	uint32_t status; /* of the driver */
};

void errand_do(struct errand *e);

/* Did it allocate its object? */
static inline bool errand_has_allocated(const struct errand *e)
{
	return e->act == ERRAND_ALLOC && e->error == 0 && e->status == RM_STATUS_OK;
}

#endif
