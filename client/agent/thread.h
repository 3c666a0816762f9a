/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Threads of ours, with all signals blocked. At its end one that a seccomp filter of the program's
 * has come over sleeps instead for as long as the program lives, because even to end takes calls of
 * the system. */

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct thread {
	pthread_t id;
	_Atomic uint32_t over;
};

/* To be joined with thread_join(); *ret lives until then. NULL: detached. stack_bytes 0: as large
 * as the program's. -errno. */
int thread_start(void *(*run)(void *), void *argument, size_t stack_bytes, struct thread *ret);
void thread_join(struct thread *t);

/* The caller's thread id. gettid() may be forbidden already; glibc knows the number, and writes it
 * into a mutex that checks for errors. */
static inline pid_t thread_number(void)
{
	pthread_mutex_t m = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
	pid_t number;

	pthread_mutex_lock(&m);
	number = m.__data.__owner;
	pthread_mutex_unlock(&m);
	return number;
}

/* Sleeps, and makes only a call of futex() for it. */
void thread_pause(uint64_t ns);
_Noreturn void thread_stay(void);
