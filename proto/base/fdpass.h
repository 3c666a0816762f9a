/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_BASE_FDPASS_H
#define GPUCTR_BASE_FDPASS_H

/* sendmsg(2) and recvmsg(2) with descriptors beside the bytes. */

#include <stddef.h>
#include <sys/types.h>

enum { FDPASS_MAX = 253 }; /* of one message: SCM_MAX_FD of the kernel */

struct fdpass_set {
	size_t n;
	int fds[FDPASS_MAX];
};

/* fd -1: none; it stays the caller's. Bytes sent, or -errno. */
ssize_t fdpass_send(int socket, const void *data, size_t bytes, int fd, int flags);

/* Bytes received, 0 at the end, or -errno. *ret_fd is the caller's to close, or -1. More than one
 * descriptor, or any other control message than SCM_RIGHTS, is -EPROTO and all are closed; or
 * -EBADMSG when data is full, and so can be answered. That is also what a process gets that has no
 * room for another descriptor. Descriptors are received with O_CLOEXEC. */
ssize_t fdpass_receive(int socket, void *data, size_t bytes, int *ret_fd, int flags);

/* The same for a sender who may be hostile: all that came is in *ret and the caller's to close,
 * also beside an error. */
ssize_t fdpass_receive_set(int socket, void *data, size_t bytes, struct fdpass_set *ret, int flags);

#endif
