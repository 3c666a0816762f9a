/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/activity.h"

#include <stdlib.h>

#include "client/agent/activity_flush.h"
#include "client/agent/copy_gate.h"
#include "client/agent/flag.h"
#include "client/agent/state.h"
#include "proto/base/clock.h"

/* The length of a user range is longer than its kernel: it holds the range's markers, what the host
 * does between push and launch, and the loading of the kernel's module. So CUPTI's activity records
 * are collected as well, one a kernel, joined to its launch by the correlation id that CUPTI's
 * callback told. A graph gives one record, if whole graphs are traced and CUPTI can, else one for
 * each of its kernels, all with the id of the launch; these are told each for itself (graphs.c), or
 * together are the time of the graph.
 *
 * CUPTI asks for a buffer, fills it from when kernels are launched until they have ended, and gives
 * it back on a thread of its own, or inside of cuptiActivityFlushAll(). A flush returns the buffers
 * in which every record is complete, but waits for the kernel of a range that has been closed
 * (H200, CUPTI 2025.3): so it is made at the end of a batch, when nothing is under way, and costs
 * half a millisecond. Buffers are used again, and there are only so many: beyond that records are
 * given up, and their launches have no clock.
 *
 * A flush that is forced also returns the buffers in which a kernel has not ended, and is dangerous
 * (buffers.c): so flushes are forced only for what does not come otherwise.
 *
 * From some captures on all records of a thread had the correlation id of one launch, in all later
 * captures of the process as well (H100 and H200, CUPTI 2025.3): a launch's callback had been
 * turned off while the thread was within it. Ours stay on until a capture ends; others who use
 * CUPTI in the process may turn theirs off. Records that name a launch of one kernel for a second
 * time are not believed.
 *
 * CUPTI measures a range with a kernel of its own, WaitNs. It belongs to no launch of the program,
 * so nobody expects its id; its name is compared as well. */

enum {
	BUFFER_BYTES = 64 * 1024,
	BUFFERS_MAX = 128,
	BUFFER_AHEAD_BYTES = 1024 * 1024,
	BUFFERS_AHEAD_MAX = 64,
	STOP_PATIENCE_MS = 400,		       /* for kernels that have been launched */
	GRAPHS_CROWD = GRAPHS_KERNELS_MAX / 4, /* kernels that wait to be told */
	REPEATS_LEAST = 64, /* no two kernels should have one id, so few are enough */
};

static struct activity *self;

void activity_init(struct activity *v)
{
	lock_init(&v->lock, LOCK_RECORDS);
}

/* --- buffers --- */

static void CUPTIAPI on_buffer_wanted(uint8_t **buffer, size_t *size, size_t *max_records)
{
	struct activity *v = self;

	LOCK_SCOPE(&v->lock);
	v->others.n_asked++;
	*buffer = buffers_give(&v->buffers, size);
	*max_records = 0;
}

/* False: there is none behind these. */
static bool take_some_records(struct activity *v, uint8_t *buffer, size_t valid,
			      CUpti_Activity **last, bool given_up)
{
	CUpti_Activity *some[ACTIVITY_AT_ONCE];
	size_t n = 0;

	while (n < ACTIVITY_AT_ONCE &&
	       v->profiler->cuptiActivityGetNextRecord(buffer, valid, last) == CUPTI_SUCCESS) {
		some[n++] = *last;
	}
	lock_acquire(&v->lock);
	for (size_t i = 0; i < n; i++) {
		if (given_up) {
			records_give_up(v, some[i]);
		} else {
			records_take(v, some[i]);
		}
	}
	lock_release(&v->lock);
	return n == ACTIVITY_AT_ONCE;
}

bool activity_is_crowded(struct activity *v)
{
	LOCK_SCOPE(&v->lock);
	return v->graphs.n_kernels >= GRAPHS_CROWD;
}

static void CUPTIAPI on_buffer_full(CUcontext context, uint32_t stream, uint8_t *buffer,
				    size_t size, size_t valid)
{
	struct activity *v = self;
	CUpti_Activity *record = NULL;
	size_t dropped = 0, waited;
	bool given_up, ours;

	(void)size;
	if (!buffer) {
		return;
	}
	lock_acquire(&v->lock);
	waited = v->graphs.n_kernels;
	ours = buffers_know(&v->buffers, buffer, &given_up);
	lock_release(&v->lock);
	if (!ours) {
		atomic_store(&v->others.were_first, true);
		return;
	}
	while (valid > 0 && take_some_records(v, buffer, valid, &record, given_up)) {
	}
	v->profiler->cuptiActivityGetNumDroppedRecords(context, stream, &dropped);
	lock_acquire(&v->lock);
	v->dropped += dropped;
	v->others.n_heard++;
	buffers_take_back(&v->buffers, buffer);
	/* Not while a capture ends, which has no thread to tell then. */
	if (waited < GRAPHS_CROWD && v->graphs.n_kernels >= GRAPHS_CROWD && v->started &&
	    v->on_crowd) {
		v->on_crowd(v->userdata);
	}
	lock_release(&v->lock);
}

/* --- launches --- */

/* Of the capture before, which nobody took. */
static void forget_copies(struct activity *v)
{
	free(v->copied);
	v->copied = NULL;
	v->n_copied = v->max_copied = 0;
}

static int begin(struct activity *v, const struct profiler *p)
{
	int r;

	lock_acquire(&v->lock);
	buffers_begin(&v->buffers, v->patient ? BUFFER_AHEAD_BYTES : BUFFER_BYTES,
		      v->patient ? BUFFERS_AHEAD_MAX : BUFFERS_MAX);
	/* They are still there if tracing could not be stopped. */
	r = v->spans.v ? 0 : spans_init(&v->spans, v->patient ? SPANS_BITS_MANY : SPANS_BITS);
	if (r == 0) {
		v->profiler = p;
		v->patience_ms = v->patient ? ACTIVITY_PATIENCE_AHEAD_MS : ACTIVITY_PATIENCE_MS;
		v->dropped = 0;
		v->others.n_asked = 0;
		atomic_store(&v->others.expected, false);
		v->whole = false;
		forget_copies(v);
		v->repeated = (struct repeated){ 0 };
		v->started = true;
		v->copying = v->copies;
		v->heard_ns = clock_now_ns();
		self = v;
	}
	lock_release(&v->lock);
	return r;
}

static void end(struct activity *v)
{
	LOCK_SCOPE(&v->lock);
	v->started = false; /* buffers that CUPTI returns from now on are freed */
	v->copying = false;
	buffers_end(&v->buffers);
	spans_deinit(&v->spans);
	graphs_deinit(&v->graphs);
}

/* If this fails, the duration of a graph is that from its first kernel to its last one. Kernels of
 * graphs have no records of their own from now on. */
static void trace_whole_graphs(struct activity *v)
{
	lock_acquire(&v->lock);
	v->whole = true;
	lock_release(&v->lock);
	copy_gate_close();
	v->profiler->cuptiActivityEnable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
	copy_gate_open();
}

/* Where kernels of graphs are traced, also if nobody wants to know: a graph's copies and fills have
 * places in CUPTI's memory on the GPU, and if they are not traced these are never used again
 * (buffers.c). */
static bool traces_copies(const struct activity *v)
{
	return v->copies || v->name_kernel;
}

static CUptiResult turn_on(struct activity *v)
{
	const struct profiler *p = v->profiler;
	CUptiResult result = p->cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);

	if (traces_copies(v) && result == CUPTI_SUCCESS) {
		p->cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
		p->cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET);
	}
	return result;
}

/* In this order: turning kernels off first, the program ended in a fill sooner (copy_gate.c). */
static CUptiResult turn_off(struct activity *v)
{
	const struct profiler *p = v->profiler;

	if (v->whole) {
		p->cuptiActivityDisable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
	}
	if (traces_copies(v)) {
		p->cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMSET);
		p->cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMCPY);
	}
	return p->cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
}

CUptiResult activity_trace(struct activity *v, bool on)
{
	CUptiResult result = CUPTI_SUCCESS;

	if (v->others.are_there) {
		atomic_store(&v->tracing, false);
	} else if (atomic_load(&v->tracing) != on) {
		copy_gate_close();
		result = on ? turn_on(v) : turn_off(v);
		copy_gate_open();
		atomic_store(&v->tracing, on && result == CUPTI_SUCCESS);
	}
	return result;
}

/* CUPTI keeps the times of kernels that it has not told of yet in memory of the GPU, which the
 * program may need, or in the host's. One thread launched 195,000 empty kernels a second with both;
 * in graphs 0.90 to 0.99 million ran a second with the host's, 0.97 to 1.12 with the GPU's (H200,
 * CUPTI 2025.3). */
static void keep_times_in_host_memory(const struct profiler *p, bool on)
{
	uint8_t value = on;
	size_t size = sizeof(value);

	p->cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED, &size,
				     &value);
}

/* Once in a process, so that others' later callbacks are not replaced. */
static CUptiResult register_callbacks(struct others *o, const struct profiler *p)
{
	CUptiResult result =
		o->registered ? CUPTI_SUCCESS
			      : p->cuptiActivityRegisterCallbacks(on_buffer_wanted, on_buffer_full);

	o->registered = result == CUPTI_SUCCESS;
	return result;
}

CUptiResult activity_start(struct activity *v, const struct profiler *p)
{
	CUptiResult result;

	if (v->others.are_there) {
		return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	}
	if (begin(v, p) < 0) {
		return CUPTI_ERROR_OUT_OF_MEMORY;
	}
	keep_times_in_host_memory(p, true);
	result = register_callbacks(&v->others, p);
	if (result == CUPTI_SUCCESS) {
		result = activity_trace(v, true);
	}
	if (result != CUPTI_SUCCESS) {
		end(v);
	} else if (!v->name_kernel) {
		trace_whole_graphs(v);
	}
	return result;
}

void activity_expect(struct activity *v, uint32_t correlation)
{
	if (v->spans.v) {
		flag_raise(&v->others.expected);
		spans_expect(&v->spans, correlation, true);
	}
}

/* Its time is waited for as well: it may be traced whole after all. */
void activity_expect_graph(struct activity *v, const struct launch *l, uintptr_t graph)
{
	if (v->spans.v) {
		LOCK_SCOPE(&v->lock);
		spans_expect(&v->spans, l->correlation, false);
		if (v->name_kernel) {
			graphs_expect(&v->graphs, l, graph);
		}
	}
}

void activity_forget(struct activity *v, uint32_t correlation)
{
	if (v->spans.v) {
		lock_acquire(&v->lock);
		spans_forget(&v->spans, correlation);
		graphs_forget(&v->graphs, correlation);
		lock_release(&v->lock);
	}
}

bool activity_want_whole_graphs(struct activity *v)
{
	bool came;

	lock_acquire(&v->lock);
	came = v->graphs.came;
	lock_release(&v->lock);
	if (v->whole || came || !v->spans.v || v->others.are_there) {
		return false;
	}
	trace_whole_graphs(v);
	return true;
}

bool activity_drops(struct activity *v)
{
	LOCK_SCOPE(&v->lock);
	return v->dropped > 0;
}

struct repeated activity_repeated(struct activity *v)
{
	LOCK_SCOPE(&v->lock);
	return v->repeated.n >= REPEATS_LEAST ? v->repeated : (struct repeated){ 0 };
}

static void stop(void *argument)
{
	struct activity *v = argument;

	activity_trace(v, false);
	if (!v->others.are_there) {
		keep_times_in_host_memory(v->profiler, false);
		if (!activity_flush_out(v, v->patient ? STOP_PATIENCE_MS : ACTIVITY_PATIENCE_MS)) {
			v->others.are_there = true;
		}
	}
	end(v);
}

void activity_stop(struct activity *v)
{
	if (v->spans.v) {
		activity_do_while_quiet(v, stop);
	}
}
