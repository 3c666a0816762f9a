/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* Restricts the system calls that a process of the daemon may make from now on. */

enum sandbox {
	SANDBOX_GRANTER, /* its own calls and two ioctl requests; any other call kills it */
	SANDBOX_FRONT,	 /* its sockets, memory, reading files; any other call fails with EPERM */
	SANDBOX_GPU, /* most calls, for NVIDIA's libraries; those that control other processes or
			the kernel fail */
	SANDBOX_PLANNER, /* its socket, SANDBOX_PLANNER_BYTES of memory, libraries, reading files;
			    any other call fails with EPERM */
};

/* Limit of the address space. CUPTI 13.0's host library, with the catalogue of one chip, takes 300
 * MiB. */
#define SANDBOX_PLANNER_BYTES (UINT64_C(1) << 30)

/* 0, or -errno: the caller must not go on. */
int sandbox_enter(enum sandbox which);
