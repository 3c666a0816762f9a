/* SPDX-License-Identifier: Apache-2.0 */

/* What a record tells of the ranges that its thread's record before was in. */

#include "tests/unit/unit.h"

#include "client/agent/deliver.h"

static struct opened opened;

/* What is told of a launch of a thread; 99: it leaves no record. */
static uint32_t take(uint32_t thread, uint32_t wanted, bool stays)
{
	struct launch l = { .thread = thread, .path = { .opened = wanted } };

	opened_take(&opened, &l, stays);
	return stays ? l.path.opened : 99;
}

TEST(what_has_a_record_is_told_as_it_is)
{
	opened_init(&opened);
	assert_int_equal(take(7, 0, true), 0);
	assert_int_equal(take(7, 3, true), 3);
	assert_int_equal(take(8, UINT32_MAX, true), UINT32_MAX);
}

TEST(lost_launches_count_until_the_next_record)
{
	opened_init(&opened);
	take(7, 2, false);
	take(7, 4, false);
	assert_int_equal(take(8, 5, true), 5); /* another thread */
	assert_int_equal(take(7, 3, true), 2);
	assert_int_equal(take(7, 3, true), 3);
	take(7, 4, false);
	assert_int_equal(take(7, 1, true), 1);
}

/* Two threads of one slot: neither tells too much. */
TEST(threads_may_share_a_slot)
{
	opened_init(&opened);
	take(7, 0, false);
	assert_int_equal(take(7 + OPENED_SLOTS, 5, true), 0);
	assert_int_equal(take(7, 5, true), 0);
	assert_int_equal(take(7 + OPENED_SLOTS, 5, true), 5);
}

TEST(a_gap_is_one_for_all_threads)
{
	opened_init(&opened);
	opened_lose(&opened);
	for (uint32_t thread = 1; thread < OPENED_SLOTS; thread++) {
		assert_int_equal(take(thread, 5, true), 0);
		assert_int_equal(take(thread, 5, true), 5);
	}
}
