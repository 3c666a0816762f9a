/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/activity.h"

#include <stdlib.h>

#include "client/agent/activity_flush.h"
#include "client/agent/copy_gate.h"
#include "client/agent/flag.h"
#include "client/agent/state.h"
#include "proto/base/clock.h"

/* The length of a user range is longer than its kernel: it holds the range's markers, what the host
 * does between push and launch, and the loading of the kernel's module. So the agent also collects
 * CUPTI's activity records, one per kernel, and joins each with its launch by the correlation id
 * from CUPTI's callback. A graph gives one record if whole graphs are traced and CUPTI can trace
 * them, else one for each of its kernels, all with the correlation id of the launch. The kernels'
 * records are reported one by one (graphs.c), or together give the time of the graph.
 *
 * CUPTI asks for a buffer, fills it from when kernels are launched until they have ended, and gives
 * it back on a thread of its own, or inside of cuptiActivityFlushAll(). A flush returns the buffers
 * in which every record is complete, but waits for the kernel of a range that has been closed
 * (H200, CUPTI 2025.3): so the agent flushes at the end of a batch, when no kernel runs, which
 * costs half a millisecond. Buffers are used again, and their number is limited: when all are in
 * use, the agent discards records, and their launches have no clock.
 *
 * A forced flush also returns the buffers in which a kernel has not ended, and is dangerous
 * (buffers.c): so the agent forces a flush only for records that do not come otherwise.
 *
 * If a launch's callback is turned off while a thread is inside the launch, all later records of
 * that thread have the correlation id of that launch, also in later captures of the process (H100
 * and H200, CUPTI 2025.3). The agent keeps its callbacks on until a capture ends, but other users
 * of CUPTI in the process may turn theirs off. So if a second record names a launch of one kernel,
 * the agent uses neither time.
 *
 * CUPTI measures a range with a kernel of its own, WaitNs. It belongs to no launch of the program,
 * so its correlation id was never announced; records with its name are skipped as well. */

enum {
	BUFFER_BYTES = 64 * 1024,
	BUFFERS_MAX = 128,
	BUFFER_AHEAD_BYTES = 1024 * 1024,
	BUFFERS_AHEAD_MAX = 64,
	STOP_PATIENCE_MS = 400, /* for the records of kernels that were launched before the end */
	GRAPHS_CROWD = GRAPHS_KERNELS_MAX / 4, /* kernels that wait to be delivered */
	REPEATS_LEAST = 64, /* repeated ids that prove the fault; without it there are none */
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

/* False: the buffer has no further record. */
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
	/* Not while a capture ends, because the thread that on_crowd() wakes has ended then. */
	if (waited < GRAPHS_CROWD && v->graphs.n_kernels >= GRAPHS_CROWD && v->started &&
	    v->on_crowd) {
		v->on_crowd(v->userdata);
	}
	lock_release(&v->lock);
}

/* --- launches --- */

/* Frees copies of the previous capture that were never taken. */
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
	/* The spans still exist if tracing could not be stopped. */
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
	v->started = false; /* CUPTI's later buffers are freed */
	v->copying = false;
	buffers_end(&v->buffers);
	spans_deinit(&v->spans);
	graphs_deinit(&v->graphs);
}

/* If this fails, the duration of a graph is the time from its first kernel to its last. Kernels of
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

/* If kernels of graphs are traced, copies are traced too, even if nobody wants them: CUPTI has
 * places in its memory on the GPU for a graph's copies and fills, and never uses the places again
 * if copies and fills are not traced (buffers.c). */
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

/* Kernels last: when they were turned off first, programs crashed in a fill sooner (copy_gate.c).
 */
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

/* CUPTI keeps the times of kernels that it has not reported yet in GPU memory, which the program
 * may need, or in host memory. One thread launched 195,000 empty kernels a second with either; of
 * graphs 0.90 to 0.99 million ran a second with host memory, 0.97 to 1.12 with GPU memory (H200,
 * CUPTI 2025.3). */
static void keep_times_in_host_memory(const struct profiler *p, bool on)
{
	uint8_t value = on;
	size_t size = sizeof(value);

	p->cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED, &size,
				     &value);
}

/* Registers once per process, so that callbacks which somebody else registers later stay. */
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

/* Announces the graph's own span, too: CUPTI may trace the graph as a whole after all. */
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
