/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The agent's threads, which block all signals. If a seccomp filter of the program covers a thread
 * at its end, the thread sleeps for as long as the program lives, because ending takes system
 * calls, too. */

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct thread {
	pthread_t id;
	_Atomic uint32_t over;
};

/* The thread must be joined by thread_join(), and *ret must live until then; ret NULL: it is
 * detached. stack_bytes 0: the program's default. -errno. */
int thread_start(void *(*run)(void *), void *argument, size_t stack_bytes, struct thread *ret);
void thread_join(struct thread *t);

/* The caller's thread id. A filter may forbid gettid(); glibc knows the id, and writes it into the
 * mutexes that check for errors. */
static inline pid_t thread_number(void)
{
	pthread_mutex_t m = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
	pid_t number;

	pthread_mutex_lock(&m);
	number = m.__data.__owner;
	pthread_mutex_unlock(&m);
	return number;
}

/* Sleep, by the system call futex() only; thread_stay() for ever. */
void thread_pause(uint64_t ns);
_Noreturn void thread_stay(void);
