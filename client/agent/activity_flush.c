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

/* Also the buffers in which a kernel has not ended: the others in it have. */
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

/* Whoever divides samples waits for copies and kernels that no launch waits for: a thread that
 * makes few may take minutes to fill a buffer. */
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

/* How many buffers that CUPTI had at the mark have not come back. Each comes when it is full, or in
 * a flush, and all kernels in it have ended. */
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

/* CUPTI does not say who has registered: cuptiActivityFlushAll() succeeds also where nobody has,
 * against cupti_activity.h (H200, CUPTI 2025.3), and so does every other call. Where the program
 * was first our callbacks replace its own: CUPTI gives us the buffers that it has of the program's.
 * They are left alone, and show it; nothing does where CUPTI has none yet. Where it comes later
 * CUPTI gives it our buffers, which it reads and frees, and asks it for those that follow. That
 * shows: records are missing, and even a forced flush, which returns every buffer, brings none of
 * those that CUPTI has from us, if it has asked for any. From then on nothing is turned off any
 * more, because the program may have turned it on as well. */

enum { PAUSE_MS = 4 };

/* CUPTI has buffers of ours, or has not asked for one though kernels were launched, and has
 * returned none since the last time that this was asked. */
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

/* CUPTI asks others for buffers, or nobody yet. */
static bool is_unasked(struct activity *v)
{
	LOCK_SCOPE(&v->lock);
	return v->started && v->others.registered && v->others.n_asked == 0;
}

/* Where CUPTI has asked us for nothing, a forced flush would only return others' buffers, which is
 * dangerous for them (buffers.c). */
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

/* Once while it stays so: a kernel that has not ended loses its time to a forced flush. */
void activity_look_for_others(struct activity *v, bool missing, unsigned patience)
{
	struct others *o = &v->others;

	o->silent = is_silent(v) && missing ? o->silent + 1 : 0;
	if (o->silent == patience && !o->are_there) {
		flush_and_look(v);
	}
}

/* Where nothing has shown it yet, nobody waits here: that CUPTI does not return what it has of ours
 * shows a moment later as well (activity_flush_out()), and the program has lost little. Records may
 * be late. */
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
