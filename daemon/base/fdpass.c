/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/fdpass.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "daemon/base/closer.h"

/* Room is left for more descriptors than are allowed, so that a sender of many is seen and refused
 * rather than truncated; what the kernel truncates all the same it closes itself. */

enum { FDPASS_ROOM = 8 };

union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(FDPASS_ROOM * sizeof(int))];
};

ssize_t fdpass_send(int socket, const void *data, size_t bytes, int fd, int flags)
{
	union control control = { 0 };
	struct iovec iov = { (void *)(unsigned long)data, bytes };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (fd >= 0) {
		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	}
	do {
		n = sendmsg(socket, &m, flags | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* True when c held exactly one descriptor and none was held before. */
static bool take_descriptors(const struct cmsghdr *c, int *fd)
{
	size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	int fds[FDPASS_ROOM];

	if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
		return false;
	}
	n = n > FDPASS_ROOM ? FDPASS_ROOM : n;
	memcpy(fds, CMSG_DATA(c), n * sizeof(int));
	if (n == 1 && *fd < 0) {
		*fd = fds[0];
		return true;
	}
	for (size_t i = 0; i < n; i++) {
		closer_close(fds[i]);
	}
	return false;
}

ssize_t fdpass_receive(int socket, void *data, size_t bytes, int *ret_fd, int flags)
{
	union control control;
	struct iovec iov = { data, bytes };
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	bool good = true;
	int fd = -1;
	ssize_t n;

	*ret_fd = -1;
	do {
		n = recvmsg(socket, &m, flags | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0) {
		return -errno;
	}
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		good = take_descriptors(c, &fd) && good;
	}
	if (!good || (m.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) != 0) {
		if (fd >= 0) {
			closer_close(fd);
		}
		return n == (ssize_t)bytes && (m.msg_flags & MSG_TRUNC) == 0 ? -EBADMSG : -EPROTO;
	}
	*ret_fd = fd;
	return n;
}
