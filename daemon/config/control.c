/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config/control.h"

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>

#include "proto/base/fdpass.h"

static size_t size_of(unsigned op)
{
	switch (op) {
	case CONTROL_RELOAD:
		return offsetof(struct control_message, config) + sizeof(struct config);
	case CONTROL_JOBS:
		return offsetof(struct control_message, jobs) + sizeof(struct jobs);
	case CONTROL_RESTARTS:
		return offsetof(struct control_message, restarts) +
		       sizeof(((struct control_message *)NULL)->restarts);
	case CONTROL_WHO:
	case CONTROL_NAME:
		return offsetof(struct control_message, user) + sizeof(struct control_user);
	default:
		return offsetof(struct control_message, config);
	}
}

int control_send_message(int link, const struct control_message *m, int fd)
{
	ssize_t n = fdpass_send(link, m, size_of(m->op), fd, MSG_DONTWAIT);

	return n < 0 ? (int)n : 0;
}

int control_send_worker(int link, enum control_op op, enum worker_id worker, int fd)
{
	return control_send_message(link, &(struct control_message){ .op = op, .worker = worker },
				    fd);
}

int control_send(int link, enum control_op op)
{
	return control_send_worker(link, op, 0, -1);
}

int control_receive(int link, struct control_message *ret, int *ret_fd)
{
	ssize_t n = fdpass_receive(link, ret, sizeof(*ret), ret_fd, MSG_DONTWAIT);

	if (n == -EAGAIN) {
		return 0;
	}
	if (n < (ssize_t)sizeof(ret->op) || n != (ssize_t)size_of(ret->op)) {
		return n < 0 ? (int)n : -EPIPE;
	}
	return 1;
}
