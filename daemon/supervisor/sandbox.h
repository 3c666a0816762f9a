/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* Restricts the system calls that a process of the daemon may make from now on. */

enum sandbox {
	SANDBOX_GRANTER, /* the calls that it makes, and two ioctl requests; anything else kills it
			  */
	SANDBOX_FRONT,	 /* the sockets that it has, memory, reading files; anything else fails with
			    EPERM */
	SANDBOX_GPU, /* NVIDIA's libraries do much; what takes over other processes or the kernel
			fails */
	SANDBOX_PLANNER, /* the socket it has, SANDBOX_PLANNER_BYTES of memory, libraries, reading
			    files; anything else fails with EPERM */
};

/* Limit of the address space. CUPTI 13.0's host library, with the catalogue of one chip, takes 300
 * MiB. */
#define SANDBOX_PLANNER_BYTES (UINT64_C(1) << 30)

/* 0, or -errno: the caller must not go on. */
int sandbox_enter(enum sandbox which);
