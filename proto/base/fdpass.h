/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* sendmsg(2) and recvmsg(2) with descriptors beside the bytes. */

#include <stddef.h>
#include <sys/types.h>

enum { FDPASS_MAX = 253 }; /* most descriptors of a message: the kernel's SCM_MAX_FD */

struct fdpass_set {
	size_t n;
	int fds[FDPASS_MAX];
};

/* fd is -1 for none; the caller still owns it. Returns the number of bytes sent, or -errno. */
ssize_t fdpass_send(int socket, const void *data, size_t bytes, int fd, int flags);

/* Returns the number of bytes received, 0 at the end, or -errno. The caller closes *ret_fd, unless
 * it is -1. More than one descriptor, or a control message other than SCM_RIGHTS, is an error, and
 * all descriptors are closed: -EBADMSG when data is full, so that the request can be answered, else
 * -EPROTO. A process without room for another descriptor gets the same errors. Descriptors are
 * received with O_CLOEXEC. */
ssize_t fdpass_receive(int socket, void *data, size_t bytes, int *ret_fd, int flags);

/* fdpass_receive() for a hostile sender: *ret has all received descriptors, which the caller
 * closes, even after an error. */
ssize_t fdpass_receive_set(int socket, void *data, size_t bytes, struct fdpass_set *ret, int flags);
