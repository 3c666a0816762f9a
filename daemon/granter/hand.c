/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/granter/hand.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* An errand belongs to the loop until it is given, to the hand until it is done, and then to the
 * loop again. All threads are started before the filter, which forbids clone(); a thread that waits
 * costs a few pages. Threads share nothing but the descriptor that wakes the loop. */

enum { STACK_BYTES = 256 << 10 };

struct hand {
	sem_t given;
	_Atomic bool done;
	struct errand errand;
};

static struct {
	struct hand all[HANDS];
	sem_t running;
	int done; /* an eventfd */
} hands = { .done = -1 };

/* Without this wake-up the loop would take the errand for a call that hangs, for ever. So when it
 * fails the process ends, and is replaced. */
static void wake_loop(void)
{
	static const uint64_t one = 1;
	ssize_t n;

	do {
		n = write(hands.done, &one, sizeof(one));
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EAGAIN) {
		_exit(1);
	}
}

static void *run(void *argument)
{
	struct hand *h = argument;

	sem_post(&hands.running);
	for (;;) {
		while (sem_wait(&h->given) < 0) {
		}
		errand_do(&h->errand);
		atomic_store(&h->done, true);
		wake_loop();
	}
	return NULL;
}

static int start_all(const pthread_attr_t *attributes)
{
	for (unsigned i = 0; i < HANDS; i++) {
		pthread_t thread;
		int r = sem_init(&hands.all[i].given, 0, 0) < 0
				? errno
				: pthread_create(&thread, attributes, run, &hands.all[i]);

		if (r != 0) {
			return -r;
		}
	}
	/* Waits until the threads run: starting makes libc call what the filter may forbid a moment
	 * later. */
	for (unsigned i = 0; i < HANDS; i++) {
		while (sem_wait(&hands.running) < 0 && errno == EINTR) {
		}
	}
	return 0;
}

int hands_start(void)
{
	pthread_attr_t attributes;
	int r;

	hands.done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (hands.done < 0 || sem_init(&hands.running, 0, 0) < 0) {
		return -errno;
	}
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	r = start_all(&attributes);
	pthread_attr_destroy(&attributes);
	return r;
}

int hands_fd(void)
{
	return hands.done;
}

void hands_acknowledge(void)
{
	uint64_t n;

	while (read(hands.done, &n, sizeof(n)) < 0 && errno == EINTR) {
	}
}

void hand_give(unsigned hand, const struct errand *errand)
{
	struct hand *h = &hands.all[hand];

	h->errand = *errand;
	atomic_store(&h->done, false);
	sem_post(&h->given);
}

bool hand_take(unsigned hand, struct errand *ret)
{
	struct hand *h = &hands.all[hand];

	if (!atomic_load(&h->done)) {
		return false;
	}
	*ret = h->errand;
	return true;
}
