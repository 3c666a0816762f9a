/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/watch.h"

#include <stdio.h>

#include "client/agent/capture.h"
#include "client/agent/contexts.h"
#include "proto/base/clock.h"

/* The guard prevents waits that would never end. This file finds waits that the guard cannot
 * foresee: a call into CUPTI that waits all the same, or work that the program gave to a stream
 * after the agent had closed a range in order to let its kernel end.
 *
 * Four things may hang:
 * - A call into CUPTI. Its thread holds the context's lock, so this file touches nothing that the
 *   lock protects. That thread may be the delivering one, so the control thread does the looking.
 * - A range that does not begin, because it waits for work that CUPTI does not report, such as a
 *   stream that waits for an event of another context. An event behind the range's beginning shows
 *   this.
 * - A kernel whose range was left open. No thread waits for it; the agent only tells the user.
 * - A kernel whose range was closed, while other streams have work that waits for the kernel.
 *
 * In all cases but that of a range left open, the agent reports a code at which the daemon ends the
 * capture: the granter frees the profiler's objects, and CUPTI's calls return with an error.
 *
 * A busy GPU and a long time without a measured launch do not prove that something hangs: the
 * program may always be at work, and few of its launches may be wanted. So a second after the last
 * measured launch the agent records an event behind it. Once the GPU has passed that event, no work
 * waits for a measured launch. */

#define STILL_NS (10 * CLOCK_NS_PER_S)

static bool has_passed(uint64_t since_ns, uint64_t ns)
{
	uint64_t now_ns = clock_now_ns();

	return since_ns != 0 && now_ns > since_ns && now_ns - since_ns > ns;
}

static void tell(struct capture *c, const struct ranges *r, int code, const char *what)
{
	char text[512];

	snprintf(text, sizeof(text), "%s for 10 s: %.200s on stream %llu of GPU %u", what,
		 r->last_kernel, (unsigned long long)r->last_stream, (unsigned)r->device);
	deliver_notice_now(&c->deliver, code, text,
			   "Leave this kernel out with --kernel; see docs/troubleshooting.md.");
}

/* Without the lock. A call that hangs may be waiting for the program's next launch, so the
 * program's threads no longer wait for the call. Measuring stops, because the daemon ends the
 * capture. */
static void look_at_call(struct capture *c, struct ranges *r)
{
	const char *call = gate_lose_call(&r->gate, c->watch.resumed_ns, STILL_NS);
	char what[128];

	if (call) {
		state_move(&c->deliver.state, CAPTURE_STOPPING);
		gate_let_in(&r->gate);
		snprintf(what, sizeof(what), "%s has not returned", call);
		tell(c, r, GPUCTR_E_STALLED, what);
	}
}

/* If watch_calls() was not called for long, the process was stopped, and so were its calls. */
static void notice_stop(struct watch *w)
{
	uint64_t now_ns = clock_now_ns();

	if (has_passed(w->looked_ns, STILL_NS / 2)) {
		w->resumed_ns = now_ns;
	}
	w->looked_ns = now_ns;
}

void watch_calls(struct capture *c)
{
	notice_stop(&c->watch);
	contexts_for_each(r, c) {
		look_at_call(c, r);
	}
}

/* Queries all streams, because unreported work may wait in a stream that counts as idle. */
static bool others_have_work(struct capture *c, struct ranges *r)
{
	struct guard *g = &r->guard;

	if (stream_captures_any(&c->stream_captures)) {
		return false;
	}
	streams_touch_any(&g->streams);
	return !streams_are_idle(&g->streams, c->profiler, r->context, g->used);
}

/* With the lock. */
static void look_at_work(struct capture *c, struct ranges *r)
{
	struct guard *g = &r->guard;

	if (r->state != RANGES_STARTED || r->batch->n == 0 || r->reported_stuck ||
	    guard_is_past_last(c, r) || !has_passed(r->last_launch_ns, STILL_NS) ||
	    guard_is_quiet(c, r, false)) {
		return;
	}
	r->reported_stuck = true;
	if (!guard_has_begun(c, g)) {
		tell(c, r, GPUCTR_E_STALLED, "the range of a kernel has not begun");
	} else if (!g->holds && others_have_work(c, r)) {
		tell(c, r, GPUCTR_E_STALLED, "streams have waited for each other");
	} else {
		tell(c, r, GPUCTR_E_KERNEL_WAITS, "a kernel has not ended");
	}
}

void watch_look(struct capture *c)
{
	contexts_for_each(r, c) {
		if (!lock_try(&r->gate.lock)) {
			continue;
		}
		if (has_passed(r->last_launch_ns, CLOCK_NS_PER_S) && ranges_enter(c->profiler, r)) {
			look_at_work(c, r);
			ranges_leave(c->profiler);
		}
		lock_release(&r->gate.lock);
	}
}
