/* SPDX-License-Identifier: Apache-2.0 */
/* libgpuctr-permit.so: lets another profiler use the counters, in programs that `gpuctr-client
 * permit` starts.
 *
 * It is preloaded, so that every library of a program calls its ioctl(): libcuda, other injected
 * libraries, and profilers that ask the driver from a process without CUDA. Or libcuda loads it by
 * CUDA_INJECTION64_PATH within the first cuInit(): then it redirects the one slot through which
 * libcuda calls ioctl, as the agent does.
 *
 * It sends an allocation of a profiler object to the daemon, with the driver's file on which the
 * allocation is made; every other ioctl goes to the driver unchanged. If the daemon cannot be
 * asked, the allocation goes to the driver as well. It prints nothing, starts no thread and keeps
 * nothing open. */

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/agent/ask.h"
#include "client/agent/confined.h"
#include "client/agent/slot.h"

#define PERMIT_EXPORT __attribute__((visibility("default")))

typedef int (*ioctl_function)(int fd, unsigned long request, ...);

PERMIT_EXPORT int InitializeInjection(void);
PERMIT_EXPORT void gpuctr_permit_keeps_asking(void);

static struct {
	_Atomic(ioctl_function) next;
	bool asks;
	struct question question;
	struct filters filters; /* filters of the thread that loaded the library */
} permit;

static int call_kernel(int fd, unsigned long request, ...)
{
	void *argument;
	va_list ap;

	va_start(ap, request);
	argument = va_arg(ap, void *);
	va_end(ap);
	return (int)syscall(SYS_ioctl, fd, request, argument);
}

static int own_ioctl(int fd, unsigned long request, ...);

/* The next ioctl(): libc's, or that of another preloaded library. */
static void find_next(void)
{
	void *next = dlsym(RTLD_DEFAULT, "ioctl");

	if (!next || next == (void *)(uintptr_t)own_ioctl) {
		next = dlsym(RTLD_NEXT, "ioctl");
	}
	atomic_store(&permit.next, next ? (ioctl_function)(uintptr_t)next : call_kernel);
}

/* secure_getenv() ignores the variables in a set-uid program. */
__attribute__((constructor)) static void begin(void)
{
	const char *socket_path = secure_getenv("GPUCTR_PERMIT_SOCKET"),
		   *token = secure_getenv("GPUCTR_PERMIT");
	struct question *q = &permit.question;

	find_next();
	if (!socket_path || !token ||
	    snprintf(q->socket_path, sizeof(q->socket_path), "%s", socket_path) >=
		    (int)sizeof(q->socket_path) ||
	    snprintf(q->token, sizeof(q->token), "%s", token) >= (int)sizeof(q->token)) {
		return;
	}
	permit.filters = filters_of_thread();
	permit.asks = true;
}

/* The asking thread may have come under a new filter, which kills it if it opens a connection. */
static bool may_ask(void)
{
	return permit.asks && !filters_differ(permit.filters, filters_of_thread());
}

/* True: the daemon has answered. Recognises an allocation by request number and device, because
 * another device may use the same number with another struct. */
static bool forward(int fd, unsigned long request, void *argument)
{
	int saved = errno, cancel;
	struct allocation a;
	struct refusal refusal;
	uint32_t status;
	bool answered;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	answered = rm_is_control_device(fd) && ask_is_allocation(fd, request, argument, &a) &&
		   may_ask() && ask_daemon(&permit.question, &a, &status, &refusal) == 0;
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
	if (answered) {
		ask_answer(request, argument, status);
	}
	return answered;
}

/* Libraries whose constructors run before ours may already call this. */
static int own_ioctl(int fd, unsigned long request, ...)
{
	ioctl_function next = atomic_load(&permit.next);
	void *argument;
	va_list ap;

	va_start(ap, request);
	argument = va_arg(ap, void *);
	va_end(ap);
	if ((request == RM_IOCTL_ALLOC || request == RM_IOCTL_ALLOC_SHORT) &&
	    forward(fd, request, argument)) {
		return 0;
	}
	return next ? next(fd, request, argument) : call_kernel(fd, request, argument);
}

PERMIT_EXPORT int ioctl(int fd, unsigned long request, ...) __attribute__((alias("own_ioctl")));

/* A program calls this after loading a filter that allows the system calls of asking. */
void gpuctr_permit_keeps_asking(void)
{
	permit.filters = filters_of_thread();
}

/* libcuda calls this if CUDA_INJECTION64_PATH names the library. A failure does not affect the
 * program. */
int InitializeInjection(void)
{
	struct slot slot;

	if (dlsym(RTLD_DEFAULT, "ioctl") != (void *)(uintptr_t)own_ioctl && slot_find(&slot)) {
		slot_write(&slot, (void *)(uintptr_t)own_ioctl);
	}
	return 1;
}
