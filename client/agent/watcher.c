/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/watcher.h"

#include <errno.h>

#include "client/agent/agent.h"
#include "client/agent/watch.h"
#include "proto/base/clock.h"

enum { STACK_BYTES = 128 * 1024, TICK_MS = 250 };

/* False: it is over. */
static bool wait_a_tick(struct watcher *w)
{
	struct timespec by = clock_timespec(clock_now_ns() + TICK_MS * CLOCK_NS_PER_MS);
	bool over;

	pthread_mutex_lock(&w->lock);
	while (!w->over && pthread_cond_timedwait(&w->wake, &w->lock, &by) != ETIMEDOUT) {
	}
	over = w->over;
	pthread_mutex_unlock(&w->lock);
	return !over;
}

static void *run(void *argument)
{
	struct capture *c = argument;

	while (wait_a_tick(&c->watcher)) {
		watch_calls(c);
	}
	return NULL;
}

void watcher_begin(struct capture *c)
{
	struct watcher *w = &c->watcher;
	pthread_condattr_t monotonic;

	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&w->wake, &monotonic);
	pthread_condattr_destroy(&monotonic);
	w->over = false;
	w->runs = agent_thread(run, c, STACK_BYTES, &w->thread) == 0;
}

void watcher_end(struct capture *c)
{
	struct watcher *w = &c->watcher;

	pthread_mutex_lock(&w->lock);
	w->over = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	if (w->runs) {
		pthread_join(w->thread, NULL);
	}
	w->runs = false;
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->lock);
}
