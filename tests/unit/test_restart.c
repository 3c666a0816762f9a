/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "proto/base/clock.h"
#include "daemon/supervisor/restart.h"

/* Lives of one second each. */
static uint64_t die(struct restart *r, uint64_t *now_ns)
{
	restart_begin(r, *now_ns);
	assert_false(restart_is_due(r, *now_ns));
	*now_ns += CLOCK_NS_PER_S;
	return restart_end(r, *now_ns);
}

TEST(short_lives_in_a_row_cost_a_delay)
{
	const uint64_t delay_ns = RESTART_DELAY_S * CLOCK_NS_PER_S;
	uint64_t now = 1000 * CLOCK_NS_PER_S;
	struct restart r = { 0 };

	for (int i = 0; i < RESTARTS_AT_ONCE; i++) {
		assert_int_equal(die(&r, &now), 0);
		assert_true(restart_is_due(&r, now));
	}
	for (int i = 0; i < 1000; i++) { /* never longer, whatever the number */
		assert_int_equal(die(&r, &now), delay_ns);
		assert_false(restart_is_due(&r, now));
		now += delay_ns;
		assert_true(restart_is_due(&r, now));
	}
}

TEST(a_minute_of_life_forgives)
{
	uint64_t now = 1000 * CLOCK_NS_PER_S;
	struct restart r = { 0 };

	for (int i = 0; i < 20; i++) {
		die(&r, &now);
	}
	restart_begin(&r, now);
	now += RESTART_STABLE_S * CLOCK_NS_PER_S;
	assert_int_equal(restart_end(&r, now), 0);
	assert_int_equal(r.ends, 1);
}

/* The wait ends when the first of them is due, and not sooner: else it would be begun again and
 * again. */
TEST(the_first_that_is_due_ends_the_wait)
{
	const uint64_t now = 1000 * CLOCK_NS_PER_S;
	struct restart r[3] = { { 0 } };

	assert_int_equal(restart_next_ms(r, 3, now), -1);
	r[1].due_ns = now + 500 * CLOCK_NS_PER_MS;
	assert_int_equal(restart_next_ms(r, 3, now), 501);
	r[2].due_ns = now + 20 * CLOCK_NS_PER_MS - 1;
	assert_int_equal(restart_next_ms(r, 3, now), 20);
	assert_int_equal(restart_next_ms(r, 2, now), 501);
	r[0].due_ns = now + 700 * CLOCK_NS_PER_MS;
	assert_int_equal(restart_next_ms(r, 3, now), 20);
	r[0].due_ns = now;
	assert_int_equal(restart_next_ms(r, 3, now), 0);
	assert_int_equal(restart_next_ms(r, 3, now + CLOCK_NS_PER_S), 0);
	assert_int_equal(restart_next_ms(r, 3, now - 1), 1);
}
