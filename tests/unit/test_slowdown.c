/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "client/agent/slowdown.h"

static int setup(void **state)
{
	(void)state;
	slowdown_forget();
	return 0;
}

/* Two in four are ordinary, and the rest wait for something. */
static void note(int n, uint64_t ns)
{
	for (int i = 0; i < n; i++) {
		slowdown_note(i % 4 >= 2 ? 50 * ns : ns + (uint64_t)(i % 3));
	}
}

static void launches_are_compared_by_their_lower_quartile(void **state)
{
	(void)state;
	assert_true(slowdown_wants_more());
	note(256, 3000);
	assert_false(slowdown_wants_more());
	assert_true(slowdown_by_ns() == 0);
	slowdown_begins();
	assert_true(slowdown_wants_more());
	note(63, 5000);
	assert_true(slowdown_by_ns() == 0); /* too few are known */
	note(1, 5000);
	assert_in_range(slowdown_by_ns(), 1990, 2010);
	assert_true(slowdown_wants_more());
}

/* What a program does first is not what it does. */
static void the_last_launches_count(void **state)
{
	(void)state;
	note(1000, 900000);
	note(256, 3000);
	slowdown_begins();
	note(1000, 4000);
	assert_in_range(slowdown_by_ns(), 990, 1010);
	note(256, 2000);
	assert_true(slowdown_by_ns() == 0); /* never less than nothing */
}

static void without_the_profiler_nothing_is_slower(void **state)
{
	(void)state;
	assert_false(slowdown_knows_plain());
	note(500, 3000);
	assert_true(slowdown_knows_plain());
	assert_true(slowdown_by_ns() == 0);
}

/* A capture that follows finds the profiler there: nothing plain is to be seen any more. */
static void what_was_not_seen_in_time_is_not_waited_for(void **state)
{
	(void)state;
	slowdown_begins();
	assert_true(slowdown_knows_plain());
	note(500, 3000);
	assert_true(slowdown_by_ns() == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(launches_are_compared_by_their_lower_quartile, setup),
		cmocka_unit_test_setup(the_last_launches_count, setup),
		cmocka_unit_test_setup(without_the_profiler_nothing_is_slower, setup),
		cmocka_unit_test_setup(what_was_not_seen_in_time_is_not_waited_for, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
