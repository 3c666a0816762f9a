/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_GRANTER_ERRAND_H
#define GPUCTR_GRANTER_ERRAND_H

/* What a hand does: whatever may have to wait for the driver. */

#include "proto/nvidia/rm.h"

enum errand_act {
	ERRAND_ALLOC, /* if the file has the client: allocate; the file is closed unless that worked
		       */
	ERRAND_FREE,  /* free the object, and close the file */
	ERRAND_CLOSE, /* the file alone: its process is gone, and the objects with it */
};

struct errand {
	enum errand_act act;
	int fd; /* consumed, but by an allocation that worked */
	uint32_t root, parent, object;
	struct rm_profiler_parameters parameters;

	int error;	 /* the result: as of rm.h; -EPERM: the file does not have the client */
	uint32_t status; /* of the driver */
};

void errand_do(struct errand *e);

/* Did it allocate its object? */
static inline bool errand_has_allocated(const struct errand *e)
{
	return e->act == ERRAND_ALLOC && e->error == 0 && e->status == RM_STATUS_OK;
}

#endif
