/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/granter/thread.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A call belongs to the loop until thread_give(), to the thread until it is done, and then to the
 * loop again. All threads are started before the filter, which forbids clone(); a waiting thread
 * costs a few pages. Threads share only the descriptor that wakes the loop. */

enum { STACK_BYTES = 256 << 10 };

struct thread {
	sem_t given;
	_Atomic bool done;
	struct call call;
};

static struct {
	struct thread all[THREADS];
	sem_t running;
	int done; /* an eventfd */
} threads = { .done = -1 };

/* Without this wake-up the loop would believe for ever that the call hangs. So when the wake-up
 * fails, the process ends, and the supervisor replaces it. */
static void wake_loop(void)
{
	static const uint64_t one = 1;
	ssize_t n;

	do {
		n = write(threads.done, &one, sizeof(one));
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EAGAIN) {
		_exit(1);
	}
}

static void *run(void *argument)
{
	struct thread *h = argument;

	sem_post(&threads.running);
	for (;;) {
		while (sem_wait(&h->given) < 0) {
		}
		call_do(&h->call);
		atomic_store(&h->done, true);
		wake_loop();
	}
	return NULL;
}

static int start_all(const pthread_attr_t *attributes)
{
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_t thread;
		int r = sem_init(&threads.all[i].given, 0, 0) < 0
				? errno
				: pthread_create(&thread, attributes, run, &threads.all[i]);

		if (r != 0) {
			return -r;
		}
	}
	/* Waits until the threads run: while they start, libc makes system calls that the filter
	 * forbids later. */
	for (unsigned i = 0; i < THREADS; i++) {
		while (sem_wait(&threads.running) < 0 && errno == EINTR) {
		}
	}
	return 0;
}

int threads_start(void)
{
	pthread_attr_t attributes;
	int r;

	threads.done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (threads.done < 0 || sem_init(&threads.running, 0, 0) < 0) {
		return -errno;
	}
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	r = start_all(&attributes);
	pthread_attr_destroy(&attributes);
	return r;
}

int threads_fd(void)
{
	return threads.done;
}

void threads_acknowledge(void)
{
	uint64_t n;

	while (read(threads.done, &n, sizeof(n)) < 0 && errno == EINTR) {
	}
}

void thread_give(unsigned thread, const struct call *call)
{
	struct thread *h = &threads.all[thread];

	h->call = *call;
	atomic_store(&h->done, false);
	sem_post(&h->given);
}

bool thread_take(unsigned thread, struct call *ret)
{
	struct thread *h = &threads.all[thread];

	if (!atomic_load(&h->done)) {
		return false;
	}
	*ret = h->call;
	return true;
}
