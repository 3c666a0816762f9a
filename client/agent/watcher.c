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
	uint64_t by_ns = clock_now_ns() + TICK_MS * CLOCK_NS_PER_MS;
	bool over;

	lock_acquire(&w->lock);
	while (!w->over && lock_wait_until(&w->lock, &w->wake, by_ns)) {
	}
	over = w->over;
	lock_release(&w->lock);
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

	lock_init(&w->lock, LOCK_LEAF);
	lock_cond_init(&w->wake);
	w->over = false;
	w->runs = agent_thread(run, c, STACK_BYTES, &w->thread) == 0;
}

void watcher_end(struct capture *c)
{
	struct watcher *w = &c->watcher;

	lock_acquire(&w->lock);
	w->over = true;
	pthread_cond_signal(&w->wake);
	lock_release(&w->lock);
	if (w->runs) {
		pthread_join(w->thread, NULL);
	}
	w->runs = false;
	pthread_cond_destroy(&w->wake);
	lock_deinit(&w->lock);
}
