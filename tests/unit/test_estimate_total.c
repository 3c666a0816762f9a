/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/estimate_fixture.h"

/* Totals, ratios, and samples that are taken in turns. */

/* --- totals --- */

static void a_total_tells_what_its_error_does_not_hold(void **state)
{
	struct estimate_sample guess = { 0 }, once = { 0 }, none = { 0 }, exact = { 0 };
	struct estimate_total t = { 0 };
	struct estimate_pair p;
	struct estimate e;

	(void)state;
	assert_int_equal(estimate_total_of(&t, 0).kind, ESTIMATE_NONE);
	estimate_add(&exact, 7, 0, 1);
	p = estimate_pair(&exact, 1);
	estimate_total_add(&t, &p);
	assert_int_equal(estimate_total_of(&t, 0).kind, ESTIMATE_EXACT);
	estimate_add(&guess, 10, 0, 0.1);
	estimate_add(&guess, 12, 0, 0.1);
	p = estimate_pair(&guess, 20);
	estimate_total_add(&t, &p);
	estimate_add(&once, 5, 0, 1);
	p = estimate_pair(&once, 3);
	estimate_total_add(&t, &p);
	p = estimate_pair(&none, 8);
	estimate_total_add(&t, &p);
	e = estimate_total_of(&t, 0);
	assert_int_equal(e.kind, ESTIMATE_GUESS);
	assert_true(e.value == 7 + 220 + 15);
	assert_true(e.error == estimate_total(&guess, 20).error);
	assert_int_equal(t.once, 3);
	assert_int_equal(t.unknown, 8);
	assert_int_equal(e.seen, 32);
	assert_int_equal(e.measured, 4);
	expect_near(estimate_total_mean(&t, 0).value, 242.0L / 24);
}

/* Nothing but one launch that was certain, and one that stands for others: no error can be told,
 * and 0 would be a lie. */
static void an_error_that_holds_nothing_is_none(void **state)
{
	struct estimate_sample exact = { 0 }, once = { 0 }, none = { 0 }, guess = { 0 };
	struct estimate_total t = { 0 }, part = { 0 };
	struct estimate_pair p;

	(void)state;
	estimate_add(&exact, 7, 0, 1);
	p = estimate_pair(&exact, 1);
	estimate_total_add(&t, &p);
	p = estimate_pair(&none, 8);
	estimate_total_add(&t, &p);
	assert_int_equal(estimate_total_of(&t, 0).kind, ESTIMATE_ONCE);
	assert_true(estimate_total_of(&t, 0).value == 7);
	assert_true(isnan(estimate_total_of(&t, 0).error));
	estimate_add(&once, 5, 0, 1);
	p = estimate_pair(&once, 499);
	estimate_total_add(&part, &p);
	estimate_total_merge(&t, &part);
	assert_int_equal(estimate_total_of(&t, 0).kind, ESTIMATE_ONCE);
	assert_true(estimate_total_of(&t, 0).value == 7 + 499 * 5);
	assert_true(isnan(estimate_total_of(&t, 0).error));
	/* Launches that were all alike have an error, which is 0. */
	estimate_add(&guess, 2, 0, 0.5);
	estimate_add(&guess, 2, 0, 0.5);
	p = estimate_pair(&guess, 9);
	estimate_total_add(&t, &p);
	assert_int_equal(estimate_total_of(&t, 0).kind, ESTIMATE_GUESS);
	assert_true(estimate_total_of(&t, 0).error == 0);
}

/* Row by row or stratum by stratum. */
static void totals_merge_to_the_whole(void **state)
{
	struct estimate_total whole = { 0 }, parts[2] = { 0 };
	uint64_t random = 31;
	struct estimate a, b;

	(void)state;
	for (int h = 0; h < 40; h++) {
		struct estimate_sample s = { 0 };
		struct estimate_pair p;

		for (int i = 0; i < h % 5; i++) {
			double x = 10 + uniform(&random);

			estimate_add(&s, x, x * (2 + uniform(&random)), 0.1);
		}
		p = estimate_pair(&s, h % 8 == 4 ? 4 : 100 + (uint64_t)h);
		estimate_total_add(&whole, &p);
		estimate_total_add(&parts[h % 2], &p);
	}
	estimate_total_merge(&parts[0], &parts[1]);
	assert_int_equal(parts[0].seen, whole.seen);
	assert_int_equal(parts[0].measured, whole.measured);
	assert_int_equal(parts[0].once, whole.once);
	assert_int_equal(parts[0].unknown, whole.unknown);
	assert_int_equal(parts[0].exact, whole.exact);
	assert_true(whole.once > 0 && whole.unknown > 0 && whole.exact > 0);
	a = estimate_total_ratio(&whole);
	b = estimate_total_ratio(&parts[0]);
	expect_near(a.value, b.value);
	expect_near(a.error, b.error);
	expect_near(estimate_total_mean(&whole, 1).error, estimate_total_mean(&parts[0], 1).error);
}

static void ratios_know_how_far_off_they_are(void **state)
{
	uint64_t random = 1234567;
	double told, mean, spread = ratio_spread(&random, &told, &mean);

	(void)state;
	print_message("ratio: off by %.5f rms, %.5f told, %.6f on average\n", spread, told, mean);
	assert_true(told / spread > 0.9 && told / spread < 1.15);
	assert_true(fabs(mean) < 0.1 * spread);
}

static void a_ratio_of_strangers_adds_their_errors(void **state)
{
	const struct estimate y = { ESTIMATE_GUESS, 600, 6, 10, 2 };
	const struct estimate x = { ESTIMATE_GUESS, 200, 2, 10, 2 };
	const struct estimate nothing = { ESTIMATE_EXACT, 0, 0, 10, 10 };
	struct estimate e = estimate_ratio(&y, &x);

	(void)state;
	expect_near(e.value, 3);
	expect_near(e.error, 3 * sqrtl(0.0002L));
	assert_int_equal(estimate_ratio(&y, &nothing).kind, ESTIMATE_NONE);
}

static void turns_are_drawn_as_a_whole(void **state)
{
	double with = covered_by_turns(true), without = covered_by_turns(false);

	(void)state;
	print_message("within one error: %.1f %% with turns, %.1f %% without\n", 100 * with,
		      100 * without);
	assert_true(with > 0.6 && with < 0.8);
	assert_true(without < 0.4);
}

/* In one piece, or of two parts, which have pivots of their own. */
static void turns_add_up(void **state)
{
	struct estimate_sample whole = { 0 }, parts[2] = { { 0 } };
	struct estimate_pair a, b;
	uint64_t random = 5;

	(void)state;
	for (uint64_t turn = 0; turn < 8; turn++) {
		double level = 1e6 * uniform(&random);

		for (int i = 0; i < 20; i++) {
			double x = level + uniform(&random), y = 3 * level + uniform(&random);

			estimate_add_in_turn(&whole, x, y, 0.1, turn);
			estimate_add_in_turn(&parts[turn / 4], x, y, 0.1, turn);
		}
	}
	estimate_merge(&parts[0], &parts[1]);
	a = estimate_pair(&whole, 5000);
	b = estimate_pair(&parts[0], 5000);
	for (int i = 0; i < 2; i++) {
		assert_true(fabs(a.variance[i] / b.variance[i] - 1) < 1e-9);
	}
	assert_true(fabs(a.covariance / b.covariance - 1) < 1e-9);
	assert_true(sqrt(a.variance[0]) > 0.05 * a.value[0]); /* of eight turns */
}

/* Sums of weighted deviations by turn, around the mean with these weights. */
static long double reference_turns_variance(const struct reference *r, const uint64_t *turns,
					    uint64_t seen, const struct estimate_prior *prior)
{
	long double mean = reference_mean(r, r->x), weight = 0, sums[8] = { 0 }, variance = 0, g, n;
	long double weights[8] = { 0 }, squares = 0, more = prior->launches[0];

	for (size_t i = 0; i < r->n; i++) {
		weight += odds_of(r, i);
		weights[turns[i]] += odds_of(r, i);
		sums[turns[i]] += odds_of(r, i) * (r->x[i] - mean);
	}
	g = (long double)(seen - r->n) / weight;
	n = (long double)turns[r->n - 1];
	for (size_t i = 1; i <= turns[r->n - 1]; i++) {
		variance += g * g * sums[i] * sums[i];
		squares += weights[i] * weights[i];
	}
	/* Launches of a turn that are alike have the common variance together. */
	variance = variance * n + more * prior->variance[0] * mean * mean * g * g * squares;
	return variance / (n - 1 + more) * widen(n - 1 + more);
}

static void turns_agree_with_what_is_written(void **state)
{
	static const struct estimate_prior priors[2] = {
		{ .launches = { 0, 0 } }, { .launches = { 3, 3 }, .variance = { 0.25, 0.25 } }
	};
	static struct reference r;
	uint64_t random = 2468, turns[70];

	(void)state;
	for (int run = 0; run < 200; run++) {
		struct estimate_sample s = { 0 };
		struct estimate_pair p;

		r.n = 0;
		for (uint64_t turn = 1; turn <= 7; turn++) {
			double level = 1000 * uniform(&random);

			for (int i = 0; i < 10; i++) {
				double x = level + uniform(&random);
				double chance = 0.01 + 0.5 * uniform(&random);

				r.x[r.n] = (long double)x;
				r.chance[r.n] = (long double)chance;
				turns[r.n++] = turn;
				estimate_add_in_turn(&s, x, 3 * x, chance, turn);
			}
		}
		for (int i = 0; i < 2; i++) {
			p = estimate_pair_among(&s, 5000, &priors[i]);
			expect_near((double)(p.variance[0] /
					     reference_turns_variance(&r, turns, 5000, &priors[i])),
				    1);
			expect_proportional(&p);
		}
	}
}

/* A turn that both parts are in is one. */
static void a_turn_in_two_parts_is_one(void **state)
{
	struct estimate_sample whole = { 0 }, parts[2] = { { 0 } };
	struct estimate_pair a, b;

	(void)state;
	for (uint64_t turn = 1; turn <= 3; turn++) {
		for (int i = 0; i < 20; i++) {
			double x = 100 * (double)(turn * turn) + i % 3;

			estimate_add_in_turn(&whole, x, 1, 0.1, turn);
			estimate_add_in_turn(&parts[turn == 3 && i % 2], x, 1, 0.1, turn);
		}
	}
	estimate_merge(&parts[0], &parts[1]);
	a = estimate_pair(&whole, 5000);
	b = estimate_pair(&parts[0], 5000);
	assert_true(a.variance[0] > 0);
	expect_near(b.variance[0] / a.variance[0], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_total_tells_what_its_error_does_not_hold),
		cmocka_unit_test(an_error_that_holds_nothing_is_none),
		cmocka_unit_test(totals_merge_to_the_whole),
		cmocka_unit_test(ratios_know_how_far_off_they_are),
		cmocka_unit_test(a_ratio_of_strangers_adds_their_errors),
		cmocka_unit_test(turns_are_drawn_as_a_whole),
		cmocka_unit_test(turns_add_up),
		cmocka_unit_test(turns_agree_with_what_is_written),
		cmocka_unit_test(a_turn_in_two_parts_is_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
