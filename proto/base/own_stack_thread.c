/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/own_stack.h"

#include <pthread.h>
#include <signal.h>

/* For builds with a sanitizer, which knows only the stacks of threads. */

struct call {
	void (*f)(void *argument);
	void *argument;
};

static void *begin(void *argument)
{
	const struct call *call = argument;

	call->f(call->argument);
	return NULL;
}

static bool run(size_t bytes, struct call *call)
{
	pthread_attr_t attributes;
	pthread_t thread;
	bool started;

	if (pthread_attr_init(&attributes) != 0) {
		return false;
	}
	started = pthread_attr_setstacksize(&attributes, bytes) == 0 &&
		  pthread_create(&thread, &attributes, begin, call) == 0;
	pthread_attr_destroy(&attributes);
	return started && pthread_join(thread, NULL) == 0;
}

/* Frames are larger with a sanitizer. */
bool own_stack_run(size_t bytes, void (*f)(void *argument), void *argument)
{
	struct call call = { f, argument };
	sigset_t all, before;
	bool done;

	if (bytes > OWN_STACK_MAX_BYTES - OWN_STACK_BYTES) {
		return false;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	done = run(2 * bytes + 2 * OWN_STACK_BYTES, &call);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return done;
}
