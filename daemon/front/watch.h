/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <uv.h>

/* A descriptor that the loop polls; it may be replaced at any time. The handle lives on the heap
 * until libuv has closed it; the owner's struct may be freed earlier. */
struct watch {
	uv_poll_t *poll;
	int fd; /* -1: nothing is watched */
};

void watch_init(struct watch *w);

/* Consumes fd and waits until it is readable; data becomes the callback's handle->data. -errno. */
int watch_open(struct watch *w, uv_loop_t *loop, int fd, uv_poll_cb on_ready, void *data);

/* Stops and closes fd. Does nothing when nothing is watched. */
void watch_close(struct watch *w);
