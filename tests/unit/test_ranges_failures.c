/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/ranges_fixture.h"

/* What CUPTI refuses, counters that are another's, ranges that are held, and work beside them. */

/* --- what CUPTI refuses --- */

/* Each group is given to CUPTI by itself, and is a pass. */
RANGES_TEST(a_cupti_that_needs_other_passes_is_not_used)
{
	for (uint32_t needs = 2; needs <= 4; needs++) {
		capture(3);
		gpu.n_passes = needs;
		assert_int_equal(launch(), needs == 3);
		assert_int_equal(gpu.n_sets, 3);
		assert_int_equal(r->state, needs == 3 ? RANGES_STARTED : RANGES_BROKEN);
		assert_int_equal(count_notices(), needs != 3);
		finish();
		if (needs < 4) {
			end(state);
			begin(state);
		}
	}
}

/* An image that was decoded for another pass would be evaluated as what it is not. */
RANGES_TEST(another_pass_than_cuptis_is_not_delivered)
{
	capture(3);
	launch_many(64);
	gpu.wrong_pass = 1;
	assert_false(launch());
	assert_int_equal(r->state, RANGES_BROKEN);
	assert_int_equal(count_notices(), 1);
	assert_int_equal(delivered.n, 0);
	assert_int_equal(atomic_load(&c.counters.failed), 64);
	assert_false(launch());
	assert_int_equal(count_notices(), 1);
	finish();
}

static void expect_broken(uint64_t n_delivered, uint64_t n_failed)
{
	assert_int_equal(r->state, RANGES_BROKEN);
	assert_int_equal(count_notices(), 1);
	assert_int_equal(delivered.n, n_delivered);
	assert_int_equal(atomic_load(&c.counters.failed), n_failed);
	gpu.push = gpu.pop = gpu.decode = CUPTI_SUCCESS;
	for (unsigned i = 0, n = gpu.n_ranges; i < 100; i++) {
		assert_false(launch());
		assert_int_equal(gpu.n_ranges, n);
	}
	finish();
}

/* A batch under way of two passes. */
static void measure(unsigned n)
{
	capture(2);
	launch_many(n);
}

RANGES_TEST(a_failing_push_keeps_what_was_measured)
{
	measure(10);
	gpu.push = CUPTI_ERROR_UNKNOWN;
	assert_false(launch());
	expect_broken(10, 1);
}

RANGES_TEST(a_failing_pop_ends_the_batch)
{
	measure(10);
	gpu.pop = CUPTI_ERROR_UNKNOWN;
	launch();
	expect_broken(11, 0);
}

RANGES_TEST(a_failing_decode_is_counted)
{
	measure(64);
	gpu.decode = CUPTI_ERROR_UNKNOWN;
	assert_false(launch());
	expect_broken(0, 64);
}

/* The object is CUPTI's still, and goes when there is nothing to wait for. */
RANGES_TEST(what_is_abandoned_is_counted)
{
	measure(10);
	ranges_abandon(&c, r);
	assert_int_equal(atomic_load(&c.counters.failed), 10);
	assert_true(gpu.object[0].started);
	assert_true(method_ranges.disable(&c, r));
	assert_false(gpu.object[0].started || gpu.object[0].enabled);
	assert_int_equal(r->state, RANGES_BROKEN);
	assert_false(launch());
	finish();
}

/* --- counters that are another's --- */

static uint64_t gap_ms(unsigned i)
{
	return (gpu.tried_ns[i] - gpu.tried_ns[i - 1]) / MS;
}

static void wait_for_tries(unsigned n)
{
	uint64_t until_ns = made_clock.now_ns + 60 * CLOCK_NS_PER_S;

	gpu.start = CUPTI_ERROR_HARDWARE_BUSY;
	gpu.n_starts = 0;
	while (gpu.n_starts < n && made_clock.now_ns < until_ns) {
		assert_false(launch());
		assert_int_equal(r->state, RANGES_WAITING);
	}
	gpu.start = CUPTI_SUCCESS;
	assert_int_equal(gpu.n_starts, n);
}

RANGES_TEST(they_are_asked_for_steadily)
{
	capture(1);
	wait_for_tries(8);
	for (unsigned i = 1; i < 8; i++) {
		assert_in_range(gap_ms(i), 100, 120);
	}
	made_clock.now_ns += CLOCK_NS_PER_S;
	launch_many(1);
	finish();
}

/* Of a process that uses several GPUs, only the context that has them lets go. */
RANGES_TEST(contexts_take_counters_over)
{
	capture(1);
	add_context(0);
	add_context(1);
	launch_many(10);
	assert_true(launch_in(&contexts[2]));
	assert_true(launch_in(&contexts[1]));
	assert_int_equal(r->state, RANGES_NEW);
	assert_int_equal(contexts[2].state, RANGES_STARTED);
	assert_int_equal(delivered.n, 10);
	assert_int_equal(gpu.n_pushed, 0);
	for (size_t i = 0; i < CONTEXTS; i++) {
		assert_true(lock_try(&contexts[i].gate.lock));
		lock_release(&contexts[i].gate.lock);
	}
	launch_many(1);
	assert_int_equal(contexts[1].state, RANGES_NEW);
	finish();
}

/* --- ranges that are held --- */

/* Its kernel waits for the next one, so its range stays open until that has ended. */
RANGES_TEST(a_range_is_held_until_its_kernel_has_ended)
{
	capture(1);
	add_context(1);
	launch_many(10);
	gpu.gets_launched = true;
	assert_true(launch()); /* its range is open still */
	assert_true(r->guard.holds);
	assert_false(launch());
	assert_false(method_ranges.flush(&c, r));
	assert_false(method_ranges.disable(&c, r));
	gpu.at_work = false;
	assert_true(launch());
	assert_false(r->guard.holds);
	launch_many(10);
	finish();
	assert_int_equal(delivered.n_disturbed, 1); /* by what ran beside it */
	assert_int_equal(delivered.n, 22);
}

/* Also when nothing is launched any more. */
RANGES_TEST(a_held_range_is_closed_at_the_end)
{
	for (int i = 0; i < 2; i++) {
		capture(1);
		add_context(1);
		launch_many(5);
		gpu.gets_launched = true;
		assert_true(launch());
		gpu.at_work = false;
		assert_true(i ? method_ranges.flush(&c, r) : method_ranges.disable(&c, r));
		assert_false(r->guard.holds);
		finish();
		assert_int_equal(delivered.n, 6);
		assert_int_equal(delivered.n_disturbed, 1); /* it was waited for in vain */
		if (i == 0) {
			end(state);
			begin(state);
		}
	}
}

/* Its kernel ends after the capture has given up: a call of the program's finds no batch any more.
 */
RANGES_TEST(a_held_range_may_be_abandoned)
{
	capture(1);
	add_context(1);
	launch_many(5);
	gpu.gets_launched = true;
	assert_true(launch());
	ranges_abandon(&c, r);
	gpu.at_work = false;
	assert_true(atomic_load(&r->unsettled));
	ranges_settle(&c, r);
	assert_false(atomic_load(&r->unsettled));
	assert_true(method_ranges.disable(&c, r));
	assert_false(gpu.object[0].enabled);
	assert_int_equal(atomic_load(&c.counters.failed), 6);
	finish();
}

/* And closing it may fail. */
RANGES_TEST(a_held_range_that_cannot_be_closed_ends_the_batch)
{
	capture(1);
	add_context(1);
	launch_many(5);
	gpu.gets_launched = true;
	assert_true(launch());
	gpu.at_work = false;
	gpu.pop = CUPTI_ERROR_UNKNOWN;
	assert_true(method_ranges.flush(&c, r));
	assert_int_equal(r->state, RANGES_BROKEN);
	gpu.pop = CUPTI_SUCCESS;
	finish();
	assert_int_equal(delivered.n, 6);
}

/* --- what else a range counts --- */

RANGES_TEST(work_beside_a_range_is_disturbing)
{
	const struct guard_work work = { STREAM, false };

	capture(1);
	launch_many(10);
	guard_disturb(r, &work); /* between two of them */
	launch_many(10);
	assert_true(gate_other_begins(&r->gate, false));
	assert_false(launch()); /* it would end within the range */
	guard_disturb(r, &work);
	gate_other_ends(&r->gate);
	launch_many(1);
	beside = &work;
	launch_many(1);
	beside = NULL;
	gate_unwatch(&r->gate); /* others may go unnoticed */
	launch_many(1);
	finish();
	assert_int_equal(delivered.n_disturbed, 2);
}

/* Nobody knows since when it has been at work. */
RANGES_TEST(a_strangers_work_disturbs_the_batch)
{
	const struct guard_work work = { STREAM, false };

	capture(1);
	launch_many(10);
	guard_disturb(r, &work);
	gate_untracked_ends(&r->gate);
	launch_many(10);
	finish();
	assert_int_equal(delivered.n_disturbed, 10);
}
