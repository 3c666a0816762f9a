/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/launches_fixture.h"

#include "client/agent/devices.h"
#include "client/agent/trace.h"
#include "client/agent/trace_graphs.h"

/* Kernels of graphs in a trace, as they are counted. */

enum { KERNELS = 3 };

static const struct launch graph = { .correlation = 5, .kind = GPUCTR_LAUNCH_GRAPH };

/* The launch is seen, and all its kernels have ended. */
static int begin_trace(void **state)
{
	int result = begin(state);

	c->welcome.trace = true;
	trace_graphs_begin(c);
	assert_int_equal(spans_init(&activity.spans, SPANS_BITS), 0);
	atomic_fetch_add(&c->counters.seen, 1);
	graphs_expect(&activity.graphs, &graph, 1);
	for (uint64_t i = 0; i < KERNELS; i++) {
		graphs_add(&activity.graphs,
			   &(struct launch){ .correlation = graph.correlation,
					     .function = 1,
					     .graph_node = i + 1,
					     .start_ns = i,
					     .kind = GPUCTR_LAUNCH_GRAPH_KERNEL },
			   true);
	}
	return result;
}

static int end_trace(void **state)
{
	graphs_deinit(&activity.graphs);
	spans_deinit(&activity.spans);
	activity = (struct activity){ 0 };
	return end(state);
}

static void expect_whole(uint64_t seen)
{
	struct gpuctr_totals t = counters_read(&c->counters);

	assert_int_equal(t.seen, seen);
	assert_int_equal(t.measured + t.filtered + t.capturing + t.unready + t.failed + t.dropped,
			 seen);
}

/* By a thread of the program, while the delivering one tells how far the capture has come. */
TEST_WITH(kernels_that_are_dropped_are_seen, begin_trace, end_trace)
{
	struct launch launches[] = { graph };
	struct batch b = { .launches = launches, .n = 1 };

	trace_graphs_leave_out(c, &b);
	assert_int_equal(b.n, 0);
	assert_int_equal(atomic_load(&c->counters.dropped), KERNELS);
	expect_whole(KERNELS);
}

/* Those that a filter leaves out, and those of devices that are not part of the capture. */
TEST_WITH(kernels_that_are_not_told_are_seen, begin_trace, end_trace)
{
	struct launch *l = calloc(1, sizeof(*l));
	struct batch b = { .launches = l, .n = 1, .room = 1 };

	assert_non_null(l);
	*l = graph;
	for (uint64_t i = 0; i < 2; i++) {
		graphs_add(&activity.graphs,
			   &(struct launch){ .correlation = graph.correlation, .function = 2 },
			   false);
	}
	trace_graphs_split(c, &b);
	assert_int_equal(b.n, KERNELS);
	assert_int_equal(atomic_load(&c->counters.filtered), 2);
	free(b.launches);
	atomic_fetch_add(&c->counters.measured, KERNELS);
	expect_whole(KERNELS + 2);
}

/* A launch that failed has no record; one in a context without a device is not measured. */
TEST_WITH(launches_that_are_not_told_are_seen, begin_trace, end_trace)
{
	struct section *v = section_of_thread();
	struct launch *opened;

	v->traced = (struct launch){ .correlation = 9 };
	spans_expect(&activity.spans, 9, false);
	method_trace.close(c, r, v, false);
	assert_int_equal(atomic_load(&c->counters.failed), 1);
	assert_false(spans_add(&activity.spans, 9, false, 1, 2));
	r->state = RANGES_BROKEN;
	atomic_store(&r->device, UINT32_MAX);
	assert_false(method_trace.open(c, r, v, &opened));
	assert_int_equal(atomic_load(&c->counters.unready), 1);
}
