/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/ranges.h"

#include <stdio.h>

#include "client/agent/capture.h"
#include "client/agent/contexts.h"
#include "client/agent/lock.h"
#include "client/agent/method.h"
#include "client/agent/ranges_setup.h"
#include "client/agent/section.h"
#include "proto/base/clock.h"

/* A context goes NEW -> OFF (enabled, configured) -> STARTED (takes ranges) -> OFF (flushed) -> ...
 *
 * What a batch costs, measured on an H200 (CUDA 13.0): Stop and the next Start about 12 ms whatever
 * the batch's size, and the first Start after a configuration 0.9 ms for each range that the batch
 * may hold. So batches begin small, to deliver the first records soon. They grow fourfold each time
 * the turns of the present size have cost as much as the growth will cost. Whenever the program
 * ends, turns and growth together have cost at most twice the least possible.
 *
 * Metrics that need several passes are measured by turns: one configuration has all passes, and
 * each Start and Stop measures the next pass. CUPTI's own replay of a program shows each pass the
 * same launches; here each pass has other launches. A batch belongs to one pass; when it is full or
 * ends, the next pass follows. The first batch of a round of passes is shorter by a number that
 * differs from round to round: else a program whose phases last as long as a round, or a part of
 * it, would show each pass always the same part of a phase.
 *
 * CUPTI decodes into one image, which is copied for the delivering thread and then replaced by a
 * fresh one. An image holds only counters of the metrics for which it was initialised, so each pass
 * has a fresh image of its own. Images are 3 to 19 kB a range and pass; batches grow as long as no
 * fresh image takes more than RANGES_IMAGE_BYTES_MAX, nor all of them more than
 * RANGES_IMAGES_BYTES_MAX. */

enum {
	SIZE_LAST = 2048,
	SIZE_GROWTH = 4,
	SHORTER_BY = 7, /* ranges by which the first batches of successive rounds differ */
	PATIENCE_MS = 1000,
};

#define GROWTH_PRICE_NS_PER_RANGE UINT64_C(900000)

static void unready(struct capture *c)
{
	atomic_fetch_add(&c->counters.unready, 1);
}

/* --- start and stop --- */

static CUptiResult call_start(struct capture *c, struct ranges *r)
{
	CUpti_RangeProfiler_Start_Params p = { RANGES_PARAMS(Start, r) };
	CUptiResult result;

	gate_enter_call(&r->gate, "cuptiRangeProfilerStart");
	result = c->profiler->cuptiRangeProfilerStart(&p);
	r->running = result == CUPTI_SUCCESS;
	return result;
}

/* CUPTI returns which pass is the next. If the agent expected another one, it would decode the
 * counters into a wrong image. */
static CUptiResult call_stop(struct capture *c, struct ranges *r)
{
	CUpti_RangeProfiler_Stop_Params p = { RANGES_PARAMS(Stop, r) };
	CUptiResult result;

	gate_enter_call(&r->gate, "cuptiRangeProfilerStop");
	r->running = false;
	result = c->profiler->cuptiRangeProfilerStop(&p);
	r->measured_pass = (r->measured_pass + 1) % c->passes.n;
	return result == CUPTI_SUCCESS && p.passIndex != r->measured_pass
		       ? CUPTI_ERROR_INVALID_OPERATION
		       : result;
}

static CUptiResult start_pass(struct capture *c, struct ranges *r)
{
	CUptiResult result;

	gate_enter_call(&r->gate, "cuptiRangeProfilerSetConfig");
	result = ranges_renew_image(c, r);
	return result == CUPTI_SUCCESS ? call_start(c, r) : result;
}

/* Starts the pass r->pass. To get there, starts and stops each pass before it without a range. Each
 * Start and Stop waits for the GPU; returns NOT_READY if the GPU has got work meanwhile. */
static CUptiResult begin_pass(struct capture *c, struct ranges *r)
{
	CUptiResult result = CUPTI_SUCCESS;

	while (result == CUPTI_SUCCESS && r->measured_pass != r->pass) {
		result = start_pass(c, r);
		result = result == CUPTI_SUCCESS ? call_stop(c, r) : result;
		if (result == CUPTI_SUCCESS && !guard_may_block(c, r, false)) {
			return CUPTI_ERROR_NOT_READY;
		}
	}
	return result == CUPTI_SUCCESS ? start_pass(c, r) : result;
}

/* Makes other contexts of this process on the same GPU release the GPU's counters. Such a context
 * takes the counters back at its own next launch. */
static bool take_over(struct capture *c, struct ranges *r)
{
	bool any = false;

	contexts_for_each(other, c) {
		if (other == r || other->device != r->device || !lock_try(&other->gate.lock)) {
			continue;
		}
		if (ranges_enter(c->profiler, other)) {
			gate_shut(&other->gate);
			any = method_ranges.disable(c, other) || any;
			gate_let_in(&other->gate);
			ranges_leave(c->profiler);
		}
		lock_release(&other->gate.lock);
	}
	return any;
}

static size_t next_limit(const struct capture *c, struct ranges *r)
{
	bool begins_round = c->passes.n > 1 && r->pass == 0;

	return r->size - (begins_round ? r->n_rounds++ * SHORTER_BY % (r->size / SIZE_GROWTH) : 0);
}

static void turn_to_next_pass(const struct capture *c, struct ranges *r)
{
	r->pass = (r->pass + 1) % c->passes.n;
}

static bool start(struct capture *c, struct ranges *r)
{
	CUptiResult result;

	r->batch = deliver_new_batch(&c->deliver, r->size);
	if (!r->batch) {
		return false; /* out of memory: this launch is not measured, the next may be */
	}
	r->batch->host = &r->info->evaluator;
	r->batch->plan = &c->passes.v[r->pass];
	r->limit = next_limit(c, r);
	r->guard.doubtful = 0;
	result = begin_pass(c, r);
	if (result == CUPTI_ERROR_HARDWARE_BUSY && take_over(c, r)) {
		result = begin_pass(c, r);
	}
	if (result == CUPTI_SUCCESS) {
		r->state = RANGES_STARTED;
		return true;
	}
	deliver_free_batch(&c->deliver, r->batch);
	r->batch = NULL;
	if (result == CUPTI_ERROR_HARDWARE_BUSY) {
		ranges_wait(c, r, atomic_load(&r->gate.call));
	} else if (result != CUPTI_ERROR_NOT_READY) {
		ranges_give_up(c, r, atomic_load(&r->gate.call), result);
	}
	return false;
}

static CUptiResult stop_and_decode(struct capture *c, struct ranges *r)
{
	CUpti_RangeProfiler_DecodeData_Params decode = { RANGES_PARAMS(DecodeData, r) };
	CUptiResult result = call_stop(c, r);

	if (result == CUPTI_SUCCESS) {
		result = c->profiler->cuptiRangeProfilerDecodeData(&decode);
	}
	if (result == CUPTI_SUCCESS && decode.numOfRangeDropped > 0) {
		deliver_notice(&c->deliver, GPUCTR_E_PROFILER,
			       "CUPTI dropped ranges; their kernels count as failed", "");
	}
	return result;
}

/* An untracked call has given the GPU work at an unknown time: all launches of the batch may have
 * counted that work as well. */
static void spoil_before_untracked(struct ranges *r)
{
	if (!gate_take_untracked(&r->gate) || !r->batch) {
		return;
	}
	for (size_t i = 0; i < r->batch->n; i++) {
		struct launch *l = &r->batch->launches[i];

		l->fate = l->fate == LAUNCH_DONE ? LAUNCH_DISTURBED : l->fate;
	}
}

/* STARTED -> OFF or BROKEN. */
static void stop(struct capture *c, struct ranges *r)
{
	struct batch *b = r->batch;
	const struct ranges_image *image = &r->images[r->measured_pass];
	CUptiResult result = stop_and_decode(c, r);

	spoil_before_untracked(r);
	if (b->n < r->limit) {
		turn_to_next_pass(c, r);
	}
	r->batch = NULL;
	r->state = RANGES_OFF;
	activity_flush(c->activity);
	if (result == CUPTI_SUCCESS && deliver_copy_image(b, r->image, image->size) < 0) {
		result = CUPTI_ERROR_OUT_OF_MEMORY;
	}
	if (result == CUPTI_SUCCESS) {
		deliver_put(&c->deliver, b, PATIENCE_MS * CLOCK_NS_PER_MS);
	} else {
		atomic_fetch_add(&c->counters.failed, b->n);
		deliver_free_batch(&c->deliver, b);
		ranges_give_up(c, r, "cuptiRangeProfilerStop", result);
	}
}

static CUptiResult call_pop(struct capture *c, struct ranges *r)
{
	CUpti_RangeProfiler_PopRange_Params p = { RANGES_PARAMS(PopRange, r) };

	gate_enter_call(&r->gate, "cuptiRangeProfilerPopRange");
	return c->profiler->cuptiRangeProfilerPopRange(&p);
}

/* First closes the last range of an abandoned batch, if it is still open. */
static void disable(struct capture *c, struct ranges *r)
{
	CUpti_RangeProfiler_Disable_Params p = { RANGES_PARAMS(Disable, r) };

	if (r->object && r->running) {
		if (r->guard.holds) {
			call_pop(c, r);
		}
		stop_and_decode(c, r);
	}
	r->guard.holds = false;
	if (r->object) {
		gate_enter_call(&r->gate, "cuptiRangeProfilerDisable");
		c->profiler->cuptiRangeProfilerDisable(&p);
		r->object = NULL;
	}
	r->state = r->state == RANGES_BROKEN ? RANGES_BROKEN : RANGES_NEW;
}

/* The next batch size if turns of the present size have cost enough, else 0. */
static size_t next_size(const struct ranges *r)
{
	size_t most = ranges_size_most(r);
	size_t size = r->size * SIZE_GROWTH;

	most = most < SIZE_LAST ? most : SIZE_LAST;
	size = size < most ? size : most;
	return size > r->size && r->paid_ns >= size * GROWTH_PRICE_NS_PER_RANGE ? size : 0;
}

/* Makes a new profiler object in place of the present one. */
static bool set_up(struct capture *c, struct ranges *r)
{
	disable(c, r);
	gate_enter_call(&r->gate, "cuptiRangeProfilerEnable");
	return ranges_setup(c, r);
}

static void grow(struct capture *c, struct ranges *r)
{
	size_t size = next_size(r);

	if (size != 0) {
		r->size = size;
		r->paid_ns = 0;
		set_up(c, r);
	}
}

/* Hands a full batch to the delivering thread and starts the next batch. */
static bool turn(struct capture *c, struct ranges *r)
{
	uint64_t begin_ns = clock_now_ns();
	bool started;

	stop(c, r);
	if (r->state == RANGES_OFF) {
		grow(c, r);
	}
	started = r->state == RANGES_OFF && start(c, r);
	r->paid_ns += clock_now_ns() - begin_ns;
	return started;
}

/* Brings the context into a state in which CUPTI takes a range; false: not now. */
static bool become_started(struct capture *c, struct ranges *r, bool patient)
{
	bool full = r->state == RANGES_STARTED && r->batch->n == r->limit;

	if (r->state == RANGES_STARTED && !full) {
		return true;
	}
	if (r->state == RANGES_BROKEN ||
	    (r->state == RANGES_WAITING && clock_now_ns() < r->retry_ns)) {
		return false;
	}
	/* Start and Stop synchronise, which would break a stream capture under way in another
	 * thread, and would wait for kernels that may themselves wait for this program. */
	if (!guard_may_block(c, r, patient)) {
		atomic_store(&r->unsettled, true);
		return false;
	}
	if (full) {
		return turn(c, r);
	}
	if (r->state == RANGES_WAITING) {
		r->state = r->object ? RANGES_OFF : RANGES_NEW;
	}
	if (r->state == RANGES_NEW && !set_up(c, r)) {
		return false;
	}
	return r->state == RANGES_OFF && start(c, r);
}

/* --- ranges --- */

/* Ends the batch without waiting for the GPU, whose work may wait for the launch that is under way.
 */
static void fail(struct capture *c, struct ranges *r, const char *call, CUptiResult result)
{
	if (guard_may_block(c, r, false)) {
		stop(c, r);
	} else {
		ranges_abandon(c, r);
	}
	if (r->state != RANGES_BROKEN || r->running) {
		ranges_give_up(c, r, call, result);
	}
}

static void pop(struct capture *c, struct ranges *r)
{
	CUptiResult result = call_pop(c, r);

	if (result != CUPTI_SUCCESS) {
		fail(c, r, "cuptiRangeProfilerPopRange", result);
	}
}

static bool push(struct capture *c, struct ranges *r)
{
	CUpti_RangeProfiler_PushRange_Params p = { RANGES_PARAMS(PushRange, r) };
	char name[24]; /* the index in the batch */
	CUptiResult result;

	snprintf(name, sizeof(name), "%zu", r->batch->n);
	p.pRangeName = name;
	gate_begin_range(&r->gate);
	gate_enter_call(&r->gate, "cuptiRangeProfilerPushRange");
	result = c->profiler->cuptiRangeProfilerPushRange(&p);
	if (result == CUPTI_SUCCESS) {
		return true;
	}
	atomic_fetch_add(&c->counters.failed, 1);
	fail(c, r, "cuptiRangeProfilerPushRange", result);
	return false;
}

/* Closes the last launch's range, and marks the launch if the range has counted other work too. */
static void finish(struct capture *c, struct ranges *r)
{
	struct launch *l = &r->batch->launches[r->batch->n - 1];

	pop(c, r);
	if (r->state == RANGES_STARTED && l->fate == LAUNCH_DONE && gate_is_disturbed(&r->gate)) {
		l->fate = LAUNCH_DISTURBED;
	}
}

/* Closes a range that was left open, if its kernel has ended. True: no range is open any more. If a
 * launch waited for the kernel in vain, the kernel's time may contain the wait. */
static bool release(struct capture *c, struct ranges *r, bool patient)
{
	struct guard *g = &r->guard;

	if (!g->holds || r->state != RANGES_STARTED) { /* not STARTED: its batch was abandoned */
		return true;
	}
	if (!guard_may_release(c, r, patient)) {
		return false;
	}
	g->holds = false;
	if (g->held_waited) {
		r->batch->launches[r->batch->n - 1].fate = LAUNCH_DISTURBED;
	}
	finish(c, r);
	gate_enter_call(&r->gate, NULL); /* the caller's next steps may wait for another launch */
	gate_unblock(&r->gate);
	return true;
}

void ranges_settle(struct capture *c, struct ranges *r)
{
	if (!atomic_load(&r->unsettled) || !lock_try(&r->gate.lock)) {
		return;
	}
	gate_shut(&r->gate);
	atomic_store(&r->unsettled, false);
	if (!release(c, r, false)) {
		atomic_store(&r->unsettled, true);
	} else if (capture_is_measuring(c)) {
		become_started(c, r, false);
	}
	gate_leave(&r->gate);
}

static bool open_range(struct capture *c, struct ranges *r, struct section *v, struct launch **ret)
{
	const struct guard_launch *g = &v->launched;

	spoil_before_untracked(r);
	if (!release(c, r, true)) {
		guard_disturb(r, &(struct guard_work){ g->stream, true, g->work });
		unready(c);
		return false;
	}
	if (!guard_may_open(c, r, g) || !become_started(c, r, true)) {
		unready(c);
		return false;
	}
	if (!push(c, r)) {
		return false;
	}
	if (r->batch->n == 0) {
		r->batch_begin_ns = clock_now_ns();
	}
	*ret = &r->batch->launches[r->batch->n++];
	if (r->batch->n == r->limit) {
		turn_to_next_pass(c, r);
	}
	guard_note_begin(c, r, g);
	gate_enter_launch(&r->gate);
	gate_unblock(&r->gate);
	return true;
}

static void end_range(struct capture *c, struct ranges *r, struct section *v, bool launched)
{
	const struct guard_launch *g = &v->launched;

	streams_touch(&r->guard.streams, g->stream);
	if (!launched) {
		r->batch->launches[r->batch->n - 1].fate = LAUNCH_FAILED;
	}
	if (guard_may_close(c, r, g, launched)) {
		finish(c, r);
		guard_mark(c, r, g);
	} else {
		atomic_store(&r->unsettled, true);
	}
}

static bool try_flush(struct capture *c, struct ranges *r)
{
	if (r->state != RANGES_STARTED || r->batch->n == 0) {
		return true;
	}
	if (!release(c, r, false) || !guard_may_block(c, r, false)) {
		return false;
	}
	/* Closing a held range may have failed and ended the batch. */
	if (r->state == RANGES_STARTED) {
		stop(c, r);
	}
	return true;
}

static bool flush(struct capture *c, struct ranges *r)
{
	bool done = try_flush(c, r);

	gate_enter_call(&r->gate, NULL);
	return done;
}

static bool release_counters(struct capture *c, struct ranges *r)
{
	bool may = (r->state != RANGES_STARTED || release(c, r, false)) &&
		   (!r->object || guard_may_block(c, r, false));

	if (may && r->state == RANGES_STARTED) {
		stop(c, r);
	}
	if (may) {
		disable(c, r);
	}
	gate_enter_call(&r->gate, NULL);
	return may;
}

void ranges_abandon(struct capture *c, struct ranges *r)
{
	if (r->state == RANGES_STARTED) {
		atomic_fetch_add(&c->counters.failed, r->batch->n);
		deliver_free_batch(&c->deliver, r->batch);
		r->batch = NULL;
	}
	r->state = RANGES_BROKEN;
}

const struct method method_ranges = { open_range, end_range, flush, release_counters, false };
