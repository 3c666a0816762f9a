/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_DAEMON_SANDBOX_H
#define GPUCTR_DAEMON_SANDBOX_H

/* Which system calls a process of the daemon may make from now on. */

enum sandbox {
	SANDBOX_GRANTER, /* what it does, and two ioctl requests; anything else kills it */
	SANDBOX_FRONT,	 /* sockets it has, memory, reading files; anything else fails with EPERM */
	SANDBOX_GPU, /* NVIDIA's libraries do much; what takes over other processes or the kernel
			fails */
};

/* 0, or -errno: the caller must not go on. */
int sandbox_enter(enum sandbox which);

#endif
