/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/permission.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "client/agent/ask.h"
#include "client/agent/confined.h"
#include "client/agent/control.h"
#include "client/agent/lock.h"
#include "client/agent/slot.h"
#include "proto/base/clock.h"

/* libcuda imports ioctl from libc and makes the allocation itself, so the agent changes only one
 * slot of its global offset table: nothing is preloaded, no code is patched, and no other library's
 * calls are seen. Every ioctl except the allocation of a profiler object goes to the driver
 * unchanged. If the daemon cannot be asked, the allocation goes to the driver as well.
 *
 * The program's thread that makes the allocation does not ask the daemon itself, because a filter
 * may kill it if it opens a connection (confined.h). The control thread asks for all threads, over
 * a connection for each request: CUPTI makes two or three requests in a program's life, and none of
 * them may wait behind records. */

typedef int (*ioctl_function)(int fd, unsigned long request, ...);

struct request {
	struct allocation allocation;
	int error;
	uint32_t status;
};

static struct {
	_Atomic(ioctl_function) next;
	atomic_bool forked; /* in a forked child without exec, which has no control thread */
	atomic_bool asks;   /* a capture is under way */
	struct lock lock;   /* protects the members below */
	struct question question;
	struct refusal refusal;
	struct slot slot; /* slot.slot NULL: libcuda's import is not redirected */
	void *before;	  /* previous content of the slot */
} permission = { .lock = LOCK_INITIALIZER(LOCK_LEAF) };

void permission_last_refusal(struct refusal *ret)
{
	LOCK_SCOPE(&permission.lock);
	*ret = permission.refusal;
}

/* --- requests --- */

static struct question read_question(void)
{
	LOCK_SCOPE(&permission.lock);
	return permission.question;
}

/* On the control thread. */
static void carry_out(void *argument)
{
	struct request *w = argument;
	struct question question = read_question();
	struct refusal refusal = { 0 };

	if (confined_is()) {
		confined_refusal(&refusal);
		w->error = -EACCES;
	} else {
		w->error = ask_daemon(&question, &w->allocation, &w->status, &refusal);
	}
	if (w->error == 0 || refusal.code != 0) {
		LOCK_SCOPE(&permission.lock);
		permission.refusal = refusal;
	}
}

/* True: the daemon has answered the request. */
static bool forward(int fd, unsigned long request, void *argument)
{
	struct request w = { .error = -ENOENT };

	if (!ask_is_allocation(fd, request, argument, &w.allocation) ||
	    atomic_load(&permission.forked) || !atomic_load(&permission.asks)) {
		return false;
	}
	control_do(carry_out, &w, ASK_TIMEOUT_S * CLOCK_NS_PER_S);
	if (w.error < 0) {
		return false;
	}
	ask_answer(request, argument, w.status);
	return true;
}

static int ioctl_hook(int fd, unsigned long request, ...)
{
	int saved = errno, cancel;
	void *argument;
	va_list ap;
	bool answered;

	va_start(ap, request);
	argument = va_arg(ap, void *);
	va_end(ap);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE,
			       &cancel); /* libcuda holds locks around this */
	answered = forward(fd, request, argument);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
	if (answered) {
		return 0;
	}
	return atomic_load(&permission.next)(fd, request, argument);
}

/* --- in and out --- */

/* With the lock. */
static int put_hook_in(struct refusal *r)
{
	struct slot slot;
	void *now;

	if (!slot_find(&slot)) {
		refusal_set(r, GPUCTR_E_DRIVER_TOO_OLD, "Report the driver's version.",
			    "libcuda does not import ioctl as drivers 535 to 580 do");
		return r->code;
	}
	/* Calls libc's ioctl and not the slot's content, which may still be the loader's stub. */
	now = dlsym(RTLD_DEFAULT, "ioctl");
	atomic_store(&permission.next, (ioctl_function)(uintptr_t)now);
	permission.before = __atomic_load_n(slot.slot, __ATOMIC_SEQ_CST);
	if (!now || slot_write(&slot, (void *)(uintptr_t)ioctl_hook) < 0) {
		refusal_set(r, GPUCTR_E_INTERNAL, "",
			    "libcuda's import of ioctl could not be redirected");
		return r->code;
	}
	permission.slot = slot;
	return 0;
}

static int tell_no_thread(int error, struct refusal *r)
{
	refusal_set(r, GPUCTR_E_INTERNAL,
		    "Raise the program's limits of memory and of processes (ulimit -v, -u).",
		    "no thread could be started in the program (%s)", strerror(-error));
	return r->code;
}

int permission_install(const char *socket_path, const char *token, struct refusal *r)
{
	int error = control_start();

	if (error < 0) {
		return tell_no_thread(error, r);
	}
	LOCK_SCOPE(&permission.lock);
	permission.refusal = (struct refusal){ 0 };
	snprintf(permission.question.socket_path, sizeof(permission.question.socket_path), "%s",
		 socket_path);
	snprintf(permission.question.token, sizeof(permission.question.token), "%s", token);
	if (!permission.slot.slot && put_hook_in(r) != 0) {
		return r->code;
	}
	atomic_store(&permission.asks, true);
	return 0;
}

/* Calls that are inside the hook continue there, so our code stays loaded, and `next` stays set. If
 * another library has replaced our hook in the slot, the slot stays as it is, and our hook only
 * passes calls on. */
void permission_remove(void)
{
	LOCK_SCOPE(&permission.lock);
	atomic_store(&permission.asks, false);
	memset(&permission.question, 0, sizeof(permission.question));
	if (permission.slot.slot &&
	    __atomic_load_n(permission.slot.slot, __ATOMIC_SEQ_CST) ==
		    (void *)(uintptr_t)ioctl_hook &&
	    slot_write(&permission.slot, permission.before) == 0) {
		permission.slot.slot = NULL;
	}
}

void permission_forget(void)
{
	atomic_store(&permission.forked, true);
}
