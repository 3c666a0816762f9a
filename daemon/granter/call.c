/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/granter/thread.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

bool call_names(const struct rm_gpu *gpus, unsigned n, const struct rm_gpu *gpu)
{
	static const struct rm_gpu none;

	for (unsigned i = 0; i < n; i++) {
		if (memcmp(&gpus[i], gpu, sizeof(*gpu)) == 0) {
			return memcmp(gpu, &none, sizeof(none)) != 0;
		}
	}
	return false;
}

/* Is the parent a subdevice of a leased GPU? Fills the call's result if it is not. */
static bool check_gpu(struct call *c)
{
	struct rm_gpu gpu;

	c->error = rm_find_gpu(c->fd, c->root, c->parent, &gpu, &c->status);
	if (c->error == 0 && c->status == RM_STATUS_OK && !call_names(c->gpus, c->n_gpus, &gpu)) {
		c->error = -EXDEV;
	}
	return c->error == 0 && c->status == RM_STATUS_OK;
}

static void free_again(const struct call *c, uint32_t object)
{
	uint32_t status;

	rm_free_object(c->fd, c->root, c->parent, object, &status);
}

/* Only an object whose number is known can be freed later. */
static bool check_number(struct call *c, uint32_t object)
{
	if (object != c->object) {
		c->error = -EPROTO;
	}
	return c->error == 0;
}

/* The numbers of a request do not name a GPU, but the driver knows to which GPU the parent belongs.
 * Between two calls the program can replace the parent by another object with the same number. So
 * the thread asks the driver before and after the allocation: freeing a subdevice frees the objects
 * below it, so an object that still exists has the parent that was checked. */
static void allocate(struct call *c)
{
	uint32_t object = c->object;

	if (c->parameters.client_target != 0 &&
	    !rm_file_has_client(c->fd, c->parameters.client_target)) {
		c->error = -EPERM;
		return;
	}
	if (!check_gpu(c)) {
		return;
	}
	c->error =
		rm_alloc_profiler(c->fd, c->root, c->parent, &object, &c->parameters, &c->status);
	if (call_has_allocated(c) && !(check_number(c, object) && check_gpu(c))) {
		free_again(c, object);
	}
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
