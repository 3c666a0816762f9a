/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/visits.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "client/agent/capture.h"
#include "proto/base/clock.h"

/* A thread that comes in says where it goes (v->capture), and then looks whether that is still the
 * open one; who closes a capture takes it away first (open = NULL), and then looks whether somebody
 * has said to be in it. Both are sequentially consistent, so one of the two sees the other.
 *
 * A launch is one visit, from CUPTI's callback before it to the one after it: so a launch that is
 * under way keeps its capture alive. Visits of threads that have ended are used again and never
 * freed, because the list is read without a lock. */

enum { DECISION_MS = 1000 }; /* who closes may want the driver, which may be waiting for us */

static _Atomic(struct capture *) open_capture;
static atomic_bool undecided; /* whether it stays closed */
static _Atomic(struct visit *) visits;
static __thread struct visit *mine;
static pthread_key_t key;
static bool has_key; /* without one the visit of a thread that ended is not used again */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void give_back(void *p)
{
	struct visit *v = p;

	mine = NULL;
	atomic_store(&v->capture, NULL);
	atomic_store(&v->taken, false);
}

static void make_key(void)
{
	has_key = pthread_key_create(&key, give_back) == 0;
}

static struct visit *take_left(void)
{
	for (struct visit *v = atomic_load(&visits); v; v = v->next) {
		bool taken = false;

		if (atomic_compare_exchange_strong(&v->taken, &taken, true)) {
			v->thread_id = v->number = v->nested = 0;
			v->launching = NULL;
			v->call_ns = 0;
			return v;
		}
	}
	return NULL;
}

static struct visit *make(void)
{
	struct visit *v = take_left();

	if (!v && (v = calloc(1, sizeof(*v))) != NULL) {
		atomic_store(&v->taken, true);
		v->next = atomic_load(&visits);
		while (!atomic_compare_exchange_weak(&visits, &v->next, v)) {
		}
	}
	pthread_once(&once, make_key);
	if (v && has_key) {
		pthread_setspecific(key, v);
	}
	return v;
}

struct visit *visit_of_thread(void)
{
	mine = mine ? mine : make();
	return mine;
}

struct capture *visit_begin(struct visit *v)
{
	struct capture *c;

	do {
		c = atomic_load(&open_capture);
		atomic_store(&v->capture, c);
	} while (c != atomic_load(&open_capture));
	if (c && v->number != c->number) {
		v->number = c->number;
		v->launching = NULL;
		v->call_ns = 0;
		v->last_context = v->other = NULL;
		v->others_within = 0;
		v->begins = v->ends = false;
		v->last_stream.known = false;
		v->path = (struct path){ .next = 0 };
		v->times = (struct callback_times){ 0 };
		v->observation = (struct observation){ .open = false };
	}
	return c;
}

struct capture *visit_begin_surely(struct visit *v)
{
	const struct timespec pause = { 0, 100 * 1000 };
	uint64_t by_ns = clock_now_ns() + DECISION_MS * CLOCK_NS_PER_MS;
	struct capture *c = visit_begin(v);

	while (!c && atomic_load(&undecided) && clock_now_ns() < by_ns) {
		nanosleep(&pause, NULL);
		c = visit_begin(v);
	}
	return c;
}

void visit_end(struct visit *v)
{
	atomic_store_explicit(&v->capture, NULL, memory_order_release);
}

void visits_open(struct capture *c)
{
	atomic_store(&open_capture, c);
	atomic_store(&undecided, false);
}

static bool is_visited(const struct capture *c)
{
	for (struct visit *v = atomic_load(&visits); v; v = v->next) {
		if (atomic_load(&v->capture) == c) {
			return true;
		}
	}
	return false;
}

bool visits_close(struct capture *c)
{
	atomic_store(&undecided, true);
	atomic_store(&open_capture, NULL);
	if (is_visited(c)) {
		visits_open(c);
		return false;
	}
	return true;
}

void visits_closed(void)
{
	atomic_store(&undecided, false);
}

bool visits_are_open(const struct capture *c)
{
	return atomic_load(&open_capture) == c;
}

void visits_forget(void)
{
	atomic_store(&open_capture, NULL);
}
