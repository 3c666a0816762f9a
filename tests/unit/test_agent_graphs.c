/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <stdlib.h>

#include "client/agent/graphs.h"

/* Launches of graphs and their kernels, as CUPTI tells of them. Whatever comes when, each kernel
 * counts once: what is seen (each launch, and beyond) is what became of it. */

static struct graphs graphs;
static struct counters counters;
static uint64_t told;

static int setup(void **state)
{
	(void)state;
	graphs = (struct graphs){ .counters = &counters };
	counters = (struct counters){ 0 };
	told = 0;
	return 0;
}

static void expect(uint64_t all, uint64_t in_records, uint64_t left_out, uint64_t lost)
{
	assert_int_equal(counters.seen, all);
	assert_int_equal(told, in_records);
	assert_int_equal(counters.filtered, left_out);
	assert_int_equal(counters.dropped, lost);
	assert_int_equal(counters.seen, told + counters.filtered + counters.dropped);
}

static void launch(uint32_t correlation, uintptr_t graph)
{
	graphs_expect(&graphs,
		      &(struct launch){ .correlation = correlation,
					.thread = correlation + 1,
					.path = { .site = correlation + 2, .opened = 3 },
					.set = correlation + 3,
					.start_ns = 1000 },
		      graph);
	counters.seen++;
}

static bool come(uint32_t correlation, uint32_t node, bool selected)
{
	return graphs_add(&graphs,
			  &(struct launch){ .correlation = correlation,
					    .function = 1,
					    .graph_node = node,
					    .clock = node ? GPUCTR_CLOCK_GPU : GPUCTR_CLOCK_NONE,
					    .start_ns = node ? 2000 + node : 0 },
			  selected);
}

static void tell(struct graph_kernels list)
{
	told += graph_kernels_free(&list);
}

/* The launch's batch: as its kernels, or as one. */
static void deliver(uint32_t correlation)
{
	struct graph_told what = graphs_take(&graphs, correlation);

	tell(what.kernels);
	told += what.n_came == 0;
}

static enum graph_here look(uint32_t correlation)
{
	uint64_t n = 0;

	return graphs_look(&graphs, correlation, &n);
}

TEST_WITH(kernels_take_the_place_of_their_launch, setup, NULL)
{
	struct graph_kernels list;
	struct graph_told what;

	launch(10, 0x1000);
	assert_false(come(11, 1, true)); /* of another launch */
	assert_true(come(10, 1, true));
	assert_true(come(10, 2, true));
	assert_true(come(10, 0, true)); /* CUPTI does not say when it ran */
	assert_int_equal(graphs.n_kernels, 3);
	what = graphs_take(&graphs, 10);
	list = what.kernels;
	assert_true(what.n_came == 3 && what.lacks == 0);
	assert_int_equal(list.n, 3);
	assert_int_equal(list.v[0].thread, 11);
	assert_int_equal(list.v[0].path.site, 12);
	assert_int_equal(list.v[0].path.opened, 3);
	assert_int_equal(list.v[0].set, 13);
	assert_int_equal(list.v[0].start_ns, 2001);
	assert_int_equal(list.v[1].graph_node, 2);
	assert_int_equal(list.v[2].start_ns, 1000); /* of the call */
	tell(list);
	assert_int_equal(graphs.n_kernels, 0);
	expect(3, 3, 0, 0);
	graphs_deinit(&graphs);
}

TEST_WITH(late_kernels_follow, setup, NULL)
{
	launch(10, 0x1000);
	assert_true(come(10, 1, true));
	deliver(10);
	assert_true(come(10, 2, true));
	assert_true(come(10, 3, true));
	tell(graphs_take_late(&graphs));
	assert_int_equal(graphs_take_late(&graphs).n, 0);
	expect(3, 3, 0, 0);
	graphs_deinit(&graphs);
}

/* What was told as one stays one, and stands for one of its kernels. */
TEST_WITH(a_launch_of_which_nothing_came_is_one, setup, NULL)
{
	launch(10, 0x1000);
	deliver(10);
	expect(1, 1, 0, 0);
	assert_false(come(10, 1, true));
	expect(1, 1, 0, 0);
	assert_false(come(10, 2, true));
	assert_false(come(10, 3, false));
	expect(3, 1, 0, 2);
	graphs_deinit(&graphs);
}

TEST_WITH(a_filter_leaves_kernels_out, setup, NULL)
{
	launch(10, 0x1000);
	launch(20, 0x1000);
	for (uint32_t i = 1; i < 5; i++) {
		assert_true(come(10, i, i == 3) == (i == 3));
		assert_false(come(20, i, false));
	}
	deliver(10);
	deliver(20);
	assert_false(come(20, 5, false));
	expect(9, 1, 8, 0);
	graphs_deinit(&graphs);
}

TEST_WITH(as_many_as_last_time_are_waited_for, setup, NULL)
{
	struct graph_told taken;

	launch(10, 0x1000);
	assert_int_equal(look(10), GRAPH_NOTHING);
	come(10, 1, true);
	assert_int_equal(look(10), GRAPH_SOME); /* how many there are nobody knows */
	come(10, 2, true);
	deliver(10);
	launch(20, 0x1000);
	come(20, 1, true);
	assert_int_equal(look(20), GRAPH_SOME);
	come(20, 2, false);
	assert_int_equal(look(20), GRAPH_ALL);
	come(10, 3, true); /* there were three */
	assert_int_equal(look(20), GRAPH_SOME);
	deliver(20);
	launch(30, 0x1000); /* two again: its nodes may be switched off */
	come(30, 1, true);
	come(30, 2, true);
	assert_int_equal(look(30), GRAPH_ALL);
	taken = graphs_take(&graphs, 30);
	assert_int_equal(taken.lacks, 1); /* or a record is lost */
	tell(taken.kernels);
	assert_int_equal(look(31), GRAPH_ALL); /* nobody knows of it, nothing comes */
	graphs_deinit(&graphs);
}

/* A graph of copies alone has no kernel that could come. */
TEST_WITH(a_graph_of_copies_is_not_waited_for_again, setup, NULL)
{
	launch(10, 0x1000);
	graphs_add_copy(&graphs, 10, 500, 600);
	graphs_add_copy(&graphs, 10, 300, 400);
	graphs_add_copy(&graphs, 11, 1, 2); /* of no graph */
	assert_int_equal(look(10), GRAPH_SOME);
	assert_int_equal(graphs_find(&graphs, 10)->begin_ns, 300);
	assert_int_equal(graphs_find(&graphs, 10)->end_ns, 600);
	deliver(10);
	launch(20, 0x1000);
	assert_int_equal(look(20), GRAPH_ALL);
	deliver(20);
	expect(2, 2, 0, 0);
	graphs_deinit(&graphs);
}

TEST_WITH(a_launch_that_failed_is_forgotten, setup, NULL)
{
	launch(10, 0x1000);
	graphs_forget(&graphs, 10);
	assert_null(graphs_find(&graphs, 10));
	assert_false(come(10, 1, true));
	graphs_deinit(&graphs);
}

TEST_WITH(few_kernels_are_kept, setup, NULL)
{
	struct launch nameless = { .correlation = 10 };

	launch(10, 0x1000);
	for (uint32_t i = 1; i <= GRAPHS_KERNELS_MAX; i++) {
		assert_true(come(10, i, true));
	}
	assert_false(come(10, 7, true));
	assert_false(graphs_add(&graphs, &nameless, true));
	deliver(10);
	expect(GRAPHS_KERNELS_MAX + 2, GRAPHS_KERNELS_MAX, 0, 2);
	assert_true(come(10, 8, true)); /* there is room again */
	graphs_deinit(&graphs);		/* and it ends before it is told */
	expect(GRAPHS_KERNELS_MAX + 3, GRAPHS_KERNELS_MAX, 0, 3);
}

/* Of more launches than are known the oldest are forgotten. */
TEST_WITH(many_launches_are_counted, setup, NULL)
{
	enum { LAUNCHES = 200000, PER_LAUNCH = 3, BEHIND = 70000 };
	uint32_t next = 1;

	srand(3);
	for (uint32_t i = 1; i <= LAUNCHES; i++) {
		launch(i, 0x1000);
		for (uint32_t k = 0; k < PER_LAUNCH; k++) {
			/* Most come soon, some of an old launch, some not at all. */
			uint32_t back = rand() % 8 ? 0 : (uint32_t)rand() % (2 * BEHIND);

			come(i > back ? i - back : i, k + 1, rand() % 5 > 0);
		}
		for (; next + BEHIND < i; next++) {
			deliver(next);
		}
		if (i % 1000 == 0) {
			tell(graphs_take_late(&graphs));
		}
		assert_true(graphs.n_kernels <= GRAPHS_KERNELS_MAX);
	}
	for (; next <= LAUNCHES; next++) {
		deliver(next);
	}
	tell(graphs_take_late(&graphs));
	graphs_deinit(&graphs);
	assert_int_equal(counters.seen, told + counters.filtered + counters.dropped);
	assert_true(counters.seen > LAUNCHES && told > LAUNCHES &&
		    counters.filtered > LAUNCHES / 5 && counters.dropped > 0);
}
