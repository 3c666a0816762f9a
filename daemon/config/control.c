/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config/control.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>

#include "proto/base/fdpass.h"

static size_t size_of(unsigned op)
{
	switch (op) {
	case CONTROL_RELOAD:
		return offsetof(struct control_message, config) + sizeof(struct config);
	case CONTROL_TROUBLE:
		return offsetof(struct control_message, trouble) + CONTROL_TROUBLE_BYTES;
	case CONTROL_JOBS:
		return offsetof(struct control_message, jobs) + sizeof(struct jobs);
	case CONTROL_RESTARTS:
		return offsetof(struct control_message, restarts) + sizeof(struct control_restarts);
	case CONTROL_WHO:
	case CONTROL_NAME:
		return offsetof(struct control_message, user) + sizeof(struct control_user);
	default:
		return offsetof(struct control_message, config);
	}
}

static int send_message(int link, const struct control_message *m, int fd)
{
	ssize_t n = fdpass_send(link, m, size_of(m->op), fd, MSG_DONTWAIT);

	return n < 0 ? (int)n : 0;
}

int control_send(int link, enum control_op op, int fd)
{
	const struct control_message m = { .op = op };

	return send_message(link, &m, fd);
}

int control_send_reload(int link, const struct config *config, int audit)
{
	const struct control_message m = { .op = CONTROL_RELOAD, .config = *config };

	return send_message(link, &m, audit);
}

int control_send_trouble(int link, const char *trouble)
{
	struct control_message m = { .op = CONTROL_TROUBLE };

	snprintf(m.trouble, sizeof(m.trouble), "%s", trouble);
	return send_message(link, &m, -1);
}

int control_send_jobs(int link, const struct jobs *jobs)
{
	const struct control_message m = { .op = CONTROL_JOBS, .jobs = *jobs };

	return send_message(link, &m, -1);
}

int control_send_restarts(int link, const struct control_restarts *restarts)
{
	const struct control_message m = { .op = CONTROL_RESTARTS, .restarts = *restarts };

	return send_message(link, &m, -1);
}

int control_send_who(int link, uint32_t uid)
{
	const struct control_message m = { .op = CONTROL_WHO, .user = { .uid = uid } };

	return send_message(link, &m, -1);
}

int control_send_name(int link, const struct control_user *user)
{
	const struct control_message m = { .op = CONTROL_NAME, .user = *user };

	return send_message(link, &m, -1);
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
