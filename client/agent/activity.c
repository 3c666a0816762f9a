/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/activity.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/agent/activity_flush.h"
#include "client/agent/activity_records.h"
#include "client/agent/copy_gate.h"
#include "client/agent/others.h"
#include "client/agent/state.h"
#include "proto/base/array.h"
#include "proto/base/clock.h"
#include "proto/base/map.h"

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
 * Where launches run ahead nobody waits for a record, and what counts is that launches stay fast.
 * Each buffer that CUPTI gives back, and each look for what has come, costs the launching threads:
 * of a ResNet-18 bound by launches (25 us each) 20 % with buffers of 64 KiB and a look every 2 ms,
 * 11 % with one of the two changed, 8 % with buffers of 1 MiB and a look every 30 ms, of which
 * CUPTI itself takes 7 (H100, CUPTI 2025.3).
 *
 * A flush that is forced also returns the buffers in which a kernel has not ended, and is dangerous
 * (buffers.c): so flushes are forced only for what does not come otherwise.
 *
 * From some captures on all records of a thread had the correlation id of one launch, in all later
 * captures of the process as well (H100 and H200, CUPTI 2025.3): a launch's callback had been
 * turned off while the thread was within it. Ours stay on until a capture ends; others who use
 * CUPTI in the process may turn theirs off. Records that name a launch of one kernel for a second
 * time are not believed, and where there are many, records are waited for with less patience.
 *
 * CUPTI measures a range with a kernel of its own, WaitNs. It belongs to no launch of the program,
 * so nobody expects its id; its name is compared as well. */

enum {
	BUFFER_BYTES = 64 * 1024,
	BUFFERS_MAX = 128,
	BUFFER_AHEAD_BYTES = 1024 * 1024,
	BUFFERS_AHEAD_MAX = 64,
	RECORDS_AT_ONCE = 32, /* which the lock is held for */
	PATIENCE_MS = 100,
	PAUSE_MS = 1,
	/* Where launches run ahead: less than the 10 s that the daemon waits for the end. */
	PATIENCE_AHEAD_MS = 2000,
	PATIENCE_AHEAD_LEAST_MS = 20,
	PAUSE_AHEAD_MS = 30,
	FLUSH_AHEAD_MS = 500,
	PAUSE_ENDING_MS = 2, /* where the program or the client waits for the rest */
	FLUSH_ENDING_MS = 50,
	STOP_PATIENCE_MS = 400, /* for kernels that have been launched */
	PAUSE_GRAPHS_MS = 20,
	GRAPHS_CROWD = GRAPHS_KERNELS_MAX / 4, /* kernels that wait to be told */
	REPEATS_LEAST = 64,	   /* no two kernels should have one id, so few are enough */
	REPEATS_PATIENCE_MS = 600, /* for a GPU that is behind, and a buffer that is not full */
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

bool activity_is_started(struct activity *v)
{
	LOCK_SCOPE(&v->lock);
	return v->started;
}

bool activity_has_graphs(struct activity *v)
{
	LOCK_SCOPE(&v->lock);
	return v->graphs.v != NULL;
}

/* False: there is none behind these. */
static bool take_some_records(struct activity *v, uint8_t *buffer, size_t valid,
			      CUpti_Activity **last, bool given_up)
{
	CUpti_Activity *some[RECORDS_AT_ONCE];
	size_t n = 0;

	while (n < RECORDS_AT_ONCE &&
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
	return n == RECORDS_AT_ONCE;
}

bool activity_is_crowded(struct activity *v)
{
	LOCK_SCOPE(&v->lock);
	return v->graphs.n_kernels >= GRAPHS_CROWD;
}

/* Not while a capture ends, which has no thread to tell then. */
static void tell_crowd(struct activity *v)
{
	LOCK_SCOPE(&v->lock);
	if (v->started && v->on_crowd) {
		v->on_crowd(v->userdata);
	}
}

static void CUPTIAPI on_buffer_full(CUcontext context, uint32_t stream, uint8_t *buffer,
				    size_t size, size_t valid)
{
	struct activity *v = self;
	CUpti_Activity *record = NULL;
	size_t dropped = 0;
	bool crowded, given_up, ours;

	(void)size;
	if (!buffer) {
		return;
	}
	crowded = activity_is_crowded(v);
	lock_acquire(&v->lock);
	given_up = buffers_is_given_up(&v->buffers, buffer);
	ours = buffers_are_ours(&v->buffers, buffer);
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
	v->has_come = true;
	v->others.n_heard++;
	buffers_take_back(&v->buffers, buffer, valid);
	lock_release(&v->lock);
	if (!crowded && activity_is_crowded(v)) {
		tell_crowd(v);
	}
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
		v->patience_ms = v->patient ? PATIENCE_AHEAD_MS : PATIENCE_MS;
		v->dropped = 0;
		v->others.n_asked = 0;
		atomic_store(&v->others.expected, false);
		v->whole = false;
		forget_copies(v);
		v->repeated = (struct repeated){ 0 };
		v->graphs.counts = (struct graph_counts){ 0 };
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
	result = others_register(&v->others, p, on_buffer_wanted, on_buffer_full);
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
		if (!atomic_load_explicit(&v->others.expected, memory_order_relaxed)) {
			atomic_store(&v->others.expected, true);
		}
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

static bool is_pending(const struct launch *l)
{
	return l->fate == LAUNCH_DONE && l->clock == GPUCTR_CLOCK_NONE &&
	       l->kind != GPUCTR_LAUNCH_GRAPH_KERNEL && /* all that is known of these is in them */
	       l->correlation != 0 && !l->timeless;
}

/* With the lock. False: it has no record yet. */
static bool take_span(struct activity *v, struct launch *l)
{
	struct span span;

	if (!spans_take(&v->spans, l->correlation, &span)) {
		return false;
	}
	l->timeless = span.is_shared;
	if (!span.is_shared) {
		l->start_ns = span.begin_ns;
		l->duration_ns = span.end_ns - span.begin_ns;
		l->clock = GPUCTR_CLOCK_GPU;
	}
	return true;
}

/* A graph may have several records, so graphs are asked for after the kernels. Returns how many
 * launches have no record yet. */
static size_t take_spans(struct activity *v, struct batch *b, bool graphs)
{
	size_t missing = 0;

	for (size_t i = 0; i < b->n;) {
		size_t end = b->n - i > RECORDS_AT_ONCE ? i + RECORDS_AT_ONCE : b->n;

		LOCK_SCOPE(&v->lock);
		for (; i < end; i++) {
			struct launch *l = &b->launches[i];

			missing += is_pending(l) && (l->kind == GPUCTR_LAUNCH_GRAPH) == graphs &&
				   !take_span(v, l);
		}
	}
	return missing;
}

/* Of graphs, kernels may still come. */
static void forget_rest(struct activity *v, const struct batch *b)
{
	LOCK_SCOPE(&v->lock);
	for (size_t i = 0; i < b->n; i++) {
		if (b->launches[i].clock == GPUCTR_CLOCK_NONE) {
			spans_forget(&v->spans, b->launches[i].correlation);
		}
	}
}

struct pace {
	unsigned pause_ms, flush_ms; /* between two looks, and between two flushes */
};

static struct pace pace_of(const struct activity *v)
{
	return !v->patient	       ? (struct pace){ PAUSE_MS, PAUSE_MS }
	       : activity_is_ending(v) ? (struct pace){ PAUSE_ENDING_MS, FLUSH_ENDING_MS }
				       : (struct pace){ PAUSE_AHEAD_MS, FLUSH_AHEAD_MS };
}

/* Where records name wrong launches, those of other threads may still come. */
static bool is_hopeless(struct activity *v, const struct batch *b)
{
	uint64_t launched_ns = 0; /* the last one of the missing, in Unix time */

	if (activity_repeated(v).n == 0) {
		return false;
	}
	for (size_t i = 0; i < b->n; i++) {
		const struct launch *l = &b->launches[i];

		if (is_pending(l) && l->start_ns > launched_ns) {
			launched_ns = l->start_ns;
		}
	}
	return clock_wall_ns() > launched_ns + REPEATS_PATIENCE_MS * CLOCK_NS_PER_MS;
}

static void pause_for(struct activity *v, unsigned ms)
{
	nanosleep(&(struct timespec){ 0, ms * CLOCK_NS_PER_MS }, NULL);
	if (v->on_wait) {
		v->on_wait(v->userdata);
	}
}

/* Waits until the records of all kernels, or of all graphs, have come, or the patience is over. */
static size_t collect(struct activity *v, struct batch *b, bool graphs, uint64_t until_ns)
{
	size_t missing = take_spans(v, b, graphs);
	bool hopeless = false;
	unsigned unflushed_ms = 0;

	/* Where launches run ahead CUPTI's buffers come by themselves as they fill up. */
	while (missing > 0 && clock_now_ns() < until_ns && !hopeless) {
		struct pace pace = pace_of(v);

		pause_for(v, pace.pause_ms);
		unflushed_ms += pace.pause_ms;
		hopeless = is_hopeless(v, b);
		if (unflushed_ms >= pace.flush_ms || hopeless) {
			unflushed_ms = 0;
			activity_flush_quietly(v);
		}
		missing = take_spans(v, b, graphs);
	}
	if (missing > 0 && v->patient && !hopeless) {
		activity_flush_forced(v);
		missing = take_spans(v, b, graphs);
	}
	return missing;
}

/* Records that CUPTI drops or gives to another user of CUPTI never come, so later batches wait for
 * a shorter time. */
static unsigned next_patience(const struct activity *v, bool missing)
{
	unsigned half = v->patience_ms / 2;

	if (!missing) {
		return v->patient ? PATIENCE_AHEAD_MS : PATIENCE_MS;
	}
	return v->patient && half < PATIENCE_AHEAD_LEAST_MS ? PATIENCE_AHEAD_LEAST_MS : half;
}

/* Of a graph whose kernels have not come, but copies. */
static bool take_copied(struct activity *v, struct launch *l)
{
	const struct graph_launch *g;

	LOCK_SCOPE(&v->lock);
	g = graphs_find(&v->graphs, l->correlation);
	if (!g || g->n_came > 0 || !g->copied) {
		return false;
	}
	l->start_ns = g->begin_ns;
	l->duration_ns = g->end_ns - g->begin_ns;
	l->clock = GPUCTR_CLOCK_GPU;
	return true;
}

/* How many launches of graphs have no record yet, nor a time; of how many it is not known whether
 * all kernels have come, and how many have. */
struct graphs_seen {
	size_t missing, open;
	uint64_t n_came;
};

static struct graphs_seen look_at_graphs(struct activity *v, const struct batch *b)
{
	struct graphs_seen seen = { 0 };

	LOCK_SCOPE(&v->lock);
	for (size_t i = 0; i < b->n; i++) {
		enum graph_here here;

		if (!is_pending(&b->launches[i]) || b->launches[i].kind != GPUCTR_LAUNCH_GRAPH) {
			continue;
		}
		here = graphs_look(&v->graphs, b->launches[i].correlation, &seen.n_came);
		seen.missing += here == GRAPH_NOTHING;
		seen.open += here == GRAPH_SOME;
	}
	return seen;
}

/* Waits until kernels of each graph have come, as many as last time, or until no more do. */
static size_t collect_graphs(struct activity *v, struct batch *b, uint64_t until_ns)
{
	struct graphs_seen before, now = look_at_graphs(v, b);

	while (now.missing + now.open > 0 && clock_now_ns() < until_ns && !activity_is_crowded(v)) {
		before = now;
		pause_for(v, PAUSE_GRAPHS_MS);
		activity_flush_quietly(v);
		now = look_at_graphs(v, b);
		if (now.missing == 0 && now.n_came == before.n_came) {
			break;
		}
	}
	if (now.missing > 0) {
		activity_flush_forced(v);
		now = look_at_graphs(v, b);
	}
	for (size_t i = 0; i < b->n; i++) {
		if (is_pending(&b->launches[i]) && b->launches[i].kind == GPUCTR_LAUNCH_GRAPH) {
			take_copied(v, &b->launches[i]);
		}
	}
	return now.missing;
}

void activity_flush(struct activity *v)
{
	if (activity_is_started(v)) {
		activity_flush_now(v);
	}
}

void activity_fill(struct activity *v, struct batch *b)
{
	uint64_t until_ns;
	size_t missing, kernels;

	if (!v->spans.v) {
		return;
	}
	until_ns = clock_now_ns() + v->patience_ms * CLOCK_NS_PER_MS;
	kernels = missing = collect(v, b, false, until_ns);
	missing += v->name_kernel && !v->whole ? collect_graphs(v, b, until_ns)
					       : collect(v, b, true, until_ns);
	forget_rest(v, b);
	activity_look_for_others(v, kernels > 0, OTHERS_BATCHES);
	v->patience_ms = next_patience(v, missing > 0 && activity_repeated(v).n == 0);
}

/* The name of a kernel that has come already is not known any more. */
void activity_leave_out(struct activity *v, const struct launch *l)
{
	struct span span = { .begin_ns = l->start_ns, .end_ns = l->start_ns + l->duration_ns };
	bool known = l->clock == GPUCTR_CLOCK_GPU;

	if (!v->spans.v) {
		return;
	}
	LOCK_SCOPE(&v->lock);
	if (!known && (!spans_take(&v->spans, l->correlation, &span) || span.is_shared)) {
		spans_forget(&v->spans, l->correlation);
		return;
	}
	records_add_copy(
		v, &(struct pack_copy){
			   .kind = GPUCTR_COPY_KERNEL,
			   .device = l->device,
			   .context = l->context,
			   .stream = l->stream,
			   .bytes = map_mix(l->function, (uint64_t)l->grid[0] << 32 | l->block[0]),
			   .start_ns = span.begin_ns,
			   .duration_ns = span.end_ns - span.begin_ns });
}

/* Kernels of the graph that CUPTI has dropped ran among the others, or just before or behind them:
 * for about as long as these, on average, or as the longest of them. */
static void note_lost(struct activity *v, const struct graph_told *told)
{
	struct pack_copy lost = { .kind = GPUCTR_COPY_LOST, .start_ns = UINT64_MAX };
	uint64_t end_ns = 0, longest_ns = 0, more_ns;

	for (const struct graph_kernel *k = told->kernels.first; k; k = k->next) {
		const struct launch *l = &k->launch;

		lost.device = l->device;
		lost.start_ns = l->start_ns < lost.start_ns ? l->start_ns : lost.start_ns;
		end_ns = l->start_ns + l->duration_ns > end_ns ? l->start_ns + l->duration_ns
							       : end_ns;
		longest_ns = l->duration_ns > longest_ns ? l->duration_ns : longest_ns;
	}
	if (end_ns > 0) {
		more_ns = 2 * (end_ns - lost.start_ns) * told->lacks / told->n_came;
		more_ns = more_ns > longest_ns ? more_ns : longest_ns;
		lost.start_ns -= more_ns < lost.start_ns ? more_ns : lost.start_ns;
		lost.duration_ns = end_ns + more_ns - lost.start_ns;
		records_add_copy(v, &lost);
	}
}

struct graph_told activity_take_graph(struct activity *v, const struct launch *l)
{
	struct graph_told told;

	LOCK_SCOPE(&v->lock);
	told = graphs_take(&v->graphs, l->correlation);
	if (told.n_came > 0) {
		spans_forget(&v->spans, l->correlation);
	}
	if (told.lacks > 0 && v->dropped > 0) {
		note_lost(v, &told);
	}
	return told;
}

struct graph_kernels activity_take_late(struct activity *v)
{
	LOCK_SCOPE(&v->lock);
	return graphs_take_late(&v->graphs);
}

struct graph_counts activity_take_graph_counts(struct activity *v)
{
	struct graph_counts counts;

	LOCK_SCOPE(&v->lock);
	counts = v->graphs.counts;
	v->graphs.counts = (struct graph_counts){ 0 };
	return counts;
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

struct pack_copy *activity_take_copies(struct activity *v, size_t *ret_n)
{
	struct pack_copy *taken;

	LOCK_SCOPE(&v->lock);
	taken = v->copied;
	*ret_n = v->n_copied;
	v->copied = NULL;
	v->n_copied = v->max_copied = 0;
	return taken;
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
		if (!activity_flush_out(v, v->patient ? STOP_PATIENCE_MS : PATIENCE_MS)) {
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
