/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The system call futex(2), the only one that a thread under a filter of the program makes. The
 * word may be in memory that processes share. */

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while *word equals seen; may return early. timeout NULL: none. */
static inline void futex_wait(_Atomic uint32_t *word, uint32_t seen, const struct timespec *timeout)
{
	syscall(SYS_futex, word, FUTEX_WAIT, seen, timeout, NULL, 0);
}

static inline void futex_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
