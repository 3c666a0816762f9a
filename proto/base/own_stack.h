/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* For calls of libraries that need more stack than a thread of the program may have: HPX, pika,
 * brpc and others launch kernels on stacks of 16 to 64 KiB. */

#include <stdbool.h>
#include <stddef.h>

enum {
	OWN_STACK_BYTES = 1 << 20,	 /* enough for regexec() */
	OWN_STACK_MAX_BYTES = 256 << 20, /* address space; only touched pages take memory */
};

/* Runs f on another stack of at least so many bytes. Meanwhile the thread handles no signals from
 * outside: signal handlers that look at the interrupted thread's stack, such as those of garbage
 * collectors, never see the other stack. f must return and not end the thread. False: no memory for
 * the stack, and f was not run. */
bool own_stack_run(size_t bytes, void (*f)(void *argument), void *argument);
