/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/thread.h"

#include <errno.h>
#include <signal.h>

int thread_start(void *(*run)(void *), void *argument, size_t stack_bytes, pthread_t *ret)
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
	r = pthread_create(ret, &attributes, run, argument);
	if (r == EINVAL && stack_bytes > 0) { /* too small for the program's thread-local storage */
		r = pthread_create(ret, NULL, run, argument);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (r == 0) {
		pthread_setname_np(*ret, "gpuctr");
	}
	return -r;
}
