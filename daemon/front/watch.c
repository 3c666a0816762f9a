/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

void watch_init(struct watch *w)
{
	*w = (struct watch){ .fd = -1 };
}

static void on_closed(uv_handle_t *h)
{
	free(h);
}

int watch_open(struct watch *w, uv_loop_t *loop, int fd, uv_poll_cb on_ready, void *data)
{
	int r;

	w->poll = calloc(1, sizeof(*w->poll));
	if (!w->poll) {
		close(fd);
		return -ENOMEM;
	}
	w->poll->data = data;
	r = uv_poll_init(loop, w->poll, fd);
	if (r < 0) {
		free(w->poll);
		w->poll = NULL;
		close(fd);
		return r;
	}
	w->fd = fd;
	return uv_poll_start(w->poll, UV_READABLE, on_ready);
}

void watch_close(struct watch *w)
{
	if (w->poll) {
		uv_poll_stop(w->poll);
		uv_close((uv_handle_t *)w->poll, on_closed);
		w->poll = NULL;
	}
	if (w->fd >= 0) {
		close(w->fd);
		w->fd = -1;
	}
}
