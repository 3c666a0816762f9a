/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/granter/errand.h"

#include <errno.h>
#include <unistd.h>

static void allocate(struct errand *e)
{
	if (e->parameters.client_target != 0 &&
	    !rm_file_has_client(e->fd, e->parameters.client_target)) {
		e->error = -EPERM;
		return;
	}
	e->error =
		rm_alloc_profiler(e->fd, e->root, e->parent, e->object, &e->parameters, &e->status);
}

void errand_do(struct errand *e)
{
	e->error = 0;
	e->status = 0;
	if (e->act == ERRAND_ALLOC) {
		allocate(e);
	} else if (e->act == ERRAND_FREE) {
		e->error = rm_free_object(e->fd, e->root, e->parent, e->object, &e->status);
	}
	if (!errand_has_allocated(e)) {
		close(e->fd);
	}
}
