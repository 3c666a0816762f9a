/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <math.h>

#include "client/agent/turns.h"
#include "proto/wire/limits.h"

enum { TURNS = 60000 };

/* The next one, or the one after it; and each as often as any other. */
TEST(each_comes_as_often)
{
	for (uint32_t n = 1; n <= LIMIT_GROUPS; n++) {
		unsigned seen[LIMIT_GROUPS] = { 0 }, left_out = 0;
		uint32_t pass = 0;
		struct turns t;

		turns_init(&t, n, n);
		for (int i = 0; i < TURNS; i++) {
			uint32_t next = turns_next(&t, pass);

			assert_true(next == (pass + 1) % n || next == (pass + 2) % n);
			left_out += n > 1 && next == (pass + 2) % n;
			seen[next]++;
			pass = next;
		}
		assert_true(left_out <= TURNS / 3);
		assert_true(n == 1 || left_out >= TURNS / 20);
		for (uint32_t i = 0; i < n; i++) {
			double expected = TURNS / (double)n;

			assert_true(fabs(seen[i] - expected) < 5 * sqrt(expected));
		}
	}
}

/* Who is over after a few rounds has had as many turns of each, but for one. */
TEST(first_rounds_leave_none_out)
{
	for (uint64_t seed = 0; seed < 100; seed++) {
		uint32_t pass = 0;
		struct turns t;

		turns_init(&t, seed, 10);
		for (uint32_t i = 1; i <= 30; i++) {
			pass = turns_next(&t, pass);
			assert_int_equal(pass, i % 10);
		}
	}
}

/* A program whose phase lasts as long as a round shows each pass all of it: where in a round of
 * four a pass comes is, over 400 turns, no place more often than by chance. */
TEST(rounds_have_no_rhythm)
{
	unsigned at[4][4] = { { 0 } };
	uint32_t pass = 0;
	struct turns t;

	turns_init(&t, 7, 4);
	for (int i = 0; i < TURNS; i++) {
		pass = turns_next(&t, pass);
		at[pass][i % 4]++;
	}
	for (int i = 0; i < 16; i++) {
		double expected = TURNS / 16.0;

		assert_true(fabs(at[i / 4][i % 4] - expected) < 0.1 * expected);
	}
}

TEST(the_order_is_the_seeds)
{
	uint32_t pass[3] = { 0 };
	struct turns t[3];
	unsigned same = 0;

	turns_init(&t[0], 7, 8);
	turns_init(&t[1], 7, 8);
	turns_init(&t[2], 8, 8);
	for (int i = 0; i < 8000; i++) {
		for (int k = 0; k < 3; k++) {
			pass[k] = turns_next(&t[k], pass[k]);
		}
		assert_int_equal(pass[0], pass[1]);
		same += pass[0] == pass[2];
	}
	assert_in_range(same, 500, 1500); /* one in eight */
}
