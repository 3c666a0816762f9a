/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/trace.h"

#include "client/agent/capture.h"
#include "client/agent/section.h"
#include "proto/base/clock.h"

/* A trace does not touch the GPU, so no work is kept out and no thread waits. A thread notes a
 * launch in its own section before the call, and adds it to the batch of all threads after the
 * call. Only adding takes a lock.
 *
 * The thread that filled a batch queues it. The delivering thread waits for the records of its
 * kernels, which takes as long as the program's launches run ahead of the GPU; only the batches
 * behind it wait meanwhile. Batches that do not fit into the queue are dropped, and counted. */

enum { BATCH_LAUNCHES = 1024, FLUSH_AFTER_MS = 250, PATIENCE_MS = 10, FLUSH_PATIENCE_MS = 100 };

void trace_init(struct trace *t)
{
	lock_init(&t->lock, LOCK_PART);
}

void trace_deinit(struct trace *t)
{
	lock_deinit(&t->lock);
}

/* With the context's lock. False: the device is not part of the capture, or tracing could not be
 * turned on. */
static bool set_up(struct capture *c, struct ranges *r)
{
	struct device_info *d = devices_find(c);

	if (!d || d->trouble.code != 0 || !times_begin(c)) {
		r->state = RANGES_BROKEN;
		return false;
	}
	r->device = d->index;
	return true;
}

/* Sets the context up if needed; a context that is set up has a device. */
static bool is_ready(struct capture *c, struct ranges *r)
{
	bool ready = atomic_load(&r->device) != UINT32_MAX;

	if (!ready) {
		lock_acquire(&r->gate.lock);
		ready = atomic_load(&r->device) != UINT32_MAX ||
			(r->state == RANGES_NEW && set_up(c, r));
		lock_release(&r->gate.lock);
	}
	return ready;
}

static bool trace_open(struct capture *c, struct ranges *r, struct section *v, struct launch **ret)
{
	if (!is_ready(c, r)) {
		atomic_fetch_add(&c->counters.unready, 1);
		return false;
	}
	*ret = &v->traced;
	return true;
}

/* Allocates a batch, which is rare, while it holds the lock. */
static void add(struct capture *c, const struct launch *l)
{
	struct trace *t = &c->trace;
	struct batch *b, *full = NULL;

	lock_acquire(&t->lock);
	if (!t->batch) {
		t->batch = deliver_new_batch(&c->deliver, BATCH_LAUNCHES);
		t->begin_ns = clock_now_ns();
	}
	b = t->batch;
	if (b) {
		b->launches[b->n++] = *l;
		full = b->n == b->room ? b : NULL;
		t->batch = full ? NULL : b;
	}
	lock_release(&t->lock);
	if (!b) {
		atomic_fetch_add(&c->counters.dropped, 1);
	} else if (full) {
		deliver_put(&c->deliver, full, PATIENCE_MS * CLOCK_NS_PER_MS);
	}
}

static void trace_close(struct capture *c, struct ranges *r, struct section *v, bool launched)
{
	(void)r;
	if (!launched) {
		activity_forget(c->activity, v->traced.correlation);
		atomic_fetch_add(&c->counters.failed, 1);
	} else {
		add(c, &v->traced);
	}
}

/* Contexts have nothing to flush or to disable; trace_flush() serves all of them. */
static bool end_nothing(struct capture *c, struct ranges *r)
{
	return true;
}

const struct method method_trace = { trace_open, trace_close, end_nothing, end_nothing, true };

/* A signal handler that exits may have interrupted the lock's holder for good. Then the batch under
 * way is lost; queued batches are delivered all the same. */
void trace_flush(struct capture *c, bool all)
{
	struct trace *t = &c->trace;
	struct batch *b;

	if (!lock_until(&t->lock, clock_now_ns() + FLUSH_PATIENCE_MS * CLOCK_NS_PER_MS)) {
		return;
	}
	b = t->batch;
	if (b && !all && clock_now_ns() - t->begin_ns < FLUSH_AFTER_MS * CLOCK_NS_PER_MS) {
		b = NULL;
	}
	if (b) {
		t->batch = NULL;
	}
	lock_release(&t->lock);
	if (b) {
		deliver_put(&c->deliver, b, 0);
	}
}

enum { PATIENCE_S = 10 }; /* how long to wait for a thread that is within CUPTI */

/* Uses the lengths of ranges in place of the kernels' own times, if these lengths cost nothing. */
static void measure_ranges(struct capture *c)
{
	if (c->welcome.plan.fits_duration) {
		passes_add_metric(&c->passes, &c->arena, "gpu__time_duration.sum");
	}
}

static const char *what_times_are(const struct capture *c)
{
	return c->welcome.trace ? "the times of kernels are not known, and those of CUDA graphs "
				  "are in no record"
				: "the times of kernels are those of the ranges around them";
}

static void start_activity(struct capture *c)
{
	CUptiResult result = activity_start(c->activity, c->profiler);

	if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
		deliver_tell(&c->deliver, GPUCTR_E_CUPTI_IN_USE, TIMES_OTHERS_REMEDY,
			     "the program uses CUPTI's activity records itself, and CUPTI gives "
			     "them to one user in a process: %s",
			     what_times_are(c));
		c->reported_others = true;
	} else if (result != CUPTI_SUCCESS) {
		deliver_tell(&c->deliver, GPUCTR_E_PROFILER, "",
			     "CUPTI does not tell when kernels begin and end (%s, %d): %s",
			     host_result_name(&c->profiler->host, result), (int)result,
			     what_times_are(c));
	}
	if (result != CUPTI_SUCCESS) {
		measure_ranges(c);
	}
}

/* Tracing adds instructions to each warp: sm__inst_executed of a copy was 44 % too high, and SASS
 * metrics read 0 (H200, CUPTI 2025.3). With several passes, usually at least one counts
 * instructions. */
static bool may_trace(const struct capture *c)
{
	return c->passes.n == 1 && !c->passes.may_block[0];
}

void times_init(struct capture *c)
{
	if (!may_trace(c)) {
		c->has_times = true;
		measure_ranges(c);
	}
}

bool times_begin(struct capture *c)
{
	if (!lock_until(&c->times_lock, clock_now_ns() + PATIENCE_S * CLOCK_NS_PER_S)) {
		return false;
	}
	if (!c->has_times) {
		c->has_times = true;
		start_activity(c);
	}
	lock_release(&c->times_lock);
	return true;
}
