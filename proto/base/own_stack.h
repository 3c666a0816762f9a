/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Calls of libraries that need more stack than a thread of the program may have: HPX, pika, brpc
 * and others run work, and launch kernels, on stacks of 16 to 64 KiB. */

#include <stdbool.h>
#include <stddef.h>

enum {
	OWN_STACK_BYTES = 1 << 20,	 /* enough for regexec() */
	OWN_STACK_MAX_BYTES = 256 << 20, /* of address space; only what is touched takes memory */
};

/* Runs f on a stack of at least so many bytes that is not the thread's. Meanwhile the thread
 * handles no signals that come from outside: handlers that look at the stack of the thread that
 * they interrupt, as those of garbage collectors do, find it as they know it. f returns, and ends
 * no thread. False: there is no memory for the stack, and f was not run. */
bool own_stack_run(size_t bytes, void (*f)(void *argument), void *argument);
