/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/fdpass.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "proto/base/closer.h"

/* The buffer has room for as many descriptors as a message can contain, and for a control message
 * of another kind before them. The kernel would close descriptors that do not fit inside recvmsg(),
 * which can take as long as the sender likes. It also closes descriptors for which the table of
 * descriptors has no room, so a process that receives from users has to leave room there. */

union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(FDPASS_MAX * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
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

/* Moves the descriptors from c to set. True: c contained nothing else. */
static bool take_descriptors(const struct cmsghdr *c, struct fdpass_set *set)
{
	size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

	if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || n > FDPASS_MAX - set->n) {
		return false;
	}
	memcpy(set->fds + set->n, CMSG_DATA(c), n * sizeof(int));
	set->n += n;
	return true;
}

ssize_t fdpass_receive_set(int socket, void *data, size_t bytes, struct fdpass_set *ret, int flags)
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
	ssize_t n;

	ret->n = 0;
	do {
		n = recvmsg(socket, &m, flags | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0) {
		return -errno;
	}
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		good = take_descriptors(c, ret) && good;
	}
	if (good && (m.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) == 0) {
		return n;
	}
	return n == (ssize_t)bytes && (m.msg_flags & MSG_TRUNC) == 0 ? -EBADMSG : -EPROTO;
}

ssize_t fdpass_receive(int socket, void *data, size_t bytes, int *ret_fd, int flags)
{
	struct fdpass_set set;
	ssize_t n = fdpass_receive_set(socket, data, bytes, &set, flags);

	*ret_fd = -1;
	if (n >= 0 && set.n <= 1) {
		*ret_fd = set.n == 1 ? set.fds[0] : -1;
		return n;
	}
	for (size_t i = 0; i < set.n; i++) {
		closer_close(set.fds[i]);
	}
	if (n < 0) {
		return n;
	}
	return n == (ssize_t)bytes ? -EBADMSG : -EPROTO;
}
