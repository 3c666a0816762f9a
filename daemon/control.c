/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/control.h"

#include <errno.h>
#include <sys/socket.h>

#include "daemon/base/fdpass.h"

int control_send(int link, enum control_op op, int fd, const struct config *config)
{
	struct control_message m = { .op = op };
	ssize_t n;

	if (config) {
		m.config = *config;
	}
	n = fdpass_send(link, &m, sizeof(m), fd, MSG_DONTWAIT);
	return n < 0 ? (int)n : 0;
}

int control_send_summary(int link, const struct control_summary *summary)
{
	struct control_message m = { .op = CONTROL_SUMMARY, .summary = *summary };
	ssize_t n = fdpass_send(link, &m, sizeof(m), -1, MSG_DONTWAIT);

	return n < 0 ? (int)n : 0;
}

int control_send_jobs(int link, const struct jobs *jobs)
{
	struct control_message m = { .op = CONTROL_JOBS, .jobs = *jobs };
	ssize_t n = fdpass_send(link, &m, sizeof(m), -1, MSG_DONTWAIT);

	return n < 0 ? (int)n : 0;
}

int control_receive(int link, struct control_message *ret, int *ret_fd)
{
	ssize_t n = fdpass_receive(link, ret, sizeof(*ret), ret_fd, MSG_DONTWAIT);

	if (n == -EAGAIN) {
		return 0;
	}
	if (n != (ssize_t)sizeof(*ret)) {
		return n < 0 ? (int)n : -EPIPE;
	}
	return 1;
}
