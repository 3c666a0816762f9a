/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/contexts.h"

#include <stdlib.h>
#include <time.h>

#include "client/agent/capture.h"
#include "client/agent/lock.h"
#include "proto/base/clock.h"

/* A launch may hang with its context's lock held, or be interrupted for good by the signal handler
 * that exits: such a context is left alone after some patience, and counted as busy. */

enum { LOCK_PATIENCE_MS = 500, STOP_PATIENCE_MS = 2000, FLUSH_AFTER_MS = 1000 };

/* With the capture's lock. A context that ended has none of the handles that are compared. */
static struct ranges *find(struct capture *c, CUcontext context)
{
	struct ranges *found = NULL;

	list_for_each(l, &c->contexts) {
		struct ranges *r = list_entry(l, struct ranges, link);

		found = r->context == context ? r : found;
	}
	return found;
}

struct ranges *contexts_find(struct capture *c, CUcontext context)
{
	struct ranges *r;

	lock_acquire(&c->lock);
	r = find(c, context);
	if (!r && (r = calloc(1, sizeof(*r))) != NULL) {
		lock_init(&r->lock, LOCK_CONTEXT);
		guard_init(&r->guard);
		r->guard.streams.late = c->late;
		r->context = context;
		r->device = UINT32_MAX;
		ranges_init_turns(c, r);
		list_append(&c->contexts, &r->link);
		atomic_fetch_add(&c->n_contexts, 1);
	}
	lock_release(&c->lock);
	return r;
}

size_t contexts_list(struct capture *c, struct ranges **ret)
{
	size_t n = 0;

	lock_acquire(&c->lock);
	list_for_each(l, &c->contexts) {
		struct ranges *r = list_entry(l, struct ranges, link);

		if (n < CONTEXTS_MAX && r->context) {
			ret[n++] = r;
		}
	}
	lock_release(&c->lock);
	return n;
}

struct ranges *contexts_known(struct capture *c, CUcontext context)
{
	struct ranges *r;

	lock_acquire(&c->lock);
	r = find(c, context);
	lock_release(&c->lock);
	return r;
}

void contexts_remove_stream(struct capture *c, CUstream stream)
{
	struct ranges *contexts[CONTEXTS_MAX];
	size_t n = contexts_list(c, contexts);

	for (size_t i = 0; i < n; i++) {
		streams_remove(&contexts[i]->guard.streams, stream);
	}
}

/* --- end of one --- */

/* The driver waits for its kernels as well. It may be another thread's current context. */
static void let_go_at_end(struct capture *c, struct ranges *r)
{
	CUcontext popped;
	bool done = false;

	if (r->object && c->profiler->cuCtxPushCurrent(r->context) == CUDA_SUCCESS) {
		guard_shut(&r->guard);
		done = guard_is_quiet(c, r, true) && c->method->disable(c, r);
		guard_let_in(&r->guard);
		c->profiler->cuCtxPopCurrent(&popped);
	}
	if (r->object && !done) {
		ranges_abandon(c, r);
	}
}

static void forget(struct ranges *r)
{
	r->state = RANGES_BROKEN;
	r->context = NULL; /* a new context may get the same handle */
	guard_deinit(&r->guard);
	ranges_forget_images(r);
}

/* The driver may hold what the call waits for that somebody is in with the context's lock: then
 * nothing is let go of, and that call fails. */
void contexts_end(struct capture *c, CUcontext context, const struct ranges *except)
{
	struct ranges *found = contexts_known(c, context);

	if (!found || found == except) {
		return;
	}
	if (lock_until(&found->lock, clock_now_ns() + STOP_PATIENCE_MS * CLOCK_NS_PER_MS)) {
		let_go_at_end(c, found);
		forget(found);
		lock_release(&found->lock);
	} else {
		found->context = NULL;
	}
	atomic_fetch_sub(&c->n_contexts, 1);
}

/* --- all of them --- */

/* False: some act was not possible. */
static bool for_each(struct capture *c, uint64_t patience_ns,
		     bool (*act)(struct capture *, struct ranges *), unsigned *ret_busy)
{
	struct ranges *contexts[CONTEXTS_MAX];
	size_t n = contexts_list(c, contexts);
	bool all = true;

	for (size_t i = 0; i < n; i++) {
		struct ranges *r = contexts[i];
		CUcontext popped;

		if (!lock_until(&r->lock, clock_now_ns() + patience_ns)) {
			++*ret_busy;
			continue;
		}
		if (r->object && r->context &&
		    c->profiler->cuCtxPushCurrent(r->context) == CUDA_SUCCESS) {
			all = act(c, r) && all;
			c->profiler->cuCtxPopCurrent(&popped);
		}
		lock_release(&r->lock);
	}
	return all;
}

/* With other work shut out: it might wait for a launch that waits for the lock. */
static bool flush_old(struct capture *c, struct ranges *r)
{
	bool done;

	if (r->state != RANGES_STARTED || r->batch->n == 0 ||
	    clock_now_ns() - r->batch_begin_ns <= FLUSH_AFTER_MS * CLOCK_NS_PER_MS ||
	    !choosing_batch_is_old(&c->choosing)) {
		return true;
	}
	guard_shut(&r->guard);
	done = c->method->flush(c, r);
	guard_let_in(&r->guard);
	return done;
}

void contexts_flush_old(struct capture *c)
{
	unsigned busy = 0;

	for_each(c, 0, flush_old, &busy);
}

/* Whoever comes waits for the call, if it can be made now. */
static bool shut_all_out(struct capture *c, struct ranges *r, const char *call)
{
	CUcontext popped;
	bool may = true;

	guard_shut(&r->guard);
	if (r->object && r->context && c->profiler->cuCtxPushCurrent(r->context) == CUDA_SUCCESS) {
		may = guard_may_block(c, r, false);
		c->profiler->cuCtxPopCurrent(&popped);
	}
	ranges_enter_call(r, call);
	return may;
}

bool contexts_while_quiet(struct capture *c, const char *call, void (*act)(void *argument),
			  void *argument)
{
	struct ranges *contexts[CONTEXTS_MAX];
	size_t n = contexts_list(c, contexts), n_locked = 0;
	bool quiet = true;

	while (quiet && n_locked < n && lock_try(&contexts[n_locked]->lock)) {
		quiet = shut_all_out(c, contexts[n_locked++], call);
	}
	quiet = quiet && n_locked == n;
	if (quiet) {
		act(argument);
	}
	while (n_locked > 0) {
		struct ranges *r = contexts[--n_locked];

		ranges_enter_call(r, NULL);
		guard_let_in(&r->guard);
		lock_release(&r->lock);
	}
	return quiet;
}

/* With other work shut out, so that what is under way comes to its end. */
static bool disable(struct capture *c, struct ranges *r)
{
	bool done;

	guard_shut(&r->guard);
	guard_drain(c, r);
	done = c->method->disable(c, r);
	guard_let_in(&r->guard);
	if (done) {
		guard_give_back(&r->guard, c->profiler);
	}
	return done;
}

static bool abandon(struct capture *c, struct ranges *r)
{
	ranges_abandon(c, r);
	return true;
}

/* Kernels that are under way end in a moment, or they wait for something and may never end. A call
 * that would give the GPU work may not return at all, when its thread was ended in it: in the end
 * that is no reason to lose what was measured. */
void contexts_let_go(struct capture *c)
{
	const struct timespec pause = { 0, 1000 * 1000 };
	uint64_t by_ns = clock_now_ns() + STOP_PATIENCE_MS * CLOCK_NS_PER_MS;
	unsigned busy = 0;

	while (!for_each(c, LOCK_PATIENCE_MS * CLOCK_NS_PER_MS, disable, &busy)) {
		if (clock_now_ns() >= by_ns) {
			atomic_store(&c->closing, true);
			if (!for_each(c, 0, disable, &busy)) {
				for_each(c, 0, abandon, &busy);
			}
			return;
		}
		nanosleep(&pause, NULL);
	}
}

static bool retire(struct capture *c, struct ranges *r)
{
	return guard_is_quiet(c, r, false) && disable(c, r);
}

bool contexts_retire(struct capture *c)
{
	unsigned busy = 0;

	return for_each(c, 0, retire, &busy) && busy == 0;
}

void contexts_free(struct capture *c)
{
	list_for_each_safe(l, &c->contexts) {
		struct ranges *r = list_entry(l, struct ranges, link);

		if (r->context) {
			forget(r);
		}
		list_remove(&r->link);
		lock_deinit(&r->lock);
		free(r);
	}
}
