/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/control.h"

#include <errno.h>
#include <sys/socket.h>

#include "daemon/base/fdpass.h"

int control_send(int link, enum control_op op, int fd)
{
	struct control_message m = { op };
	ssize_t n = fdpass_send(link, &m, sizeof(m), fd, MSG_DONTWAIT);

	return n < 0 ? (int)n : 0;
}

int control_receive(int link, enum control_op *ret_op, int *ret_fd)
{
	struct control_message m;
	ssize_t n = fdpass_receive(link, &m, sizeof(m), ret_fd, MSG_DONTWAIT);

	if (n == -EAGAIN) {
		return 0;
	}
	if (n != (ssize_t)sizeof(m)) {
		return n < 0 ? (int)n : -EPIPE;
	}
	*ret_op = m.op;
	return 1;
}
