/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/section.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/agent/capture.h"
#include "proto/base/clock.h"

/* A thread that enters first writes v->capture and then checks that this capture is still the open
 * one. The thread that closes a capture first sets open_capture = NULL and then checks every
 * v->capture. All accesses are sequentially consistent, so at least one of the two sees the other.
 *
 * A measured launch is one section, from CUPTI's callback before it to the one after it, so the
 * launch keeps its capture alive. Structures of threads that have ended are reused and never freed,
 * because other threads read the list without a lock. */

enum {
	DECISION_MS = 1000
}; /* a time limit, because the closing thread may wait for a driver lock that we hold */

static _Atomic(struct capture *) open_capture;
static atomic_bool undecided; /* sections_close() may still reopen the capture */
static _Atomic(struct section *) sections;
static __thread struct section *mine;
static pthread_key_t key;
static bool has_key; /* without a key the structure of a thread that ended is not reused */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void forget(struct section *v, uint32_t number)
{
	const size_t begin = offsetof(struct section, number);

	memset((char *)v + begin, 0, sizeof(*v) - begin);
	v->number = number;
}

static void give_back(void *p)
{
	struct section *v = p;

	mine = NULL;
	atomic_store(&v->capture, NULL);
	atomic_store(&v->taken, false);
}

static void make_key(void)
{
	has_key = pthread_key_create(&key, give_back) == 0;
}

static struct section *take_left(void)
{
	for (struct section *v = atomic_load(&sections); v; v = v->next) {
		bool taken = false;

		if (atomic_compare_exchange_strong(&v->taken, &taken, true)) {
			v->thread_id = 0;
			atomic_store(&v->in_callback, false);
			atomic_store(&v->interruptions, 0);
			v->copies = (struct copy_pass){ 0 };
			forget(v, 0);
			return v;
		}
	}
	return NULL;
}

static struct section *make(void)
{
	struct section *v = take_left();

	if (!v && (v = calloc(1, sizeof(*v))) != NULL) {
		atomic_store(&v->taken, true);
		v->next = atomic_load(&sections);
		while (!atomic_compare_exchange_weak(&sections, &v->next, v)) {
		}
	}
	pthread_once(&once, make_key);
	if (v && has_key) {
		pthread_setspecific(key, v);
	}
	return v;
}

struct section *section_of_thread(void)
{
	struct section *v = mine;

	if (!v) {
		mine = v = make();
	}
	return v;
}

struct capture *section_begin(struct section *v)
{
	struct capture *c;

	do {
		c = atomic_load(&open_capture);
		atomic_store(&v->capture, c);
	} while (c != atomic_load(&open_capture));
	if (c && v->number != c->number) {
		atomic_store(&v->interruptions, 0); /* they belong to another capture */
		forget(v, c->number);
	}
	return c;
}

struct capture *section_begin_surely(struct section *v)
{
	const struct timespec pause = { 0, 100 * 1000 };
	uint64_t by_ns = clock_now_ns() + DECISION_MS * CLOCK_NS_PER_MS;
	struct capture *c = section_begin(v);
	int cancel;

	/* A cancellation here would leave locks of the driver and CUPTI locked. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	while (!c && atomic_load(&undecided) && clock_now_ns() < by_ns) {
		nanosleep(&pause, NULL);
		c = section_begin(v);
	}
	pthread_setcancelstate(cancel, NULL);
	return c;
}

void section_end(struct section *v)
{
	atomic_store_explicit(&v->capture, NULL, memory_order_release);
}

struct capture *section_enter(struct section **ret)
{
	struct section *v = section_of_thread();
	struct capture *c = v ? atomic_load_explicit(&v->capture, memory_order_relaxed) : NULL;

	*ret = c ? NULL : v; /* NULL: a thread that already was in a section stays in it */
	return v && !c ? section_begin(v) : c;
}

void section_leave(struct section *v)
{
	if (v) {
		section_end(v);
	}
}

void sections_open(struct capture *c)
{
	atomic_store(&open_capture, c);
	atomic_store(&undecided, false);
}

static bool has_threads(const struct capture *c)
{
	for (struct section *v = atomic_load(&sections); v; v = v->next) {
		if (atomic_load(&v->capture) == c) {
			return true;
		}
	}
	return false;
}

bool sections_close(struct capture *c)
{
	atomic_store(&undecided, true);
	atomic_store(&open_capture, NULL);
	if (has_threads(c)) {
		sections_open(c);
		return false;
	}
	return true;
}

void sections_closed(void)
{
	atomic_store(&undecided, false);
}

bool sections_are_open(const struct capture *c)
{
	return atomic_load(&open_capture) == c;
}

void sections_forget(void)
{
	atomic_store(&open_capture, NULL);
}
