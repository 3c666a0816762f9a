/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/thread.h"

#include <errno.h>
#include <signal.h>

#include "client/agent/confined.h"
#include "client/agent/futex.h"
#include "proto/base/clock.h"

enum { RUNS, ENDS, STAYS };

/* Lives on the stack of the starting thread, which waits until the new thread runs: its start takes
 * system calls that the program may forbid once it continues. */
struct start {
	void *(*run)(void *);
	void *argument;
	struct thread *thread;
	_Atomic uint32_t taken;
};

/* Tells the joining thread how this thread ends. *t lives until then: after ENDS the joining thread
 * waits in pthread_join(). */
static void tell(struct thread *t, uint32_t how)
{
	if (t) {
		atomic_store(&t->over, how);
		futex_wake(&t->over);
	}
}

static void *run(void *argument)
{
	struct start *start = argument;
	void *(*f)(void *) = start->run;
	void *of = start->argument;
	struct thread *t = start->thread;

	atomic_store(&start->taken, 1);
	futex_wake(&start->taken);
	f(of);
	if (confined_is()) {
		tell(t, STAYS);
		thread_stay();
	}
	tell(t, ENDS);
	return NULL;
}

static int create(struct start *s, size_t stack_bytes, pthread_t *ret)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	int r;

	pthread_attr_init(&attributes);
	if (stack_bytes > 0) {
		pthread_attr_setstacksize(&attributes, stack_bytes);
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(ret, &attributes, run, s);
	if (r == EINVAL && stack_bytes > 0) { /* too small for the program's thread-local storage */
		r = pthread_create(ret, NULL, run, s);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return r;
}

int thread_start(void *(*f)(void *), void *argument, size_t stack_bytes, struct thread *ret)
{
	struct start s = { f, argument, ret, 0 };
	pthread_t id;
	int r;

	if (ret) {
		atomic_store(&ret->over, RUNS);
	}
	r = create(&s, stack_bytes, &id);
	if (r != 0) {
		return -r;
	}
	pthread_setname_np(id, "gpuctr");
	if (ret) {
		ret->id = id;
	} else {
		pthread_detach(id);
	}
	while (!atomic_load(&s.taken)) {
		futex_wait(&s.taken, 0, NULL);
	}
	return 0;
}

void thread_join(struct thread *t)
{
	while (atomic_load(&t->over) == RUNS) {
		futex_wait(&t->over, RUNS, NULL);
	}
	if (atomic_load(&t->over) == ENDS) {
		pthread_join(t->id, NULL);
	}
}

void thread_pause(uint64_t ns)
{
	_Atomic uint32_t never = 0;
	struct timespec t = clock_timespec(ns);

	futex_wait(&never, 0, &t);
}

void thread_stay(void)
{
	_Atomic uint32_t never = 0;

	for (;;) {
		futex_wait(&never, 0, NULL);
	}
}
