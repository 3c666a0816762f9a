/* SPDX-License-Identifier: Apache-2.0 */

/* What a record says of the ranges that its thread's record before was in. */

#include "tests/unit/unit.h"

#include "client/agent/deliver.h"

static struct opened opened;

/* What is said of the thread's launch with this number; 99: the launch leaves no record. */
static uint32_t take(uint32_t thread, uint32_t number, uint32_t wanted, bool stays)
{
	struct launch l = { .thread = thread,
			    .path = { .site = 1, .opened = wanted, .launch = number } };

	opened_take(&opened, &l, stays);
	return stays ? l.path.opened : 99;
}

TEST(what_has_a_record_is_as_it_was)
{
	opened_init(&opened);
	assert_int_equal(take(7, 1, 0, true), 0);
	assert_int_equal(take(7, 2, 3, true), 3);
	assert_int_equal(take(8, 1, 2, true), 0); /* nothing of this thread came before */
	assert_int_equal(take(8, 2, UINT32_MAX, true), UINT32_MAX);
	assert_int_equal(take(9, 0, 2, true), 2); /* a recording's has no number */
}

TEST(launches_without_a_record_count_until_the_next_one)
{
	opened_init(&opened);
	take(7, 1, 2, true);
	take(7, 2, 2, false);
	take(7, 3, 4, false);
	take(8, 1, 0, true);
	assert_int_equal(take(8, 2, 5, true), 5);
	assert_int_equal(take(7, 4, 3, true), 2);
	assert_int_equal(take(7, 5, 3, true), 3);
	take(7, 6, 4, false);
	assert_int_equal(take(7, 7, 1, true), 1);
}

/* As of a batch that was dropped, or of a launch whose record is in another context's batch. */
TEST(a_launch_that_never_came_counts)
{
	opened_init(&opened);
	assert_int_equal(take(7, 5, 2, true), 0);
	assert_int_equal(take(7, 7, 2, true), 0);
	assert_int_equal(take(7, 6, 2, true), 0);
	assert_int_equal(take(7, 7, 2, true), 2);
}

TEST(kernels_of_a_graph_are_of_one_launch)
{
	opened_init(&opened);
	take(7, 1, 0, true);
	assert_int_equal(take(7, 2, 1, true), 1);
	assert_int_equal(take(7, 2, 1, true), UINT32_MAX);
	take(7, 3, 1, false);
	assert_int_equal(take(7, 3, 1, true), 1);
	assert_int_equal(take(7, 2, 1, true), 0); /* late */
	assert_int_equal(take(7, 4, 1, true), 0);
}

TEST(threads_do_not_disturb_each_other)
{
	opened_init(&opened);
	for (uint32_t i = 1; i <= 3; i++) {
		take(7, i, 4, i == 1);
		take(7 + OPENED_SLOTS, i, 4, i < 3);
	}
	assert_int_equal(take(7 + OPENED_SLOTS, 4, 5, true), 4);
	assert_int_equal(take(7, 4, 5, true), 4);
	for (uint32_t i = 1; i < 4 * OPENED_SLOTS; i++) { /* more than there is room for */
		assert_int_equal(take(i * OPENED_SLOTS, 9, 1, true), 0);
	}
	assert_int_equal(take(OPENED_SLOTS, 10, 5, true), 0);
}
