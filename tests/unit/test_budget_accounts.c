/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/budget_fixture.h"

#include <errno.h>
#include <math.h>

/* What the head comment of client/agent/budget.c says, account by account. */

/* Of an H200: Start 6 ms, and two Stops of 8 ms, the second one at the end. */
static void two_stops_and_a_start_are_the_least(void **state)
{
	struct budget b = open_at(0.01, 0);

	(void)state;
	assert_true(fabs(budget_least_share(&b) / (22e6 / (0.97 * 1e10)) - 1) < 1e-9);
}

/* 14 ms more where a pass is left out, which is where ten seconds have room for it: else it would
 * be saved for, and nothing measured, for ever. */
static void passes_are_left_out_where_there_is_room(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		const struct budget_options options = { .share = i == 0 ? 0.003 : 0.004,
							.passes = 4 };
		struct budget b;

		assert_int_equal(budget_init(&b, &options), 0);
		assert_true(fabs(budget_least_share(&b) / (22e6 / (0.97 * 1e10)) - 1) < 1e-9);
		assert_int_equal(budget_may_leave_out(&b), i == 1);
		waste(&b, 2 * S, i == 0 ? 7e6 : 2.5e6);
		assert_true(budget_may_turn(&b, 2 * S));
		waste(&b, 2 * S, 1e6);
		assert_false(budget_may_turn(&b, 2 * S));
	}
}

/* A program that launches next to nothing in its first second keeps the income of two, and does not
 * pay back what it could not spend. */
static void what_was_not_spent_at_first_is_not_owed(void **state)
{
	const struct budget_options options = { .share = 0.02, .passes = 1 };
	struct budget b;
	double loan;

	(void)state;
	assert_int_equal(budget_init(&b, &options), 0);
	loan = b.loan_ns;
	assert_true(loan > 100e6 && b.balance_ns == loan);
	budget_take_pace(&b, S);
	budget_take_pace(&b, 12 * S / 10);
	assert_true(b.balance_ns < 40e6);
	assert_true(b.loan_ns < 40e6);
	budget_take_pace(&b, 2 * S);
	assert_true(b.loan_ns > 20e6); /* the income of each second beyond the two is lost */
}

static void a_loan_takes_a_quarter_of_what_comes_in(void **state)
{
	struct budget with = open_at(0.02, 0), without = open_at(0.02, 0);

	(void)state;
	with.balance_ns = without.balance_ns = 0;
	with.loan_ns = 1e12;
	without.loan_ns = 0;
	budget_take_pace(&with, S);
	budget_take_pace(&without, S);
	assert_true(without.balance_ns > 0.015 * (double)S);
	assert_true(fabs(with.balance_ns / without.balance_ns - 0.75) < 1e-9);
	assert_true(fabs((1e12 - with.loan_ns) / with.balance_ns - 1.0 / 3) < 1e-6);
}

static double in_window(const struct budget *b)
{
	double ns = 0;

	for (size_t i = 0; i < BUDGET_WINDOW_SLOTS; i++) {
		ns += b->window_ns[i];
	}
	return ns;
}

/* It begins behind the first second, and holds ten. */
static void the_window_is_of_the_last_ten_seconds(void **state)
{
	struct budget b = open_at(0.02, 0);

	(void)state;
	waste(&b, S / 2, 5e9);
	assert_true(budget_may_turn(&b, 11 * S / 10));
	assert_true(in_window(&b) == 0);
	waste(&b, 505 * S / 100, 1e6);
	waste(&b, 1505 * S / 100, 2e6);
	assert_true(in_window(&b) == 3e6);
	budget_may_turn(&b, 1515 * S / 100);
	assert_true(in_window(&b) == 2e6);
	waste(&b, 1515 * S / 100, 1e9);
	assert_false(budget_may_turn(&b, 2511 * S / 100));
	assert_true(budget_may_turn(&b, 2525 * S / 100));
	assert_true(in_window(&b) == 0);
	/* After a pause that is as long as the window, to the slot. */
	b = open_at(0.02, 0);
	waste(&b, 505 * S / 100, 1e6);
	waste(&b, 1505 * S / 100, 2e6);
	budget_may_turn(&b, 2515 * S / 100);
	assert_true(in_window(&b) == 0);
}

/* In a batch that is started the window keeps room for its Stop, whatever the balance. */
static void ranges_leave_room_for_the_stop(void **state)
{
	struct budget b = open_at(0.02, 0);
	double left = 0.97 * 0.02 * 1e10, price = 51e3 + 14e6 / 128;

	(void)state;
	budget_note_start(&b, 2 * S, 0, 6e6);
	waste(&b, 2 * S, left - 6e6 - 40e6);
	b.balance_ns = 1e12;
	/* 40 ms are left, and 8 of them are for the Stop. */
	assert_int_equal(budget_take_pace(&b, 2 * S).credit, (int64_t)(32e6 / price));
	b.open = false;
	assert_int_equal(budget_take_pace(&b, 2 * S).credit, (int64_t)(40e6 / price));
}

/* Both are paid, but a bad second is not held against all that follow: two seconds' income is owed
 * at most. */
static void overhead_is_owed_for_two_seconds(void **state)
{
	struct budget b = open_at(0.02, 0);
	double before;

	(void)state;
	budget_take_pace(&b, S);
	before = b.balance_ns;
	budget_note_callbacks(&b, S, 100, 1e6, 2e6, BUDGET_CALIBRATED);
	assert_true(fabs(before - b.balance_ns - 3e6) < 1);
	budget_note_callbacks(&b, S, 100, 9e9, 9e9, BUDGET_CALIBRATED);
	assert_true(b.balance_ns < 0 && b.balance_ns > -0.02 * 2e9);
}

/* All passes come in an eighth of the time that the program has lasted: of eight with 800 us a
 * range a round at 5 % takes 26 s with batches of 169, which is what a first Start of 1 ms and 0.9
 * ms for each range more has room for beside seven turns. One pass alone has room for 229. */
static void batches_wait_for_a_long_program(void **state)
{
	struct budget_options options = { .share = 0.05 };

	(void)state;
	for (uint32_t passes = 1; passes <= 8; passes += 7) {
		struct budget b;

		options.passes = passes;
		for (uint32_t i = 0; i < passes; i++) {
			options.pass_range_ns[i] = 800e3;
		}
		assert_int_equal(budget_init(&b, &options), 0);
		budget_note_first_start(&b, 0, 64, 0, 1e6);
		b.turned_ns = 1e18;
		budget_may_turn(&b, 100 * S);
		b.loan_ns = 0;
		assert_int_equal(budget_next_size(&b, 100 * S), passes == 1 ? 229 : 0);
		assert_int_equal(budget_next_size(&b, 300 * S), passes == 1 ? 229 : 169);
	}
}

/* What is saved for fits at half the pace, of however many passes: at 10 %, and by a first Start of
 * 105 ms. Else it is saved for until the program ends. */
static void what_is_saved_for_comes(void **state)
{
	(void)state;
	for (uint32_t passes = 1; passes <= BUDGET_PASSES_MAX; passes++) {
		const struct budget_options options = { .share = 0.1, .passes = passes };
		struct budget b;
		uint64_t t = 0;
		size_t size = 0;

		assert_int_equal(budget_init(&b, &options), 0);
		budget_note_first_start(&b, 0, 64, 0, 105e6);
		b.turned_ns = 1e18;
		for (; size == 0 && t < 300 * S; t += 100 * MS) {
			waste(&b, t, 0.93 * 0.1 / 2 * 100e6);
			size = budget_next_size(&b, t);
		}
		assert_true(size > 64);
	}
}

static void no_share_is_refused(void **state)
{
	static const double shares[] = { 0, -1, 1.01, (double)NAN };
	struct budget b;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(shares); i++) {
		const struct budget_options options = { .share = shares[i], .passes = 1 };

		assert_int_equal(budget_init(&b, &options), -EINVAL);
	}
	assert_int_equal(budget_init(&b, &(struct budget_options){ .share = 0.1 }), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_stops_and_a_start_are_the_least),
		cmocka_unit_test(passes_are_left_out_where_there_is_room),
		cmocka_unit_test(what_was_not_spent_at_first_is_not_owed),
		cmocka_unit_test(a_loan_takes_a_quarter_of_what_comes_in),
		cmocka_unit_test(the_window_is_of_the_last_ten_seconds),
		cmocka_unit_test(ranges_leave_room_for_the_stop),
		cmocka_unit_test(overhead_is_owed_for_two_seconds),
		cmocka_unit_test(batches_wait_for_a_long_program),
		cmocka_unit_test(what_is_saved_for_comes),
		cmocka_unit_test(no_share_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
