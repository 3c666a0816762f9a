/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "client/agent/activity_flush.h"
#include "proto/base/clean.h"
#include "proto/base/clock.h"

/* Launches are joined with what CUPTI traces. Here CUPTI is a list of records that come with the
 * flush of a given number. */

enum { RECORDS_MAX = 512 };

#define LONG_NS (60 * CLOCK_NS_PER_S) /* however busy the machine is */

struct traced {
	CUpti_ActivityKernel9 record;
	unsigned flush; /* that brings it */
	bool is_graph;
};

struct fixture {
	struct profiler profiler;
	struct activity activity;
	struct launch launches[300];
	struct batch batch;
	struct counters counters;
};

static struct traced traced[RECORDS_MAX];
static size_t n_traced, n_dropped;
static unsigned n_flushes, last_flag;
static bool is_enabled[CUPTI_ACTIVITY_KIND_COUNT], is_in_host_memory;
static CUptiResult refuses[2]; /* kernels, graphs */
static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static uint8_t *held; /* a buffer that only a forced flush returns */

static CUptiResult fake_register(CUpti_BuffersCallbackRequestFunc a,
				 CUpti_BuffersCallbackCompleteFunc b)
{
	request = a;
	complete = b;
	return CUPTI_SUCCESS;
}

static CUptiResult fake_enable(CUpti_ActivityKind kind)
{
	bool is_graph = kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE;

	is_enabled[kind] = is_enabled[kind] || refuses[is_graph] == CUPTI_SUCCESS;
	return refuses[is_graph];
}

static CUptiResult fake_disable(CUpti_ActivityKind kind)
{
	is_enabled[kind] = false;
	if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
		assert_false(is_enabled[CUPTI_ACTIVITY_KIND_MEMSET]);
	}
	return CUPTI_SUCCESS;
}

/* A record in a buffer is its number in traced. */
static CUptiResult fake_next(uint8_t *buffer, size_t valid, CUpti_Activity **record)
{
	static size_t at;
	uint32_t number;

	at = *record ? at + sizeof(number) : 0;
	if (at >= valid) {
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	}
	memcpy(&number, buffer + at, sizeof(number));
	*record = (CUpti_Activity *)&traced[number].record;
	return CUPTI_SUCCESS;
}

static CUptiResult fake_dropped(CUcontext context, uint32_t stream, size_t *ret)
{
	(void)context;
	(void)stream;
	*ret = n_dropped;
	n_dropped = 0;
	return CUPTI_SUCCESS;
}

static CUptiResult fake_flush(uint32_t flag)
{
	uint8_t *buffer;
	size_t size, used = 0, most;

	last_flag = flag;
	n_flushes++;
	if (!request) { /* no error where nobody has registered */
		return CUPTI_SUCCESS;
	}
	request(&buffer, &size, &most);
	assert_non_null(buffer);
	for (uint32_t i = 0; i < n_traced; i++) {
		if (traced[i].flush == n_flushes) {
			memcpy(buffer + used, &i, sizeof(i));
			used += sizeof(i);
		}
	}
	complete(NULL, 0, buffer, size, used);
	if (flag == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED && held) {
		complete(NULL, 0, held, size, 0);
	}
	return CUPTI_SUCCESS;
}

/* A kernel of this launch, that the flush of this number brings. */
static CUpti_ActivityKernel9 *trace(unsigned flush, uint32_t correlation, uint64_t begin,
				    uint64_t end)
{
	struct traced *t = &traced[n_traced++];

	t->flush = flush;
	t->record = (CUpti_ActivityKernel9){
		.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
		.correlationId = correlation,
		.start = begin,
		.end = end,
		.name = "_Z6kernelv",
	};
	return &t->record;
}

static void trace_graph(unsigned flush, uint32_t correlation, uint64_t begin, uint64_t end)
{
	CUpti_ActivityGraphTrace g = {
		.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE,
		.correlationId = correlation,
		.start = begin,
		.end = end,
	};

	memcpy(trace(flush, 0, 0, 0), &g, sizeof(g));
}

static void trace_copy(unsigned flush, CUpti_ActivityKind kind, uint64_t bytes, uint64_t begin)
{
	CUpti_ActivityMemcpy5 c = {
		.kind = kind,
		.bytes = bytes,
		.start = begin,
		.end = begin + 10,
		.deviceId = 1,
		.contextId = 2,
		.streamId = 7,
	};

	memcpy(trace(flush, 0, 0, 0), &c, sizeof(c));
}

static void launch(struct fixture *f, uint32_t correlation, enum gpuctr_launch_kind kind)
{
	f->launches[f->batch.n++] = (struct launch){
		.correlation = correlation,
		.start_ns = 5,
		.kind = (uint8_t)kind,
	};
	if (kind == GPUCTR_LAUNCH_GRAPH) {
		activity_expect_graph(&f->activity, &f->launches[f->batch.n - 1], 0);
	} else {
		activity_expect(&f->activity, correlation);
	}
}

static void expect_times(const struct fixture *f, size_t i, uint64_t begin, uint64_t duration)
{
	assert_int_equal(f->launches[i].clock, GPUCTR_CLOCK_GPU);
	assert_int_equal(f->launches[i].start_ns, begin);
	assert_int_equal(f->launches[i].duration_ns, duration);
}

static void expect_unknown(const struct fixture *f, size_t i)
{
	assert_int_equal(f->launches[i].clock, GPUCTR_CLOCK_NONE);
	assert_int_equal(f->launches[i].start_ns, 5); /* of the call */
}

static unsigned enabled(void)
{
	unsigned n = 0;

	for (size_t i = 0; i < CUPTI_ACTIVITY_KIND_COUNT; i++) {
		n += is_enabled[i];
	}
	return n;
}

static CUptiResult fake_set_attribute(CUpti_ActivityAttribute which, size_t *size, void *value)
{
	assert_int_equal(which, CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED);
	assert_int_equal(*size, 1);
	is_in_host_memory = *(const uint8_t *)value != 0;
	return CUPTI_SUCCESS;
}

static struct fixture *fixture_new(void)
{
	struct fixture *f = calloc(1, sizeof(*f));

	activity_init(&f->activity);
	f->activity.graphs.counters = &f->counters;
	n_traced = n_dropped = n_flushes = last_flag = 0;
	memset(is_enabled, 0, sizeof(is_enabled));
	refuses[0] = refuses[1] = CUPTI_SUCCESS;
	request = NULL;
	complete = NULL;
	f->profiler.cuptiActivityRegisterCallbacks = fake_register;
	f->profiler.cuptiActivityEnable = fake_enable;
	f->profiler.cuptiActivitySetAttribute = fake_set_attribute;
	f->profiler.cuptiActivityDisable = fake_disable;
	f->profiler.cuptiActivityFlushAll = fake_flush;
	f->profiler.cuptiActivityGetNextRecord = fake_next;
	f->profiler.cuptiActivityGetNumDroppedRecords = fake_dropped;
	f->batch.launches = f->launches;
	return f;
}

/* Buffers that rest or are lost stay with it: the agent has one of these, for good. */
static void fixture_free(struct fixture *f)
{
	static struct fixture *kept[16];
	static size_t n;

	if (f->activity.buffers.resting || f->activity.buffers.given) {
		assert_true(n < ARRAY_SIZE(kept));
		kept[n++] = f;
	} else {
		free(f);
	}
}

static int setup(void **state)
{
	struct fixture *f = fixture_new();

	assert_int_equal(activity_start(&f->activity, &f->profiler), CUPTI_SUCCESS);
	assert_int_equal(enabled(), 2);
	assert_true(is_in_host_memory);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	activity_stop(&f->activity);
	assert_int_equal(enabled(), 0);
	assert_false(is_in_host_memory);
	assert_int_equal(last_flag, 0); /* all had come */
	spans_deinit(&f->activity.spans);
	fixture_free(f);
	return 0;
}

/* At the end of a batch, then on the delivering thread. */
static void fill(struct fixture *f)
{
	activity_flush(&f->activity);
	activity_fill(&f->activity, &f->batch);
}

/* For a machine that takes longer for some flushes than these would be waited for. */
static void have_patience(struct fixture *f, unsigned least_ms)
{
	assert_true(f->activity.patience_ms >= least_ms);
	f->activity.patience_ms = LONG_NS / CLOCK_NS_PER_MS;
}

#define FIXTURE_TEST(f) TEST_WITH(f, setup, teardown)

FIXTURE_TEST(launches_get_their_kernels_times)
{
	struct fixture *f = *state;

	for (uint32_t i = 0; i < 300; i++) {
		launch(f, 7 * i + 100, GPUCTR_LAUNCH_KERNEL);
		trace(1, 7 * i + 100, 1000 * i + 1, 1000 * i + 738);
		if (i % 2) {
			trace(1, 7 * i + 101, 1, 2); /* of a launch that is not measured */
		}
	}
	fill(f);
	for (size_t i = 0; i < 300; i++) {
		expect_times(f, i, 1000 * i + 1, 737);
	}
	assert_int_equal(n_flushes, 1); /* nothing was waited for */
	assert_false(activity_drops(&f->activity));
}

/* CUPTI's own kernel stands in each range: left out by its name, too. */
FIXTURE_TEST(cuptis_own_kernel_is_left_out)
{
	struct fixture *f = *state;

	launch(f, 10, GPUCTR_LAUNCH_KERNEL);
	trace(1, 10, 100, 40600)->name = "WaitNs";
	trace(1, 99, 100, 40600)->name = "WaitNs";
	trace(1, 10, 40700, 41000)->name = NULL;
	fill(f);
	expect_times(f, 0, 40700, 300);
}

FIXTURE_TEST(late_records_are_waited_for)
{
	struct fixture *f = *state;

	launch(f, 1, GPUCTR_LAUNCH_KERNEL);
	launch(f, 2, GPUCTR_LAUNCH_KERNEL);
	trace(1, 1, 10, 11);
	trace(4, 2, 20, 22);
	have_patience(f, 100);
	fill(f);
	expect_times(f, 0, 10, 1);
	expect_times(f, 1, 20, 2);
	assert_int_equal(n_flushes, 4);
}

/* But not for ever, and less each time. */
FIXTURE_TEST(what_never_comes_is_unknown)
{
	struct fixture *f = *state;
	uint64_t begin_ns = clock_now_ns(), spent_ns;

	launch(f, 1, GPUCTR_LAUNCH_KERNEL);
	launch(f, 2, GPUCTR_LAUNCH_KERNEL);
	trace(1, 2, 0, 0); /* CUPTI could not tell */
	n_dropped = 1;
	fill(f);
	spent_ns = clock_now_ns() - begin_ns;
	expect_unknown(f, 0);
	expect_unknown(f, 1);
	assert_true(spent_ns >= 90 * CLOCK_NS_PER_MS);
	assert_true(activity_drops(&f->activity));

	for (uint32_t i = 3; i < 20; i++) { /* less and less */
		n_flushes = 0;
		f->batch.n = 0;
		launch(f, i, GPUCTR_LAUNCH_KERNEL);
		fill(f);
		expect_unknown(f, 0);
	}
	assert_int_equal(n_flushes, 1);

	for (uint32_t i = 20; i < 22; i++) { /* they come again, and are then waited for */
		n_flushes = n_traced = 0;
		f->batch.n = 0;
		launch(f, i, GPUCTR_LAUNCH_KERNEL);
		trace(i == 20 ? 1 : 4, i, 10, 12);
		if (i > 20) {
			have_patience(f, 100);
		}
		fill(f);
		expect_times(f, 0, 10, 2);
	}
}

/* What nobody waits for any longer does not stay. */
FIXTURE_TEST(what_comes_too_late_is_left_out)
{
	struct fixture *f = *state;
	struct span span;

	launch(f, 1, GPUCTR_LAUNCH_KERNEL);
	fill(f);
	expect_unknown(f, 0);
	trace(n_flushes + 1, 1, 10, 12);
	fake_flush(0);
	assert_false(spans_take(&f->activity.spans, 1, &span));
}

static bool if_quiet(void *userdata, void (*act)(void *argument), void *argument)
{
	const bool *quiet = userdata;

	if (*quiet) {
		act(argument);
	}
	return *quiet;
}

/* A flush, and the end of the tracing, might wait for a kernel that never ends. */
FIXTURE_TEST(nothing_is_called_while_a_kernel_is_under_way)
{
	struct fixture *f = *state;
	bool quiet = false;

	f->activity.while_quiet = if_quiet;
	f->activity.userdata = &quiet;
	launch(f, 1, GPUCTR_LAUNCH_KERNEL);
	activity_fill(&f->activity, &f->batch);
	expect_unknown(f, 0);
	activity_stop(&f->activity);
	assert_int_equal(n_flushes, 0);
	assert_int_equal(enabled(), 2);
	quiet = true;
	activity_stop(&f->activity);
	assert_int_equal(n_flushes, 1);
	assert_int_equal(enabled(), 0);
	f->activity.while_quiet = NULL;
}

/* One record for it, or one for each of its kernels: from the first begin to the last end. */
FIXTURE_TEST(a_graph_is_as_long_as_all_of_it)
{
	struct fixture *f = *state;

	launch(f, 1, GPUCTR_LAUNCH_GRAPH);
	launch(f, 2, GPUCTR_LAUNCH_GRAPH);
	launch(f, 3, GPUCTR_LAUNCH_KERNEL);
	trace_graph(1, 1, 100, 1100);
	trace(1, 2, 2300, 2400)->graphId = 4;
	trace(3, 2, 2000, 2200)->graphId = 4; /* another stream of it, with what follows */
	trace(3, 3, 3000, 3001);
	have_patience(f, 100);
	fill(f);
	expect_times(f, 0, 100, 1000);
	expect_times(f, 1, 2000, 400);
	expect_times(f, 2, 3000, 1);
}

/* What else names a launch of a kernel is not its: then nobody knows which one is. */
FIXTURE_TEST(a_kernel_has_one_record)
{
	struct fixture *f = *state;

	launch(f, 1, GPUCTR_LAUNCH_KERNEL);
	launch(f, 2, GPUCTR_LAUNCH_KERNEL);
	launch(f, 3, GPUCTR_LAUNCH_KERNEL);
	trace(1, 1, 10, 12);
	trace(1, 2, 20, 22);
	trace(1, 1, 30, 90);
	trace(2, 3, 40, 42);
	have_patience(f, 100);
	fill(f);
	expect_unknown(f, 0);
	expect_times(f, 1, 20, 2);
	expect_times(f, 2, 40, 2);
	assert_int_equal(n_flushes, 2);
	assert_int_equal(activity_repeated(&f->activity).n, 0);
}

FIXTURE_TEST(a_failed_launch_is_not_waited_for)
{
	struct fixture *f = *state;

	launch(f, 1, GPUCTR_LAUNCH_KERNEL);
	f->launches[0].fate = LAUNCH_FAILED;
	launch(f, 2, GPUCTR_LAUNCH_KERNEL);
	trace(1, 2, 10, 12);
	fill(f);
	expect_unknown(f, 0);
	expect_times(f, 1, 10, 2);
	assert_int_equal(n_flushes, 1);
}

/* Where launches run ahead, and what moves bytes beside them is wanted. */
TEST(copies_are_taken_and_patience_is_long)
{
	struct fixture *f = fixture_new();
	struct pack_copy *v;
	size_t n;

	f->activity.copies = f->activity.patient = true;
	assert_int_equal(activity_start(&f->activity, &f->profiler), CUPTI_SUCCESS);
	assert_int_equal(enabled(), 4);
	launch(f, 1, GPUCTR_LAUNCH_KERNEL);
	trace_copy(1, CUPTI_ACTIVITY_KIND_MEMSET, 4096, 100);
	trace_copy(1, CUPTI_ACTIVITY_KIND_MEMCPY, 8192, 200);
	trace_copy(1, CUPTI_ACTIVITY_KIND_MEMCPY, 8192, 0); /* without a time */
	trace(1, 77, 300, 330)->gridX = 5;		    /* left out by a filter */
	trace(1, 78, 0, 0);
	trace(1, 79, 300, 330)->name = "WaitNs";
	trace_graph(1, 80, 400, 450);
	trace(3, 1, 10, 12); /* some pauses later */
	have_patience(f, 1000);
	fill(f);
	expect_times(f, 0, 10, 2);
	v = activity_take_copies(&f->activity, &n);
	assert_int_equal(n, 4);
	for (size_t i = 2; i < n; i++) {
		assert_int_equal(v[i].kind, GPUCTR_COPY_KERNEL);
		assert_int_equal(v[i].start_ns, i == 2 ? 300 : 400);
		assert_int_equal(v[i].duration_ns, i == 2 ? 30 : 50);
		assert_true(v[i].bytes != v[5 - i].bytes);
	}
	assert_int_equal(v[0].kind, GPUCTR_COPY_SET);
	assert_int_equal(v[0].bytes, 4096);
	assert_int_equal(v[1].kind, GPUCTR_COPY_MEMORY);
	assert_int_equal(v[1].start_ns, 200);
	assert_int_equal(v[1].duration_ns, 10);
	assert_int_equal(v[1].device, 1);
	assert_int_equal(v[1].stream, 7);
	free(v);
	assert_null(activity_take_copies(&f->activity, &n));
	assert_int_equal(n, 0);
	activity_forget(&f->activity, 1);
	f->batch.n = 0;
	launch(f, 2, GPUCTR_LAUNCH_KERNEL);
	launch(f, 3, GPUCTR_LAUNCH_KERNEL);
	trace(n_flushes + 1, 2, 600, 610);
	trace(n_flushes + 2, 3, 620, 640);
	fake_flush(0);
	activity_leave_out(&f->activity, &f->launches[0]); /* between the two */
	activity_leave_out(&f->activity, &f->launches[1]);
	fake_flush(0);
	v = activity_take_copies(&f->activity, &n);
	assert_int_equal(n, 2);
	assert_true(v[0].start_ns == 600 && v[0].duration_ns == 10);
	assert_true(v[1].start_ns == 620 && v[1].duration_ns == 20);
	free(v);
	activity_stop(&f->activity);
	assert_int_equal(enabled(), 0);
	trace_copy(n_flushes + 1, CUPTI_ACTIVITY_KIND_MEMSET, 4096, 500);
	fake_flush(0); /* after the end: not of the next capture */
	assert_int_equal(activity_start(&f->activity, &f->profiler), CUPTI_SUCCESS);
	assert_null(activity_take_copies(&f->activity, &n));
	activity_stop(&f->activity);
	fixture_free(f);
}

/* Buffers that were forced out rest, and there are only so many. */
TEST(flushes_are_not_forced_often)
{
	struct fixture *f = fixture_new();

	f->activity.patient = true;
	assert_int_equal(activity_start(&f->activity, &f->profiler), CUPTI_SUCCESS);
	launch(f, 1, GPUCTR_LAUNCH_KERNEL);
	for (int i = 0; i < 2; i++) {
		f->activity.patience_ms = 10;
		f->activity.forced_ns += i * LONG_NS; /* not long ago, however long this takes */
		last_flag = 0;
		activity_fill(&f->activity, &f->batch);
		expect_unknown(f, 0);
		assert_int_equal(last_flag, i == 0 ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0);
	}
	f->activity.forced_ns -= LONG_NS + CLOCK_NS_PER_S;
	activity_fill(&f->activity, &f->batch);
	assert_int_equal(last_flag, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	activity_stop(&f->activity);
	fixture_free(f);
}

/* --- each kernel of a graph --- */

static bool name_kernel(void *userdata, const char *name, struct launch *l,
			uint32_t static_shared_bytes, uint32_t registers)
{
	(void)userdata;
	l->function = (uint32_t)strlen(name);
	l->block[0] = static_shared_bytes + registers;
	return strcmp(name, "left out") != 0;
}

static struct fixture *start_nodes(void)
{
	struct fixture *f = fixture_new();

	f->activity.patient = f->activity.copies = true;
	f->activity.name_kernel = name_kernel;
	assert_int_equal(activity_start(&f->activity, &f->profiler), CUPTI_SUCCESS);
	assert_int_equal(enabled(), 3); /* no whole graphs */
	return f;
}

static void stop_nodes(struct fixture *f)
{
	activity_stop(&f->activity);
	assert_int_equal(enabled(), 0);
	fixture_free(f);
}

static void launch_graph(struct fixture *f, uint32_t correlation, uintptr_t graph)
{
	struct launch *l = &f->launches[f->batch.n++];

	*l = (struct launch){
		.correlation = correlation, .start_ns = 5, .kind = GPUCTR_LAUNCH_GRAPH, .thread = 9
	};
	activity_expect_graph(&f->activity, l, graph);
}

static void trace_node(unsigned flush, uint32_t correlation, uint64_t node, uint64_t begin)
{
	CUpti_ActivityKernel9 *k = trace(flush, correlation, begin, begin ? begin + 7 : 0);

	k->graphId = 4;
	k->graphNodeId = node;
	k->gridX = (int32_t)node;
	k->streamId = 20;
	k->contextId = 2;
	k->deviceId = 1;
	k->staticSharedMemory = 100;
	k->registersPerThread = 40;
	k->dynamicSharedMemory = 3000;
}

static size_t take_graph(struct fixture *f, size_t i, struct launch *ret, size_t most)
{
	struct graph_told told = activity_take_graph(&f->activity, &f->launches[i]);

	assert_true((told.n_came > 0) == (told.kernels.n > 0));
	assert_true(told.kernels.n <= most);
	for (size_t k = 0; k < told.kernels.n; k++) {
		ret[k] = told.kernels.v[k];
	}
	return graph_kernels_free(&told.kernels);
}

static void expect_copies(struct fixture *f, size_t wanted)
{
	size_t n;

	free(activity_take_copies(&f->activity, &n));
	assert_int_equal(n, wanted);
}

/* A graph's copies would keep CUPTI's memory on the GPU. */
TEST(copies_beside_kernels_of_graphs_are_traced_unasked)
{
	struct fixture *f = fixture_new();

	f->activity.patient = true;
	f->activity.name_kernel = name_kernel;
	assert_int_equal(activity_start(&f->activity, &f->profiler), CUPTI_SUCCESS);
	assert_true(is_enabled[CUPTI_ACTIVITY_KIND_MEMCPY] &&
		    is_enabled[CUPTI_ACTIVITY_KIND_MEMSET]);
	trace_copy(1, CUPTI_ACTIVITY_KIND_MEMSET, 4096, 100);
	fake_flush(0);
	expect_copies(f, 0);
	stop_nodes(f);
}

TEST(kernels_of_a_graph_have_all_they_are)
{
	struct fixture *f = start_nodes();
	struct launch l[4];
	CUpti_ActivityKernel9 *left_out;

	launch_graph(f, 1, 0x100);
	trace_node(1, 1, 11, 100);
	trace_node(2, 1, 12, 200); /* more come, so more are waited for */
	trace_node(2, 1, 13, 0);   /* CUPTI does not know when */
	left_out = trace(2, 1, 300, 310);
	left_out->name = "left out";
	left_out->graphId = 4;
	trace(2, 1, 400, 410); /* of a thread whose kernels all have this id */
	have_patience(f, 1000);
	activity_fill(&f->activity, &f->batch);
	expect_unknown(f, 0); /* the graph as a whole */
	assert_int_equal(take_graph(f, 0, l, 4), 3);
	assert_int_equal(l[0].kind, GPUCTR_LAUNCH_GRAPH_KERNEL);
	assert_int_equal(l[0].function, strlen("_Z6kernelv"));
	assert_int_equal(l[0].grid[0], 11);
	assert_int_equal(l[0].block[0], 140);
	assert_int_equal(l[0].dynamic_shared_bytes, 3000);
	assert_int_equal(l[0].stream, 20);
	assert_int_equal(l[0].context, 2);
	assert_int_equal(l[0].device, 1);
	assert_int_equal(l[0].graph, 4);
	assert_int_equal(l[0].graph_node, 11);
	assert_int_equal(l[0].thread, 9);
	assert_int_equal(l[0].clock, GPUCTR_CLOCK_GPU);
	assert_int_equal(l[0].start_ns, 100);
	assert_int_equal(l[0].duration_ns, 7);
	assert_int_equal(l[2].clock, GPUCTR_CLOCK_NONE);
	assert_int_equal(l[2].start_ns, 5);
	assert_int_equal(f->counters.seen, 3); /* beside the launch */
	expect_copies(f, 2);		       /* what ran beside them, for attribution */
	stop_nodes(f);
}

/* As many as last time have come: nothing is flushed. And those that come without being waited for
 * are not lost. */
TEST(known_graphs_are_not_waited_for)
{
	struct fixture *f = start_nodes();
	struct graph_kernels late;
	struct launch l[4];
	unsigned n;

	for (uint32_t i = 0; i < 2; i++) {
		launch_graph(f, i + 1, 0x100);
		trace_node(n_flushes + 1, i + 1, 11, 100);
		trace_node(n_flushes + 1, i + 1, 12, 200);
		fake_flush(0);
		n = n_flushes;
		activity_fill(&f->activity, &f->batch);
		assert_int_equal(n_flushes > n, i == 0);
		assert_int_equal(take_graph(f, i, l, 4), 2);
	}
	trace_node(n_flushes + 1, 2, 13, 300);
	fake_flush(0);
	late = activity_take_late(&f->activity);
	assert_int_equal(late.n, 1);
	assert_int_equal(late.v[0].graph_node, 13);
	f->batch.n = 1; /* delivered for itself, it is not waited for */
	f->launches[0] = late.v[0];
	f->launches[0].clock = GPUCTR_CLOCK_NONE;
	n = n_flushes;
	activity_fill(&f->activity, &f->batch);
	assert_int_equal(n_flushes, n);
	graph_kernels_free(&late);
	stop_nodes(f);
}

/* Where CUPTI drops records, others of the launch tell about when. */
TEST(dropped_kernels_of_a_graph_are_a_gap)
{
	struct fixture *f = start_nodes();
	struct launch l[4];
	struct pack_copy *v;
	size_t n;

	for (uint32_t i = 0; i < 3; i++) {
		launch_graph(f, i + 1, 0x100);
		for (uint32_t k = 0; k < 3 - (i > 0); k++) {
			trace_node(n_flushes + 1, i + 1, k, 100 * i + 10 * k + 1);
		}
		n_dropped = i == 2;
		fake_flush(0);
		activity_fill(&f->activity, &f->batch);
		take_graph(f, i, l, 4);
	}
	v = activity_take_copies(&f->activity, &n);
	assert_int_equal(n, 1); /* a node of the second was switched off, for all we know */
	assert_int_equal(v[0].kind, GPUCTR_COPY_LOST);
	assert_int_equal(v[0].device, 1);
	/* 17 ns of two kernels, and as much again for the third on either side. */
	assert_int_equal(v[0].start_ns, 201 - 17);
	assert_int_equal(v[0].duration_ns, 3 * 17);
	free(v);
	stop_nodes(f);
}

/* With the time of its copies, if it has some. */
TEST(a_graph_without_kernels_is_one)
{
	struct fixture *f = start_nodes();
	CUpti_ActivityMemcpy5 *c;
	struct pack_copy *v;
	struct launch l;
	size_t n, size, most;

	f->activity.patience_ms = 100;
	launch_graph(f, 1, 0x100);
	launch_graph(f, 2, 0x200);
	trace_copy(1, CUPTI_ACTIVITY_KIND_MEMCPY, 8192, 200);
	c = (CUpti_ActivityMemcpy5 *)&traced[0].record;
	c->correlationId = 2;
	request(&held, &size, &most);
	activity_fill(&f->activity, &f->batch);
	held = NULL;
	expect_unknown(f, 0);
	expect_times(f, 1, 200, 10);
	assert_int_equal(last_flag, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	assert_int_equal(take_graph(f, 0, &l, 1), 0);
	assert_int_equal(take_graph(f, 1, &l, 1), 0);
	v = activity_take_copies(&f->activity, &n);
	assert_int_equal(n, 1);
	free(v);
	stop_nodes(f);
}

/* Where kernels of graphs have no records, whole graphs may. */
TEST(graphs_can_be_traced_whole_after_all)
{
	struct fixture *f = start_nodes();
	struct launch l;

	assert_true(activity_want_whole_graphs(&f->activity));
	assert_int_equal(enabled(), 4);
	assert_false(activity_want_whole_graphs(&f->activity)); /* they are */
	launch_graph(f, 1, 0x100);
	trace_graph(1, 1, 100, 1100);
	fill(f);
	expect_times(f, 0, 100, 1000);
	assert_int_equal(take_graph(f, 0, &l, 1), 0);
	stop_nodes(f);

	f = start_nodes();
	launch_graph(f, 1, 0x100);
	trace_node(1, 1, 11, 100);
	fake_flush(0);
	assert_false(activity_want_whole_graphs(&f->activity)); /* kernels come */
	stop_nodes(f);
}

/* --- what no launch waits for --- */

enum { FIRST = 1000 };

static CUpti_ActivityKernel9 *trace_stream(uint32_t correlation, uint64_t begin, uint32_t stream)
{
	CUpti_ActivityKernel9 *k = trace(n_flushes + 1, correlation, begin, begin ? begin + 10 : 0);

	k->streamId = stream;
	return k;
}

/* Nothing else makes CUPTI tell of a copy where launches' records come by themselves. */
TEST(copies_are_heard_of)
{
	struct fixture *f = start_nodes();
	uint64_t begin_ns = clock_now_ns();

	trace_stream(7, 20, 1); /* of a launch that a filter leaves out */
	f->activity.heard_ns = begin_ns + LONG_NS;
	activity_hear(&f->activity);
	expect_copies(f, 0);
	f->activity.heard_ns = begin_ns - 1001 * CLOCK_NS_PER_MS;
	activity_hear(&f->activity);
	assert_true(f->activity.heard_ns >= begin_ns); /* for so long again */
	f->activity.heard_ns += LONG_NS;
	activity_hear(&f->activity);
	assert_int_equal(n_flushes, 1);
	expect_copies(f, 1);
	stop_nodes(f);
}

static void trace_repeats(size_t n, uint32_t correlation)
{
	for (size_t i = 0; i < n; i++) {
		trace_stream(correlation, 100 + i, 1);
	}
}

/* A launch's id has stuck to its thread: launches do not wait for their records then, but for a
 * flush. */
TEST(what_names_wrong_launches_is_not_waited_for)
{
	enum { LEAST = 64, STALE = 5 };
	struct fixture *f = start_nodes();

	launch(f, FIRST, GPUCTR_LAUNCH_KERNEL);
	launch(f, FIRST + 1, GPUCTR_LAUNCH_KERNEL);
	launch(f, FIRST + 2, GPUCTR_LAUNCH_KERNEL);
	trace_repeats(LEAST / 2 + 1, FIRST); /* the first is its own, the second one is noted */
	trace_repeats(LEAST / 2, (uint32_t)STALE);
	for (uint32_t i = 0; i < 2 * LEAST; i++) {
		trace_stream(FIRST + 10 + i, 100, 1); /* of a filter's */
		trace_stream(7, 100, 1)->graphId = 4;
	}
	fake_flush(0);
	assert_int_equal(activity_repeated(&f->activity).n, 0);
	trace_repeats(3, (uint32_t)STALE); /* the first is noted again */
	fake_flush(0);
	assert_int_equal(activity_repeated(&f->activity).n, LEAST);
	assert_int_equal(activity_repeated(&f->activity).since_ns, 102); /* the third one's */
	trace_stream(FIRST + 2, 50, 1);
	activity_fill(&f->activity, &f->batch);
	assert_int_equal(n_flushes, 3);
	assert_int_equal(last_flag, 0);
	expect_unknown(f, 0);
	assert_int_equal(f->launches[0].correlation, FIRST);
	expect_unknown(f, 1);
	expect_times(f, 2, 50, 10);
	free(activity_take_copies(&f->activity, &(size_t){ 0 }));
	activity_stop(&f->activity);
	assert_int_equal(activity_start(&f->activity, &f->profiler), CUPTI_SUCCESS);
	assert_int_equal(activity_repeated(&f->activity).n, 0);
	stop_nodes(f);
}

/* What is in a surplus buffer is given up: kernels in it count as dropped, and are in no record. */
TEST(what_is_in_a_surplus_buffer_is_given_up)
{
	struct fixture *f = start_nodes();
	uint8_t *given[200];
	uint8_t *surplus = NULL;
	size_t size, most, n_given = 0;
	bool is_surplus;

	launch(f, FIRST, GPUCTR_LAUNCH_KERNEL);
	while (!surplus) {
		assert_true(n_given < ARRAY_SIZE(given));
		request(&given[n_given], &size, &most);
		buffers_know(&f->activity.buffers, given[n_given], &is_surplus);
		surplus = is_surplus ? given[n_given] : NULL;
		n_given += !surplus;
	}
	trace_stream(FIRST, 200, 1);
	trace_stream(FIRST + 1, 300, 1);
	trace_stream(FIRST + 2, 100, 1);
	trace_stream(FIRST + 3, 50, 1)->name = "WaitNs"; /* CUPTI's own */
	trace_copy(n_flushes + 1, CUPTI_ACTIVITY_KIND_MEMSET, 4096, 100);
	for (uint32_t i = 0; i < n_traced; i++) {
		memcpy(surplus + i * sizeof(i), &i, sizeof(i));
	}
	assert_false(activity_drops(&f->activity));
	complete(NULL, 0, surplus, size, n_traced * sizeof(uint32_t));
	assert_true(activity_drops(&f->activity));
	assert_int_equal(f->activity.dropped, 3);
	expect_copies(f, 0);
	activity_fill(&f->activity, &f->batch);
	expect_unknown(f, 0);
	for (size_t i = 0; i < n_given; i++) {
		complete(NULL, 0, given[i], size, 0);
	}
	n_traced = 0;
	stop_nodes(f);
}

/* What cannot be kept is missing beside kernels, so it counts as dropped. */
TEST(copies_beyond_the_most_are_dropped)
{
	enum { MOST = 1 << 16, AT_ONCE = 512 };
	struct fixture *f = start_nodes();

	for (size_t i = 0; i < AT_ONCE; i++) {
		trace_copy(1, CUPTI_ACTIVITY_KIND_MEMSET, 4096, 100);
	}
	for (size_t n = 0; n <= MOST; n += AT_ONCE) {
		assert_false(activity_drops(&f->activity));
		for (size_t i = 0; i < AT_ONCE; i++) {
			traced[i].flush = n_flushes + 1;
		}
		fake_flush(0);
	}
	assert_true(activity_drops(&f->activity));
	expect_copies(f, MOST);
	stop_nodes(f);
}

static size_t n_crowds;

static void on_crowd(void *userdata)
{
	(void)userdata;
	n_crowds++;
}

/* Who tells of them is called before they are too many, and waits for none then. */
TEST(a_crowd_is_told_at_once)
{
	struct fixture *f = start_nodes();
	unsigned n;

	f->activity.on_crowd = on_crowd;
	launch_graph(f, 1, 0x100);
	for (uint32_t i = 0; i < GRAPHS_KERNELS_MAX / 4; i++) {
		assert_int_equal(n_crowds, 0);
		n_traced = 0;
		trace_node(n_flushes + 1, 1, i, 100);
		fake_flush(0);
	}
	assert_int_equal(n_crowds, 1);
	assert_true(activity_is_crowded(&f->activity));
	n = n_flushes;
	activity_fill(&f->activity, &f->batch);
	assert_int_equal(n_flushes, n);
	activity_stop(&f->activity); /* and the end counts what nobody took */
	assert_int_equal(f->counters.dropped, GRAPHS_KERNELS_MAX / 4);
	fixture_free(f);
}

TEST(whole_graphs_need_not_be_traced)
{
	struct fixture *f = fixture_new();

	refuses[1] = CUPTI_ERROR_NOT_SUPPORTED;
	assert_int_equal(activity_start(&f->activity, &f->profiler), CUPTI_SUCCESS);
	launch(f, 1, GPUCTR_LAUNCH_KERNEL);
	trace(1, 1, 10, 12);
	fill(f);
	expect_times(f, 0, 10, 2);
	activity_stop(&f->activity);
	spans_deinit(&f->activity.spans);
	fixture_free(f);
}

TEST(without_kernels_there_is_nothing)
{
	struct fixture *f = fixture_new();

	refuses[0] = CUPTI_ERROR_NOT_COMPATIBLE;
	assert_int_equal(activity_start(&f->activity, &f->profiler), CUPTI_ERROR_NOT_COMPATIBLE);
	launch(f, 1, GPUCTR_LAUNCH_KERNEL);
	trace(1, 1, 10, 12);
	fill(f);
	activity_stop(&f->activity);
	expect_unknown(f, 0);
	assert_int_equal(n_flushes, 0);
	fixture_free(f);
}

/* --- others who use CUPTI's records --- */

static size_t n_of_others;

/* As in NVIDIA's samples. */
static void CUPTIAPI give_others(uint8_t **buffer, size_t *size, size_t *most)
{
	*size = 65536;
	*most = 0;
	*buffer = malloc(*size);
}

static void CUPTIAPI free_others(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
				 size_t valid)
{
	(void)context;
	(void)stream;
	(void)size;
	(void)valid;
	free(buffer);
	n_of_others++;
}

/* CUPTI gives us their buffer, which is left alone, and asks us from then on. */
TEST(whoever_was_first_is_told_of)
{
	struct fixture *f = fixture_new();
	uint8_t *theirs;
	size_t size, most;

	fake_register(give_others, free_others);
	fake_enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	request(&theirs, &size, &most);
	assert_int_equal(activity_start(&f->activity, &f->profiler), CUPTI_SUCCESS);
	assert_false(f->activity.others.were_first);
	complete(NULL, 0, theirs, size, 8);
	assert_true(f->activity.others.were_first);
	assert_false(f->activity.others.are_there);
	memset(theirs, 1, size);
	free(theirs);
	launch(f, 1, GPUCTR_LAUNCH_KERNEL);
	trace(n_flushes + 1, 1, 100, 110);
	fill(f);
	expect_times(f, 0, 100, 10);
	activity_stop(&f->activity);
	fixture_free(f);
}

/* CUPTI gives them our buffers as well, and what they have turned on stays on. */
TEST(whoever_comes_later_keeps_the_records)
{
	struct fixture *f = fixture_new();
	uint8_t *ours[2];
	size_t size, most;

	assert_int_equal(activity_start(&f->activity, &f->profiler), CUPTI_SUCCESS);
	request(&ours[0], &size, &most);
	request(&ours[1], &size, &most);
	fake_register(give_others, free_others);
	n_of_others = 0;
	complete(NULL, 0, ours[0], size, 0);
	for (uint32_t i = 0; i < 4; i++) {
		f->batch.n = 0;
		launch(f, i + 1, GPUCTR_LAUNCH_KERNEL);
		fill(f);
		expect_unknown(f, 0);
	}
	assert_true(f->activity.others.are_there);
	assert_true(n_of_others > 1);
	free(ours[1]);
	activity_trace(&f->activity, false);
	activity_stop(&f->activity);
	assert_int_equal(enabled(), 2);
	assert_int_equal(activity_start(&f->activity, &f->profiler),
			 CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	fixture_free(f);
}

/* The last batch tells that records are missing, and the end finds out why. */
TEST(whoever_came_just_before_the_end_is_found)
{
	struct fixture *f = fixture_new();
	uint8_t *ours;
	size_t size, most;

	assert_int_equal(activity_start(&f->activity, &f->profiler), CUPTI_SUCCESS);
	request(&ours, &size, &most);
	fake_register(give_others, free_others);
	launch(f, 1, GPUCTR_LAUNCH_KERNEL);
	fill(f);
	assert_false(f->activity.others.are_there);
	activity_look_for_others_at_end(&f->activity, 10);
	assert_int_equal(last_flag, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	assert_true(f->activity.others.are_there);
	activity_trace(&f->activity, false);
	activity_stop(&f->activity);
	assert_int_equal(enabled(), 2);
	free(ours);
	fixture_free(f);
}

/* Nothing was missing, and nothing is waited for; the last flush brings nothing. */
TEST(whoever_came_unnoticed_is_found_after_the_end)
{
	struct fixture *f = fixture_new();
	uint8_t *ours;
	size_t size, most;

	assert_int_equal(activity_start(&f->activity, &f->profiler), CUPTI_SUCCESS);
	request(&ours, &size, &most);
	fake_register(give_others, free_others);
	activity_look_for_others_at_end(&f->activity, 10000);
	assert_int_equal(n_flushes, 0);
	assert_false(f->activity.others.are_there);
	activity_trace(&f->activity, false);
	activity_stop(&f->activity);
	assert_true(f->activity.others.are_there);
	assert_int_equal(activity_start(&f->activity, &f->profiler),
			 CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	free(ours);
	fixture_free(f);
}

/* Records that are late, or lost, are nobody else's. */
TEST(records_that_are_missing_are_not_others)
{
	struct fixture *f = fixture_new();
	size_t size, most;

	assert_int_equal(activity_start(&f->activity, &f->profiler), CUPTI_SUCCESS);
	request(&held, &size, &most);
	for (uint32_t i = 0; i < 4; i++) {
		f->batch.n = 0;
		launch(f, i + 1, GPUCTR_LAUNCH_KERNEL);
		activity_fill(&f->activity, &f->batch);
	}
	activity_look_for_others_at_end(&f->activity, 10);
	assert_false(f->activity.others.are_there);
	activity_trace(&f->activity, false);
	activity_stop(&f->activity);
	assert_int_equal(last_flag, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED); /* brings the buffer */
	assert_int_equal(enabled(), 0);
	held = NULL;
	fixture_free(f);
}

FIXTURE_TEST(buffers_of_others_are_left_alone)
{
	const struct fixture *f = *state;
	size_t before = f->activity.buffers.n, size, most;
	uint8_t *theirs = malloc(65536), *ours;

	request(&ours, &size, &most);
	complete(NULL, 0, theirs, 65536, 8);
	complete(NULL, 0, theirs + 64, 65536 - 64, 8);
	complete(NULL, 0, ours, size, 0);
	complete(NULL, 0, ours, size, 8); /* nor is it ours any more */
	assert_true(f->activity.buffers.n <= before + 1);
	memset(theirs, 1, 65536);
	free(theirs);
}

/* Launches whose batches are lost are never taken. */
FIXTURE_TEST(spans_hold_the_newest)
{
	struct fixture *f = *state;
	struct spans *s = &f->activity.spans;
	struct span span;

	for (uint32_t i = 0; i < 3000000; i++) {
		spans_expect(s, UINT32_MAX - 1000000 + i, true); /* the ids wrap around */
	}
	for (uint32_t i = 3000000 - 5000; i < 3000000; i++) {
		uint32_t correlation = UINT32_MAX - 1000000 + i;

		spans_add(s, correlation, true, i, i + 1);
		assert_true(spans_take(s, correlation, &span));
		assert_int_equal(span.begin_ns, i);
		assert_false(spans_take(s, correlation, &span));
	}
	spans_expect(s, 0, true);
	assert_false(spans_take(s, 0, &span));
}

enum { ANNOUNCERS = 4, ANNOUNCED = 24000 };

struct announcer {
	struct spans *spans;
	uint32_t first;
};

static void *announce(void *argument)
{
	const struct announcer *a = argument;

	for (uint32_t id = a->first; id <= ANNOUNCED; id += ANNOUNCERS) {
		spans_expect(a->spans, id, true);
	}
	return NULL;
}

/* Launches of several threads share sets, and times come meanwhile. */
FIXTURE_TEST(spans_are_announced_by_threads_without_a_lock)
{
	struct fixture *f = *state;
	struct spans *s = &f->activity.spans;
	struct announcer announcers[ANNOUNCERS];
	pthread_t threads[ANNOUNCERS];
	struct span span;

	for (uint32_t i = 0; i < ANNOUNCERS; i++) {
		announcers[i] = (struct announcer){ s, i + 1 };
		assert_int_equal(pthread_create(&threads[i], NULL, announce, &announcers[i]), 0);
	}
	for (uint32_t id = 1; id <= ANNOUNCED; id++) {
		while (!spans_add(s, id, true, id, id + 1)) {
			sched_yield();
		}
		assert_true(spans_take(s, id, &span));
		assert_int_equal(span.begin_ns, id);
		assert_false(span.is_shared);
		assert_false(spans_add(s, id, true, id, id + 1));
	}
	for (size_t i = 0; i < ANNOUNCERS; i++) {
		pthread_join(threads[i], NULL);
	}
}
