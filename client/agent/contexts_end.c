/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/contexts.h"

#include <time.h>

#include "client/agent/capture.h"
#include "proto/base/clock.h"

/* A launch may hang, or be interrupted for ever by a signal handler that exits, while it holds its
 * context's lock. Such a context is left alone after a while, and counted as busy. */

enum { LOCK_PATIENCE_MS = 500, STOP_PATIENCE_MS = 2000, FLUSH_AFTER_MS = 1000 };

/* --- end of one --- */

/* Waits for the context's kernels, as the driver will. Another thread may use the context. */
static void let_go_at_end(struct capture *c, struct ranges *r)
{
	bool done = false;

	if (ranges_enter(c->profiler, r)) {
		gate_shut(&r->gate);
		guard_drain(c, r);
		done = guard_is_quiet(c, r, false) && c->method->disable(c, r);
		gate_let_in(&r->gate);
		ranges_leave(c->profiler);
	}
	if (r->object && !done) {
		ranges_abandon(c, r);
	}
}

/* The holder of the context's lock may be in a call that waits for a lock of the driver's that the
 * calling thread holds. Then this function releases nothing, and the holder's call fails. */
void contexts_end(struct capture *c, CUcontext context, const struct ranges *except)
{
	struct ranges *found = contexts_known(c, context);

	if (!found || found == except) {
		return;
	}
	if (lock_until(&found->gate.lock, clock_now_ns() + STOP_PATIENCE_MS * CLOCK_NS_PER_MS)) {
		let_go_at_end(c, found);
		contexts_forget(found);
		lock_release(&found->gate.lock);
	} else {
		found->context = NULL;
	}
	atomic_fetch_sub(&c->n_contexts, 1);
}

/* --- all of them --- */

/* Calls act for each context that is set up. False: act returned false for one of them. Adds the
 * contexts whose lock was not free in time to *ret_busy. */
static bool for_each(struct capture *c, uint64_t patience_ns,
		     bool (*act)(struct capture *, struct ranges *), unsigned *ret_busy)
{
	bool all = true;

	contexts_for_each(r, c) {
		if (!lock_until(&r->gate.lock, clock_now_ns() + patience_ns)) {
			++*ret_busy;
			continue;
		}
		if (ranges_enter(c->profiler, r)) {
			all = act(c, r) && all;
			ranges_leave(c->profiler);
		}
		lock_release(&r->gate.lock);
	}
	return all;
}

/* Shuts the gate: other work might wait for a launch that waits for the context's lock. */
static bool flush_old(struct capture *c, struct ranges *r)
{
	bool done;

	if (r->state != RANGES_STARTED || r->batch->n == 0 ||
	    clock_now_ns() - r->batch_begin_ns <= FLUSH_AFTER_MS * CLOCK_NS_PER_MS) {
		return true;
	}
	gate_shut(&r->gate);
	done = c->method->flush(c, r);
	gate_let_in(&r->gate);
	return done;
}

void contexts_flush_old(struct capture *c)
{
	unsigned busy = 0;

	for_each(c, 0, flush_old, &busy);
}

/* Shuts the gate, so that other work waits until the call has returned. False: the call must not be
 * made now. */
static bool shut_all_out(struct capture *c, struct ranges *r, const char *call)
{
	bool may = true;

	gate_shut(&r->gate);
	if (ranges_enter(c->profiler, r)) {
		may = guard_may_block(c, r, false);
		ranges_leave(c->profiler);
	}
	gate_enter_call(&r->gate, call);
	return may;
}

bool contexts_while_quiet(struct capture *c, const char *call, void (*act)(void *argument),
			  void *argument)
{
	struct ranges *locked[CONTEXTS_MAX];
	size_t n = 0;
	bool quiet = true;

	contexts_for_each(r, c) {
		quiet = quiet && n < CONTEXTS_MAX && lock_try(&r->gate.lock);
		if (quiet) {
			locked[n++] = r;
			quiet = shut_all_out(c, r, call);
		}
	}
	if (quiet) {
		act(argument);
	}
	while (n > 0) {
		struct ranges *r = locked[--n];

		gate_enter_call(&r->gate, NULL);
		gate_let_in(&r->gate);
		lock_release(&r->gate.lock);
	}
	return quiet;
}

/* Shuts the gate meanwhile, so that the work under way ends and no new work begins. */
static bool disable(struct capture *c, struct ranges *r)
{
	bool done;

	gate_shut(&r->gate);
	guard_drain(c, r);
	done = c->method->disable(c, r);
	gate_let_in(&r->gate);
	if (done) {
		guard_give_back(&r->guard, c->profiler);
	}
	return done;
}

static bool disable_unwatched(struct capture *c, struct ranges *r)
{
	gate_unwatch(&r->gate);
	return disable(c, r);
}

static bool abandon(struct capture *c, struct ranges *r)
{
	ranges_abandon(c, r);
	return true;
}

/* Most kernels under way end soon, but some wait for something and never end. A call that gives the
 * GPU work may never return either, because its thread was ended inside the call. After two seconds
 * the contexts release the counters all the same, so that the measured batches are not lost. */
void contexts_let_go(struct capture *c)
{
	const struct timespec pause = { 0, 1000 * 1000 };
	uint64_t by_ns = clock_now_ns() + STOP_PATIENCE_MS * CLOCK_NS_PER_MS;
	unsigned busy = 0;

	while (!for_each(c, LOCK_PATIENCE_MS * CLOCK_NS_PER_MS, disable, &busy)) {
		if (clock_now_ns() >= by_ns) {
			if (!for_each(c, 0, disable_unwatched, &busy)) {
				for_each(c, 0, abandon, &busy);
			}
			return;
		}
		nanosleep(&pause, NULL);
	}
}

static bool retire(struct capture *c, struct ranges *r)
{
	return guard_is_quiet(c, r, false) && disable_unwatched(c, r);
}

bool contexts_retire(struct capture *c)
{
	unsigned busy = 0;

	return for_each(c, 0, retire, &busy) && busy == 0;
}
