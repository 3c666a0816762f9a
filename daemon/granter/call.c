/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/granter/call.h"

#include <errno.h>
#include <unistd.h>

static void allocate(struct call *c)
{
	if (c->parameters.client_target != 0 &&
	    !rm_file_has_client(c->fd, c->parameters.client_target)) {
		c->error = -EPERM;
		return;
	}
	c->error =
		rm_alloc_profiler(c->fd, c->root, c->parent, c->object, &c->parameters, &c->status);
}

void call_do(struct call *c)
{
	c->error = 0;
	c->status = 0;
	if (c->act == CALL_ALLOC) {
		allocate(c);
	} else if (c->act == CALL_FREE) {
		c->error = rm_free_object(c->fd, c->root, c->parent, c->object, &c->status);
	}
	if (!call_has_allocated(c)) {
		close(c->fd);
	}
}
