/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/ranges.h"

#include <stdio.h>

#include "client/agent/capture.h"
#include "client/agent/contexts.h"
#include "client/agent/lock.h"
#include "client/agent/ranges_setup.h"
#include "proto/base/clock.h"

/* A context goes NEW -> OFF (enabled, configured) -> STARTED (takes ranges) -> OFF (flushed) -> ...
 *
 * What a batch costs, measured on an H200 (CUDA 13.0): Stop and the next Start about 12 ms whatever
 * the batch's size, and the first Start after a configuration 0.9 ms for each range that the batch
 * may hold. So batches begin small, which brings the first records soon, and grow fourfold each
 * time the turns of the present size have cost as much as the growth will: whenever the program
 * ends, no more than twice the least possible was spent.
 *
 * With a budget the metrics may need several passes, which take turns: one configuration has them
 * all, and each Start and Stop is of the next one. That is what CUPTI's own replay of a program
 * does for the sake of the same launches again; here the launches are others each time. A batch is
 * of one pass. What is looked at from the moment on when it is full, or has ended, is chosen for
 * the next batch's; a launch that was chosen before is not measured in another.
 *
 * CUPTI decodes into one image, which is copied out for the delivering thread and made fresh again.
 * It holds counters of the metrics for which it was initialised alone, so each pass has its own.
 * Images are 3 to 19 kB a range and pass; batches grow as long as no fresh one takes more than
 * RANGES_IMAGE_BYTES_MAX, nor all of them more than RANGES_IMAGES_BYTES_MAX. */

enum {
	SIZE_LAST = 2048,
	SIZE_GROWTH = 4,
	RETRY_MS = 100,
	RETRY_MS_MOST = 1600,
	PATIENCE_MS = 1000,
};

#define GROWTH_PRICE_NS_PER_RANGE UINT64_C(900000)

static void unready(struct capture *c)
{
	atomic_fetch_add(&c->counters.unready, 1);
}

static const char the_launch[] = "the launch";

bool ranges_are_turning(struct ranges *r)
{
	const char *call = atomic_load(&r->call);

	return call && call != the_launch && !atomic_load(&r->lost);
}

bool ranges_lock_patiently(struct capture *c, struct ranges *r)
{
	uint64_t patience_ns;

	do {
		patience_ns = guard_patience_ns(&c->patience);
		if (lock_until(&r->lock, clock_now_ns() + patience_ns)) {
			return true;
		}
	} while (ranges_are_turning(r));
	guard_spend(&c->patience, patience_ns);
	return false;
}

/* For whoever looks after those that do not come back. */
void ranges_enter_call(struct ranges *r, const char *call)
{
	atomic_store(&r->call_since_ns, clock_now_ns());
	if (atomic_load(&r->lost)) {
		atomic_store(&r->lost, false);
	}
	atomic_store(&r->call, call);
}

/* --- passes --- */

void ranges_init_turns(struct capture *c, struct ranges *r)
{
	uint64_t number = atomic_load(&c->n_contexts);

	turns_init(&r->turns, c->choosing.options.seed + number, c->passes.n);
	if (c->passes.n > 1) {
		r->pass = (uint32_t)(number % c->passes.n);
	}
}

void ranges_forget_images(struct ranges *r)
{
	for (size_t i = 0; i < LIMIT_GROUPS; i++) {
		free(r->images[i].fresh);
		r->images[i] = (struct ranges_image){ 0 };
	}
	free(r->image);
	r->image = NULL;
	host_config_deinit(&r->config);
}

/* When a batch is full, or ends before it is: launches are chosen for the pass in which they will
 * be measured. */
static void take_turn(struct capture *c, struct ranges *r)
{
	if (c->passes.n > 1) {
		bool may_leave_out = choosing_may_leave_out(&c->choosing);

		atomic_store(&r->pass, turns_next(&r->turns, r->pass, may_leave_out));
		choosing_note_turn(&c->choosing, r->pass);
	}
}

/* --- start and stop --- */

static CUptiResult call_start(struct capture *c, struct ranges *r)
{
	CUpti_RangeProfiler_Start_Params p = {
		.structSize = CUpti_RangeProfiler_Start_Params_STRUCT_SIZE,
		.pRangeProfilerObject = r->object,
	};
	CUptiResult result;

	ranges_enter_call(r, "cuptiRangeProfilerStart");
	result = c->profiler->cuptiRangeProfilerStart(&p);
	r->running = result == CUPTI_SUCCESS;
	return result;
}

/* CUPTI says which pass is the next. Another one than ours would be decoded into a wrong image. */
static CUptiResult call_stop(struct capture *c, struct ranges *r)
{
	CUpti_RangeProfiler_Stop_Params p = {
		.structSize = CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE,
		.pRangeProfilerObject = r->object,
	};
	CUptiResult result;

	ranges_enter_call(r, "cuptiRangeProfilerStop");
	r->running = false;
	result = c->profiler->cuptiRangeProfilerStop(&p);
	r->set = (r->set + 1) % c->passes.n;
	return result == CUPTI_SUCCESS && p.passIndex != r->set ? CUPTI_ERROR_INVALID_OPERATION
								: result;
}

static CUptiResult start_pass(struct capture *c, struct ranges *r)
{
	CUptiResult result;

	ranges_enter_call(r, "cuptiRangeProfilerSetConfig");
	result = ranges_renew_image(c, r);
	return result == CUPTI_SUCCESS ? call_start(c, r) : result;
}

/* That of r->pass. Those before it are started, and stopped without a range; each waits for the
 * GPU, so NOT_READY: it has got work meanwhile. */
static CUptiResult begin_pass(struct capture *c, struct ranges *r)
{
	CUptiResult result = CUPTI_SUCCESS;

	while (result == CUPTI_SUCCESS && r->set != r->pass) {
		result = start_pass(c, r);
		result = result == CUPTI_SUCCESS ? call_stop(c, r) : result;
		if (result == CUPTI_SUCCESS && !guard_may_block(c, r, false)) {
			return CUPTI_ERROR_NOT_READY;
		}
	}
	return result == CUPTI_SUCCESS ? start_pass(c, r) : result;
}

/* Another context of this process may own the GPU's counters; it lets go, and takes them back at
 * its own next launch. */
static bool take_over(struct capture *c, struct ranges *r)
{
	struct ranges *contexts[CONTEXTS_MAX];
	size_t n = contexts_list(c, contexts);
	bool any = false;

	for (size_t i = 0; i < n; i++) {
		struct ranges *other = contexts[i];
		CUcontext popped;

		if (other == r || other->device != r->device || !lock_try(&other->lock)) {
			continue;
		}
		if (other->object && other->context &&
		    c->profiler->cuCtxPushCurrent(other->context) == CUDA_SUCCESS) {
			guard_shut(&other->guard);
			any = ranges_disable(c, other) || any;
			guard_let_in(&other->guard);
			c->profiler->cuCtxPopCurrent(&popped);
		}
		lock_release(&other->lock);
	}
	return any;
}

static bool has_sibling(struct capture *c, const struct ranges *r)
{
	bool found = false;

	lock_acquire(&c->lock);
	list_for_each(l, &c->contexts) {
		const struct ranges *other = list_entry(l, struct ranges, link);

		found = found || (other != r && other->device == r->device && other->context);
	}
	lock_release(&c->lock);
	return found;
}

static void tell_busy(struct capture *c, struct ranges *r, const char *call)
{
	char text[256];

	if (!has_sibling(c, r)) {
		ranges_tell_failure(c, r, call, CUPTI_ERROR_HARDWARE_BUSY);
		return;
	}
	snprintf(text, sizeof(text),
		 "several contexts of the program use GPU %u, which has one set of counters: they "
		 "are "
		 "measured in turns, and kernels of the others run unmeasured",
		 r->device);
	deliver_notice(&c->deliver, GPUCTR_E_HARDWARE_BUSY, text,
		       "Use one context (the primary one) for each GPU.");
}

/* Asking costs as much as a Start may, which a budget is to pay for: less and less often. */
static uint64_t wait_longer_ms(struct capture *c, struct ranges *r)
{
	uint64_t ms = RETRY_MS << r->waits;

	if (c->choosing.on && ms < RETRY_MS_MOST) {
		r->waits++;
	}
	return ms;
}

void ranges_wait(struct capture *c, struct ranges *r, const char *call)
{
	if (!r->told_busy) {
		r->told_busy = true;
		tell_busy(c, r, call);
	}
	r->state = RANGES_WAITING;
	r->retry_ns = clock_now_ns() + wait_longer_ms(c, r) * CLOCK_NS_PER_MS;
}

/* With what was spent before it. What the program did in between has cost nothing. */
static void note_start(struct capture *c, struct ranges *r, uint64_t begin_ns)
{
	begin_ns -= r->spent_ns;
	if (r->is_fresh) {
		choosing_note_first_start(&c->choosing, begin_ns, r->size, r->set);
	} else {
		choosing_note_start(&c->choosing, begin_ns, r->set);
	}
	r->is_fresh = false;
	r->spent_ns = 0;
}

/* A pass that was dear when its image was made has no room for what it may have become since. */
static size_t batch_size(struct capture *c, const struct ranges *r)
{
	size_t size = choosing_batch_size(&c->choosing, r->set, r->size);

	return size < r->images[r->set].ranges ? size : r->images[r->set].ranges;
}

static bool start(struct capture *c, struct ranges *r)
{
	CUptiResult result;
	uint64_t begin_ns;

	r->batch = deliver_new_batch(&c->deliver, r->size);
	if (!r->batch) {
		return false; /* out of memory: this launch is not measured, the next may be */
	}
	r->batch->host = &r->info->evaluator;
	r->batch->plan = &c->passes.v[r->pass];
	begin_ns = clock_now_ns();
	result = begin_pass(c, r);
	if (result == CUPTI_ERROR_HARDWARE_BUSY && choosing_may_take_over(&c->choosing, r->size) &&
	    take_over(c, r)) {
		result = begin_pass(c, r);
	}
	if (result == CUPTI_SUCCESS) {
		note_start(c, r, begin_ns);
		r->waits = 0;
		r->room = batch_size(c, r);
		choosing_note_room(&c->choosing, r->room);
		r->state = RANGES_STARTED;
		r->has_started = true;
		return true;
	}
	r->spent_ns += clock_now_ns() - begin_ns;
	deliver_free_batch(&c->deliver, r->batch);
	r->batch = NULL;
	if (result == CUPTI_ERROR_HARDWARE_BUSY) {
		ranges_wait(c, r, atomic_load(&r->call));
	} else if (result != CUPTI_ERROR_NOT_READY) {
		ranges_give_up(c, r, atomic_load(&r->call), result);
	}
	return false;
}

static CUptiResult stop_and_decode(struct capture *c, struct ranges *r)
{
	CUpti_RangeProfiler_DecodeData_Params decode = {
		.structSize = CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE,
		.pRangeProfilerObject = r->object,
	};
	uint64_t begin_ns = clock_now_ns();
	CUptiResult result = call_stop(c, r);

	if (result == CUPTI_SUCCESS) {
		result = c->profiler->cuptiRangeProfilerDecodeData(&decode);
	}
	choosing_note_stop(&c->choosing, begin_ns);
	if (result == CUPTI_SUCCESS && decode.numOfRangeDropped > 0) {
		deliver_notice(&c->deliver, GPUCTR_E_PROFILER,
			       "CUPTI dropped ranges; their kernels count as failed", "");
	}
	return result;
}

/* A call that was made before the capture has given the GPU work, it is not known when: whatever
 * was measured until now may count it as well. */
static void spoil_before_stranger(struct ranges *r)
{
	if (!atomic_load_explicit(&r->guard.stranger, memory_order_relaxed) ||
	    !atomic_exchange(&r->guard.stranger, false) || !r->batch) {
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
	const struct ranges_image *image = &r->images[r->set];
	CUptiResult result = stop_and_decode(c, r);

	spoil_before_stranger(r);
	if (b->n < r->room) {
		take_turn(c, r);
	}
	r->batch = NULL;
	r->state = RANGES_OFF;
	activity_flush(c->activity);
	if (result == CUPTI_SUCCESS &&
	    deliver_copy_image(&c->deliver, b, r->image, image->size) < 0) {
		result = CUPTI_ERROR_OUT_OF_MEMORY;
	}
	if (result != CUPTI_SUCCESS) {
		atomic_fetch_add(&c->counters.failed, b->n);
		deliver_free_batch(&c->deliver, b);
		ranges_give_up(c, r, "cuptiRangeProfilerStop", result);
		return;
	}
	deliver_put(&c->deliver, b, PATIENCE_MS * CLOCK_NS_PER_MS);
}

static CUptiResult call_pop(struct capture *c, struct ranges *r)
{
	CUpti_RangeProfiler_PopRange_Params p = {
		.structSize = CUpti_RangeProfiler_PopRange_Params_STRUCT_SIZE,
		.pRangeProfilerObject = r->object,
	};

	ranges_enter_call(r, "cuptiRangeProfilerPopRange");
	return c->profiler->cuptiRangeProfilerPopRange(&p);
}

/* A batch that nobody waits for may have been abandoned with its last range open. */
static void disable(struct capture *c, struct ranges *r)
{
	CUpti_RangeProfiler_Disable_Params p = {
		.structSize = CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE,
		.pRangeProfilerObject = r->object,
	};

	if (r->object && r->running) {
		if (r->guard.holds) {
			call_pop(c, r);
		}
		stop_and_decode(c, r);
	}
	r->guard.holds = false;
	if (r->object) {
		ranges_enter_call(r, "cuptiRangeProfilerDisable");
		c->profiler->cuptiRangeProfilerDisable(&p);
		r->object = NULL;
	}
	r->state = r->state == RANGES_BROKEN ? RANGES_BROKEN : RANGES_NEW;
}

/* The next size when the present one has cost enough, else 0. A budget has its own rule. */
static size_t next_size(struct capture *c, const struct ranges *r)
{
	size_t most = ranges_size_most(r);
	size_t size = r->size * SIZE_GROWTH;

	most = most < SIZE_LAST ? most : SIZE_LAST;
	if (c->choosing.on) {
		return choosing_next_size(&c->choosing, most);
	}
	size = size < most ? size : most;
	return size > r->size && r->paid_ns >= size * GROWTH_PRICE_NS_PER_RANGE ? size : 0;
}

/* A new object, in the place of the one that is there. */
static bool set_up(struct capture *c, struct ranges *r)
{
	uint64_t begin_ns = clock_now_ns();
	bool ready;

	disable(c, r);
	ranges_enter_call(r, "cuptiRangeProfilerEnable");
	ready = ranges_setup(c, r);
	r->is_fresh = true;
	r->spent_ns += clock_now_ns() - begin_ns;
	return ready;
}

static void grow(struct capture *c, struct ranges *r)
{
	size_t size = next_size(c, r);

	if (size != 0) {
		r->size = size;
		r->paid_ns = 0;
		set_up(c, r);
	}
}

/* A full batch: hands it over and starts the next. */
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

/* Gets the context to where it takes a range; false: not now. */
static bool become_started(struct capture *c, struct ranges *r)
{
	bool full = r->state == RANGES_STARTED && r->batch->n == r->room;

	if (r->state == RANGES_STARTED && !full) {
		return true;
	}
	if (r->state == RANGES_BROKEN ||
	    (r->state == RANGES_WAITING && clock_now_ns() < r->retry_ns)) {
		return false;
	}
	/* Starting and stopping synchronise: that would break a graph capture under way elsewhere,
	 * and wait for kernels that may wait for this program. */
	if (!guard_may_block(c, r, true)) {
		return false;
	}
	if (full) {
		return choosing_may_turn(&c->choosing) && turn(c, r);
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

/* A range is named by its place in the batch, in decimal. */
static void format_name(size_t n, char name[24])
{
	char digits[24];
	size_t i = 0, k = 0;

	do {
		digits[i++] = (char)('0' + n % 10);
		n /= 10;
	} while (n > 0);
	while (i > 0) {
		name[k++] = digits[--i];
	}
	name[k] = '\0';
}

/* How long the call under way has taken; asked only when somebody wants to know. */
static uint64_t call_ns(const struct capture *c, struct ranges *r)
{
	return c->choosing.on ? clock_now_ns() - atomic_load(&r->call_since_ns) : 0;
}

/* Before the range that it was for is noted, or when there is none. */
static void note_wait(struct capture *c, struct ranges *r)
{
	struct guard_wait wait = guard_take_wait(&r->guard);

	if (wait.waited_ns > 0) {
		choosing_note_wait(&c->choosing, wait.waited_ns, wait.stood_ns);
	}
}

/* Ends the batch, without waiting for what the GPU does: it may wait for the launch that is under
 * way. */
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

	note_wait(c, r);
	choosing_note_range(&c->choosing, r->push_ns + call_ns(c, r), r->set);
	if (result != CUPTI_SUCCESS) {
		fail(c, r, "cuptiRangeProfilerPopRange", result);
	}
}

static bool push(struct capture *c, struct ranges *r)
{
	CUpti_RangeProfiler_PushRange_Params p = {
		.structSize = CUpti_RangeProfiler_PushRange_Params_STRUCT_SIZE,
		.pRangeProfilerObject = r->object,
	};
	char name[24];
	CUptiResult result;

	format_name(r->batch->n, name);
	p.pRangeName = name;
	atomic_store(&r->guard.disturbed, false);
	ranges_enter_call(r, "cuptiRangeProfilerPushRange");
	result = c->profiler->cuptiRangeProfilerPushRange(&p);
	r->push_ns = call_ns(c, r);
	if (result == CUPTI_SUCCESS) {
		return true;
	}
	atomic_fetch_add(&c->counters.failed, 1);
	fail(c, r, "cuptiRangeProfilerPushRange", result);
	return false;
}

/* Closes the last launch's range. What else was given to the GPU meanwhile has been counted with
 * it. */
static void finish(struct capture *c, struct ranges *r)
{
	struct launch *l = &r->batch->launches[r->batch->n - 1];

	pop(c, r);
	if (r->state == RANGES_STARTED && l->fate == LAUNCH_DONE &&
	    (guard_is_disturbed(&r->guard) || atomic_load(&c->closing))) {
		l->fate = LAUNCH_DISTURBED;
	}
}

/* Closes a range that was left open, if its kernel has ended. True: none is open any more. */
static bool release(struct capture *c, struct ranges *r)
{
	struct guard *g = &r->guard;

	if (!g->holds) {
		return true;
	}
	if (!guard_may_release(c, r)) {
		return false;
	}
	g->holds = false;
	finish(c, r);
	ranges_enter_call(r, NULL); /* what follows may wait for another launch */
	guard_unblock(g);
	return true;
}

bool ranges_open(struct capture *c, struct ranges *r, const struct guard_launch *g,
		 struct launch **ret)
{
	spoil_before_stranger(r);
	if (!release(c, r)) {
		guard_disturb(&r->guard, &(struct guard_work){ g->stream, true });
		note_wait(c, r);
		unready(c);
		return false;
	}
	if (!guard_may_open(c, r, g) || !become_started(c, r)) {
		note_wait(c, r);
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
	if (r->batch->n == r->room) {
		take_turn(c, r);
	}
	ranges_enter_call(r, the_launch);
	guard_unblock(&r->guard);
	return true;
}

void ranges_close(struct capture *c, struct ranges *r, const struct guard_launch *g, bool launched)
{
	streams_touch(&r->guard.streams, g->stream);
	if (!launched) {
		r->batch->launches[r->batch->n - 1].fate = LAUNCH_FAILED;
	}
	if (guard_may_close(c, r, g, launched)) {
		finish(c, r);
		guard_mark(c, r, g);
	}
}

static bool try_flush(struct capture *c, struct ranges *r)
{
	if (r->state != RANGES_STARTED || r->batch->n == 0) {
		return true;
	}
	if (!release(c, r) || !guard_may_block(c, r, false)) {
		return false;
	}
	/* Closing a held range may have failed and ended the batch. */
	if (r->state == RANGES_STARTED) {
		stop(c, r);
	}
	return true;
}

bool ranges_flush(struct capture *c, struct ranges *r)
{
	bool done = try_flush(c, r);

	ranges_enter_call(r, NULL);
	return done;
}

bool ranges_disable(struct capture *c, struct ranges *r)
{
	bool may = (r->state != RANGES_STARTED || release(c, r)) &&
		   (!r->object || guard_may_block(c, r, false));

	if (may && r->state == RANGES_STARTED) {
		stop(c, r);
	}
	if (may) {
		disable(c, r);
	}
	ranges_enter_call(r, NULL);
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
