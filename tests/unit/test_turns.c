/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <math.h>

#include "client/agent/turns.h"

enum { ROUNDS = 6000 };

/* Each configuration once a round, whatever the number. */
static void each_has_one_turn_in_a_round(void **state)
{
	(void)state;
	for (uint32_t n = 1; n <= LIMIT_GROUPS; n++) {
		struct turns t;

		turns_init(&t, n, n);
		for (int round = 0; round < 50; round++) {
			uint32_t seen = 0;

			for (uint32_t i = 0; i < n; i++) {
				seen |= 1u << turns_next(&t);
			}
			assert_int_equal(seen, (1u << n) - 1);
		}
	}
}

/* All six orders of three come equally often, one after any other: no rhythm. */
static void orders_have_no_rhythm(void **state)
{
	unsigned after[6][6] = { { 0 } }, before = 0;
	struct turns t;

	(void)state;
	turns_init(&t, 7, 3);
	for (int round = 0; round < ROUNDS; round++) {
		uint32_t a = turns_next(&t), b = turns_next(&t);
		unsigned order = 2 * a + (b > 3 - a - b);

		turns_next(&t);
		assert_true(order < 6);
		after[before][order] += round > 0;
		before = order;
	}
	for (int i = 0; i < 36; i++) {
		double expected = ROUNDS / 36.0;

		assert_true(fabs(after[i / 6][i % 6] - expected) < 5 * sqrt(expected));
	}
}

static void the_order_is_the_seeds(void **state)
{
	struct turns a, b, other;
	unsigned same = 0;

	(void)state;
	turns_init(&a, 7, 8);
	turns_init(&b, 7, 8);
	turns_init(&other, 8, 8);
	for (int i = 0; i < 800; i++) {
		uint32_t turn = turns_next(&a);

		assert_int_equal(turn, turns_next(&b));
		same += turn == turns_next(&other);
	}
	assert_in_range(same, 50, 150); /* one in eight */
}

static void shares_are_learnt(void **state)
{
	struct turn_shares s;
	double sum = 0;

	(void)state;
	turn_shares_init(&s, 1);
	assert_true(turn_shares_of(&s, 0) == 1);
	turn_shares_note(&s, 0);
	assert_true(turn_shares_of(&s, 0) == 1); /* as if there were no turns */
	turn_shares_init(&s, 3);
	for (int i = 0; i < 3000; i++) {
		turn_shares_note(&s, i % 10 < 7 ? 0 : 1); /* the third never comes */
	}
	for (uint32_t i = 0; i < 3; i++) {
		assert_true(turn_shares_of(&s, i) > 0);
		sum += (double)turn_shares_of(&s, i);
	}
	assert_true(fabs(sum - 1) < 1e-6);
	assert_true(fabs((double)turn_shares_of(&s, 0) - 0.7) < 0.01);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_has_one_turn_in_a_round),
		cmocka_unit_test(orders_have_no_rhythm),
		cmocka_unit_test(the_order_is_the_seeds),
		cmocka_unit_test(shares_are_learnt),
	};

	return cmocka_run_group_tests_name("turns", tests, NULL, NULL);
}
