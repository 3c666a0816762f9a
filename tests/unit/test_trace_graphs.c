/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/launches_fixture.h"

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
	lock_init(&activity.lock, LOCK_RECORDS);
	assert_int_equal(spans_init(&activity.spans, SPANS_BITS), 0);
	activity.made = true;
	atomic_fetch_add(&c->counters.seen, 1);
	graphs_expect(&activity.graphs, &graph, 1);
	for (uint64_t i = 0; i < KERNELS; i++) {
		graphs_add(&activity.graphs,
			   &(struct launch){ .correlation = graph.correlation,
					     .function = 1,
					     .graph_node = i + 1,
					     .start_ns = i },
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
	assert_int_equal(t.measured + t.filtered + t.capturing + t.unready + t.failed + t.dropped +
				 t.unchosen,
			 seen);
}

/* By a thread of the program, while the delivering one tells how far the capture has come. */
static void kernels_that_are_dropped_are_seen(void **state)
{
	struct launch launches[] = { graph };
	struct batch b = { .launches = launches, .n = 1 };

	(void)state;
	trace_graphs_leave_out(c, &b);
	assert_int_equal(b.n, 0);
	assert_int_equal(atomic_load(&c->counters.dropped), KERNELS);
	expect_whole(KERNELS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(kernels_that_are_dropped_are_seen, begin_trace,
						end_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
