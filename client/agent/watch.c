/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/watch.h"

#include <stdio.h>

#include "client/agent/capture.h"
#include "client/agent/contexts.h"
#include "proto/base/clock.h"

/* The guard keeps the measuring from waiting for what does not come. This is for what it cannot
 * know: a call into CUPTI that waits all the same, or work that was given to a stream after a range
 * had been closed, to let its kernel end.
 *
 * Three things stand still: a thread within a call (its context's lock is held, so nothing of it is
 * touched; watcher.c looks, because it may be the delivering thread itself), a kernel whose range
 * was left open (nothing waits for that: it is told), and a kernel whose range is closed while
 * other streams have work that waits for it. In the first and the last case the daemon is told with
 * a code that ends the capture: the granter frees the profiler's objects, which makes CUPTI's calls
 * return, with an error.
 *
 * That nothing was measured for long, and that the GPU has work, is no sign of it: few launches may
 * be wanted, or paid for, of a program that is always at work. So an event is recorded behind the
 * last measured launch, when a second has passed without another; once the GPU has come past that,
 * nothing waits for what was measured. */

#define STILL_NS (10 * CLOCK_NS_PER_S)

static bool has_passed(uint64_t since_ns, uint64_t ns)
{
	uint64_t now_ns = clock_now_ns();

	return since_ns != 0 && now_ns > since_ns && now_ns - since_ns > ns;
}

static bool has_stood(uint64_t since_ns)
{
	return has_passed(since_ns, STILL_NS);
}

static void tell(struct capture *c, const struct ranges *r, int code, const char *what)
{
	char text[512];

	snprintf(text, sizeof(text), "%s for 10 s: %.200s on stream %llu of GPU %u", what,
		 r->last_kernel, (unsigned long long)r->last_stream, (unsigned)r->device);
	deliver_notice_now(
		&c->deliver, code, text,
		"Leave this kernel out with --kernel; see docs/internals/performance.md, kernels "
		"that wait.");
}

/* Without the lock. The call may be waiting for what the program launches next, so nothing waits
 * for it from here on; nor is anything measured, because the daemon ends the capture. */
static void look_at_call(struct capture *c, struct ranges *r)
{
	const char *call = atomic_load(&r->call);
	char what[128];

	if (call && has_stood(atomic_load(&r->call_since_ns)) && !atomic_exchange(&r->lost, true)) {
		atomic_store(&c->active, false);
		guard_let_in(&r->guard);
		snprintf(what, sizeof(what), "%s has not returned", call);
		tell(c, r, GPUCTR_E_STALLED, what);
	}
}

void watch_calls(struct capture *c)
{
	struct ranges *contexts[CONTEXTS_MAX];
	size_t n = contexts_list(c, contexts);

	for (size_t i = 0; i < n; i++) {
		look_at_call(c, contexts[i]);
	}
}

/* With the lock. */
static void look_at_work(struct capture *c, struct ranges *r)
{
	struct guard *g = &r->guard;

	if (r->state != RANGES_STARTED || r->batch->n == 0 || r->told_stuck ||
	    guard_is_past_last(c, r) || !has_stood(r->last_launch_ns) ||
	    guard_is_quiet(c, r, false)) {
		return;
	}
	r->told_stuck = true;
	if (!g->holds && !stream_captures_any(&c->stream_captures) &&
	    !streams_are_idle(&g->streams, c->profiler, r->context, g->used)) {
		tell(c, r, GPUCTR_E_STALLED, "streams have waited for each other");
	} else {
		tell(c, r, GPUCTR_E_KERNEL_WAITS, "a kernel has not ended");
	}
}

void watch_look(struct capture *c)
{
	struct ranges *contexts[CONTEXTS_MAX];
	size_t n = contexts_list(c, contexts);

	if (!c->watcher.runs) {
		watch_calls(c);
	}
	for (size_t i = 0; i < n; i++) {
		struct ranges *r = contexts[i];
		CUcontext popped;

		if (!lock_try(&r->lock)) {
			continue;
		}
		if (r->object && r->context && has_passed(r->last_launch_ns, CLOCK_NS_PER_S) &&
		    c->profiler->cuCtxPushCurrent(r->context) == CUDA_SUCCESS) {
			look_at_work(c, r);
			c->profiler->cuCtxPopCurrent(&popped);
		}
		lock_release(&r->lock);
	}
}
