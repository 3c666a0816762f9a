/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/activity_flush.h"

#include <time.h>

#include "client/agent/activity.h"
#include "proto/base/clock.h"

enum {
	PAUSE_OUT_MS = 4,
	FORCED_EVERY_MS = 1000,
	HEAR_EVERY_MS = 1000,
};

void activity_do_while_quiet(struct activity *v, void (*act)(void *argument))
{
	if (v->while_quiet) {
		v->while_quiet(v->userdata, act, v);
	} else {
		act(v);
	}
}

/* The buffers in which all kernels have ended. */
static void flush(void *argument)
{
	struct activity *v = argument;

	v->profiler->cuptiActivityFlushAll(0);
}

bool activity_is_started(struct activity *v)
{
	LOCK_SCOPE(&v->lock);
	return v->started;
}

void activity_flush(struct activity *v)
{
	if (activity_is_started(v)) {
		flush(v);
	}
}

void activity_flush_quietly(struct activity *v)
{
	activity_do_while_quiet(v, flush);
}

/* Also the buffers with a kernel that has not ended, for the sake of the other kernels in them. */
static void flush_all(void *argument)
{
	struct activity *v = argument;

	lock_acquire(&v->lock);
	v->buffers.forcing++;
	lock_release(&v->lock);
	v->profiler->cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	lock_acquire(&v->lock);
	v->buffers.forcing--;
	lock_release(&v->lock);
	v->forced_ns = clock_now_ns();
}

bool activity_is_ending(const struct activity *v)
{
	return v->is_ending && v->is_ending(v->userdata);
}

void activity_flush_forced(struct activity *v)
{
	if (activity_is_ending(v) ||
	    clock_now_ns() >= v->forced_ns + FORCED_EVERY_MS * CLOCK_NS_PER_MS) {
		activity_do_while_quiet(v, flush_all);
	}
}

/* The client also needs copies that no batch waits for; their buffer may take minutes to fill. */
bool activity_hear(struct activity *v)
{
	uint64_t now_ns = clock_now_ns();
	bool hears;

	lock_acquire(&v->lock);
	hears = v->started && v->copying && now_ns >= v->heard_ns + HEAR_EVERY_MS * CLOCK_NS_PER_MS;
	v->heard_ns = hears ? now_ns : v->heard_ns;
	lock_release(&v->lock);
	if (hears) {
		flush(v);
	}
	return hears;
}

/* The number of buffers that CUPTI had at the mark and has not returned. CUPTI returns a buffer
 * once it is full or in a flush, when all kernels in it have ended. */
static size_t count_marked(struct activity *v)
{
	LOCK_SCOPE(&v->lock);
	return v->buffers.n_marked;
}

bool activity_flush_out(struct activity *v, unsigned patience_ms)
{
	const struct timespec pause = { 0, PAUSE_OUT_MS * CLOCK_NS_PER_MS };
	uint64_t until_ns = clock_now_ns() + patience_ms * CLOCK_NS_PER_MS;
	size_t marked;

	lock_acquire(&v->lock);
	buffers_mark(&v->buffers);
	marked = v->buffers.n_marked;
	lock_release(&v->lock);
	flush(v);
	while (count_marked(v) > 0 && clock_now_ns() < until_ns) {
		nanosleep(&pause, NULL);
		flush(v);
	}
	if (count_marked(v) > 0) {
		flush_all(v);
	}
	return marked == 0 || count_marked(v) < marked;
}

/* CUPTI does not report who has registered: cuptiActivityFlushAll(), like every other call,
 * succeeds even if nobody has, contrary to cupti_activity.h (H200, CUPTI 2025.3). If the program
 * registered first, our callbacks replace its own, and CUPTI gives us the program's buffers, if it
 * has any: such a buffer shows that the program was first, and the agent leaves it alone. If the
 * program registers later, CUPTI gives it our buffers, which the program reads and frees, and asks
 * it for new ones. The agent notices that records are missing, and that even a forced flush, which
 * returns every buffer, brings none of ours. From then on the agent turns no tracing off, because
 * the program may have turned it on as well. */

enum { PAUSE_MS = 4 };

/* True: CUPTI has returned no buffer since the last call of this function, though it has some of
 * ours, or it has asked for none though kernels were launched. */
static bool is_silent(struct activity *v)
{
	struct others *o = &v->others;
	bool silent;

	LOCK_SCOPE(&v->lock);
	silent = o->n_heard == o->n_heard_before &&
		 (v->buffers.n_given > 0 || (o->n_asked == 0 && atomic_load(&o->expected)));
	o->n_heard_before = o->n_heard;
	return silent;
}

/* True: CUPTI has not asked us for buffers: it asks others, or nobody yet. */
static bool is_unasked(struct activity *v)
{
	LOCK_SCOPE(&v->lock);
	return v->started && v->others.registered && v->others.n_asked == 0;
}

/* If CUPTI has asked us for no buffer, a forced flush would only return other users' buffers, which
 * is dangerous for them (buffers.c). */
static void flush_and_look(struct activity *v)
{
	uint64_t forced_ns = v->forced_ns;

	if (is_unasked(v)) {
		v->others.are_there = true;
		return;
	}
	activity_flush_forced(v);
	v->others.are_there = v->forced_ns != forced_ns && is_silent(v);
}

/* Looks once while CUPTI is silent: a kernel that has not ended loses its time to a forced flush.
 */
void activity_look_for_others(struct activity *v, bool missing, unsigned patience)
{
	struct others *o = &v->others;

	o->silent = is_silent(v) && missing ? o->silent + 1 : 0;
	if (o->silent == patience && !o->are_there) {
		flush_and_look(v);
	}
}

/* Does not wait if no sign of other users has been seen yet: activity_flush_out() soon notices
 * whether CUPTI returns our buffers, and the program has lost little. Otherwise waits, because
 * records may only be late. */
void activity_look_for_others_at_end(struct activity *v, unsigned patience_ms)
{
	const struct timespec pause = { 0, PAUSE_MS * CLOCK_NS_PER_MS };
	uint64_t until_ns = clock_now_ns() + patience_ms * CLOCK_NS_PER_MS;

	if (!v->spans.v || v->others.are_there || (v->others.silent == 0 && !is_unasked(v))) {
		return;
	}
	is_silent(v);
	flush(v);
	while (is_silent(v)) {
		if (clock_now_ns() >= until_ns) {
			v->forced_ns = 0;
			flush_and_look(v);
			return;
		}
		nanosleep(&pause, NULL);
		flush(v);
	}
}
