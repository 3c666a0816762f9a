/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/estimate_fixture.h"

/* The reference keeps all values and computes the head comment of estimate.c as it is written, in
 * two passes and in long double. */

static long double reference_total(const struct reference *r, const long double *v, uint64_t seen)
{
	long double sum = 0;

	for (size_t i = 0; i < r->n; i++) {
		sum += v[i];
	}
	return sum + (long double)(seen - r->n) * reference_mean(r, v);
}

static long double reference_random_variance(const struct reference *r, const long double *v,
					     long double unmeasured, long double m, size_t n_free)
{
	long double mean = 0, squares = 0, n = 0;

	for (int pass = 0; pass < 2; pass++) {
		n = 0;
		for (size_t i = 0; i < r->n; i++) {
			if (n_free >= 2 && odds_of(r, i) == 0) {
				continue;
			}
			n++;
			mean += pass == 0 ? v[i] : 0;
			squares += pass == 1 ? (v[i] - mean) * (v[i] - mean) : 0;
		}
		mean = pass == 0 ? mean / n : mean;
	}
	return squares / (n - 1) * unmeasured * (1 + unmeasured / m) * widen(n - 1);
}

static long double reference_drawn_variance(const struct reference *r, const long double *v,
					    long double unmeasured, long double m)
{
	long double mean = reference_mean(r, v), weight = 0, variance = 0, g;

	for (size_t i = 0; i < r->n; i++) {
		weight += odds_of(r, i);
	}
	g = unmeasured / weight;
	for (size_t i = 0; i < r->n; i++) {
		long double w = g * odds_of(r, i), apart = v[i] - mean;

		variance += (w * w + w) * apart * apart;
	}
	return variance * m / (m - 1) * widen(m - 1);
}

static long double reference_variance(const struct reference *r, const long double *v,
				      uint64_t seen)
{
	long double unmeasured = (long double)(seen - r->n), w = 0, ww = 0, m, random, drawn = 0;
	size_t n_free = 0;

	for (size_t i = 0; i < r->n; i++) {
		n_free += odds_of(r, i) > 0;
		w += odds_of(r, i);
		ww += odds_of(r, i) * odds_of(r, i);
	}
	m = n_free > 0 ? w * w / ww : (long double)r->n;
	random = reference_random_variance(r, v, unmeasured, m, n_free);
	if (n_free >= 2 && m >= 1.5L) {
		drawn = reference_drawn_variance(r, v, unmeasured, m);
	}
	return random > drawn ? random : drawn;
}

/* Random values at random chances, some of them 1; y is 0. */
static void make_sample(uint64_t *random, struct reference *r, struct estimate_sample *s)
{
	double size = pow(10, 12 * uniform(random)), spread = uniform(random);

	memset(s, 0, sizeof(*s));
	r->n = 2 + unit_random(random) % (VALUES_MAX - 2);
	r->n = unit_random(random) % 2 ? r->n : 2 + r->n % 5;
	for (size_t i = 0; i < r->n; i++) {
		double value = size * (1 + spread * (uniform(random) - 0.5));
		double chance = unit_random(random) % 4 ? pow(uniform(random), 3) + 1e-5 : 1;

		chance = chance < 1 ? chance : 1;
		r->x[i] = (long double)value;
		r->y[i] = 0;
		r->chance[i] = (long double)chance;
		estimate_add(s, value, 0, chance);
	}
}

static void agrees_with_what_is_written(void **state)
{
	uint64_t random = 88172645463325252u;
	static struct reference r;

	(void)state;
	for (int i = 0; i < 2000; i++) {
		struct estimate_sample s;
		uint64_t seen;
		struct estimate e;
		long double variance;

		make_sample(&random, &r, &s);
		seen = r.n + 1 + unit_random(&random) % 1000000;
		e = estimate_total(&s, seen);
		variance = reference_variance(&r, r.x, seen);
		assert_int_equal(e.kind, ESTIMATE_GUESS);
		expect_near(e.value, reference_total(&r, r.x, seen));
		assert_true(fabs(e.error * e.error - (double)variance) <= 1e-6 * (double)variance);
	}
}

/* Cochran's variance of a total under simple random sampling, N (N - n) s^2 / n. */
static void equal_chances_are_simple_random_sampling(void **state)
{
	struct estimate_sample s = { 0 };
	const double values[] = { 3, 5, 4, 9, 6, 2, 7, 8, 5, 1, 4, 6, 3, 5, 8, 7, 2, 4, 6, 5 };
	double n = ARRAY_SIZE(values), mean = 0, squares = 0, N = 1000, variance;
	struct estimate e;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		estimate_add(&s, values[i], 0, 0.02);
		mean += values[i] / n;
	}
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		squares += (values[i] - mean) * (values[i] - mean);
	}
	e = estimate_total(&s, 1000);
	expect_near(e.value, (long double)(N * mean));
	variance = N * (N - n) * squares / (n - 1) / n;
	/* Student's 97.5 % quantile of 19 degrees of freedom is 2.0930. */
	assert_true(fabs(e.error / sqrt(variance) * 1.959964 / 2.0930 - 1) < 0.01);
}

/* By the quantiles that are printed in tables. */
static void few_launches_have_students_errors(void **state)
{
	static const double quantiles[] = { 0,	    12.7062, 4.3027, 3.1824, 2.7764, 2.5706,
					    2.4469, 2.3646,  2.3060, 2.2622, 2.2281 };

	(void)state;
	for (size_t degrees = 1; degrees < ARRAY_SIZE(quantiles); degrees++) {
		struct estimate_sample s = { 0 };
		double n = (double)degrees + 1, squares, expected;

		for (size_t i = 0; i <= degrees; i++) {
			estimate_add(&s, (double)i, 0, 0.01);
		}
		squares = n * (n * n - 1) / 12;
		expected = sqrt(1000 * (1000 - n) * squares / (n - 1) / n);
		expected *= quantiles[degrees] / 1.959964;
		assert_true(fabs(estimate_total(&s, 1000).error / expected - 1) < 0.012);
	}
}

static void one_turn_alone_has_no_error(void **state)
{
	struct estimate_sample s = { 0 }, part = { 0 };

	(void)state;
	for (int i = 0; i < 20; i++) {
		estimate_add_in_turn(&s, 100 + i % 3, 0, 0.1, 1);
	}
	assert_int_equal(estimate_total(&s, 20).kind, ESTIMATE_EXACT);
	assert_int_equal(estimate_total(&s, 500).kind, ESTIMATE_ONCE);
	assert_true(isnan(estimate_total(&s, 500).error));
	/* And so of a part. */
	estimate_add_in_turn(&part, 100, 0, 0.1, 1);
	estimate_add_in_turn(&part, 101, 0, 0.1, 1);
	estimate_widen(&part, &s);
	assert_int_equal(estimate_total(&part, 500).kind, ESTIMATE_ONCE);
	estimate_add_in_turn(&s, 150, 0, 0.1, 2);
	assert_int_equal(estimate_total(&s, 500).kind, ESTIMATE_GUESS);
}

/* --- what strata have in common --- */

/* Of strata whose launches differ by spread, times or divided by up to unlike. */
static struct estimate_prior prior_of(double spread, double unlike, int launches)
{
	struct estimate_spread all = { 0 };
	uint64_t random = 99;

	for (int stratum = 0; stratum < 500; stratum++) {
		struct estimate_sample s = { 0 };
		double own = spread * pow(unlike, 2 * uniform(&random) - 1);

		for (int i = 0; i < launches; i++) {
			estimate_add(&s, 1000 * (stratum + 1) * (1 + own * normal(&random)), 0,
				     0.01);
		}
		estimate_spread_add(&all, &s);
	}
	return estimate_spread_prior(&all);
}

static void alike_strata_lend_each_other_their_spread(void **state)
{
	struct estimate_prior alike = prior_of(0.1, 1, 3), unlike = prior_of(0.1, 100, 3);
	struct estimate_sample s = { 0 }, same = { 0 };
	struct estimate_pair alone, among;

	(void)state;
	assert_true(fabs(sqrt(alike.variance[0]) / 0.1 - 1) < 0.1);
	assert_true(alike.launches[0] > 3.5 && alike.launches[0] <= 4);
	assert_true(unlike.launches[0] < 0.6);
	assert_true(alike.launches[1] == 0); /* the second metric was 0 everywhere */
	/* Two launches that happen to be alike. */
	estimate_add(&s, 100, 0, 0.01);
	estimate_add(&s, 100.1, 0, 0.01);
	alone = estimate_pair(&s, 200);
	among = estimate_pair_among(&s, 200, &alike);
	assert_true(alone.value[0] == among.value[0]);
	assert_true(among.variance[0] > 25 * alone.variance[0]);
	/* Equal ones are no accident. */
	estimate_add(&same, 100, 0, 0.01);
	estimate_add(&same, 100, 0, 0.01);
	assert_true(estimate_pair_among(&same, 200, &alike).variance[0] == 0);
}

static void what_goes_together_varies_together(void **state)
{
	struct estimate_prior prior = prior_of(0.1, 1, 3);
	uint64_t random = 4321;

	(void)state;
	prior.launches[1] = prior.launches[0];
	prior.variance[1] = prior.variance[0];
	for (int i = 0; i < 500; i++) {
		struct estimate_sample s = { 0 }, in_turns = { 0 };
		struct estimate_pair p;

		for (int j = 0; j < 30; j++) {
			double chance = 0.001 + 0.9 * pow(uniform(&random), 3);
			/* Often with the chance, so that each of the estimates is the larger one.
			 */
			double x = 1000 * uniform(&random) + (i % 2 ? 3000 * chance : 0);

			estimate_add(&s, x, 3 * x, chance);
			estimate_add_in_turn(&in_turns, x + j / 6 * 500.0 * (i % 3),
					     3 * (x + j / 6 * 500.0 * (i % 3)), chance,
					     1 + (uint64_t)j / 6);
		}
		p = estimate_pair(&s, 2000);
		expect_proportional(&p);
		p = estimate_pair_among(&s, 2000, &prior);
		expect_proportional(&p);
		p = estimate_pair(&in_turns, 2000);
		expect_proportional(&p);
		p = estimate_pair_among(&in_turns, 2000, &prior);
		expect_proportional(&p);
	}
}

/* A part is the same as the stratum's launches with zeros in place of the others' values. */
static void a_widened_part_has_zeros_for_the_others(void **state)
{
	uint64_t random = 17;

	(void)state;
	for (int i = 0; i < 200; i++) {
		struct estimate_sample part = { 0 }, whole = { 0 }, zeros = { 0 };
		struct estimate_pair a, b;

		for (int j = 0; j < 40; j++) {
			double x = 100 * (1 + uniform(&random)), y = 2 + uniform(&random);
			double chance = j % 9 ? 0.02 + 0.9 * pow(uniform(&random), 3) : 1;
			bool in = j < 2 || unit_random(&random) % 2;

			estimate_add(&whole, x, y, chance);
			estimate_add(&zeros, in ? x : 0, in ? y : 0, chance);
			if (in) {
				estimate_add(&part, x, y, chance);
			}
		}
		estimate_widen(&part, &whole);
		a = estimate_pair(&part, 3000);
		b = estimate_pair(&zeros, 3000);
		for (int k = 0; k < 2; k++) {
			expect_near(a.value[k] / b.value[k], 1);
			assert_true(fabs(a.variance[k] / b.variance[k] - 1) < 1e-6);
		}
		assert_true(fabs(a.covariance / b.covariance - 1) < 1e-6);
	}
}

/* However many launches it had. */
static void one_turn_is_judged_as_one_launch(void **state)
{
	struct estimate_prior prior = prior_of(0.1, 1, 3);
	struct estimate_sample turn = { 0 }, launch = { 0 }, two = { 0 };
	struct estimate_spread spread = { 0 };
	struct estimate_pair a, b;

	(void)state;
	for (int i = 0; i < 20; i++) {
		estimate_add_in_turn(&turn, 99 + i % 3, 0, 0.1, 1);
		estimate_add_in_turn(&two, 99 + i % 3, 0, 0.1, 1 + (uint64_t)i / 10);
	}
	estimate_add(&launch, 100, 0, 0.1);
	assert_true(estimate_lacks(&turn, 500) && estimate_lacks(&launch, 500));
	assert_true(!estimate_lacks(&two, 500) && !estimate_lacks(&turn, 20));
	/* The second metric was 0 everywhere, and cannot be judged. */
	assert_int_equal(estimate_pair_among(&turn, 500, &prior).kind, ESTIMATE_ONCE);
	prior.constant[1] = true;
	turn.all.mean[1] = launch.all.mean[1] = 1;
	a = estimate_pair_among(&turn, 500, &prior);
	b = estimate_pair_among(&launch, 500, &prior);
	assert_int_equal(a.kind, ESTIMATE_GUESS);
	assert_int_equal(b.kind, ESTIMATE_GUESS);
	assert_true(fabs(sqrt(a.variance[0] / b.variance[0]) - 480.0 / 499) < 0.02);
	/* Two turns are one degree of freedom, and say little of the spread. */
	a = estimate_pair(&two, 500);
	b = estimate_pair_among(&two, 500, &prior);
	assert_true(a.variance[0] > 9 * 480 * 480 * 0.7 / 20 && b.variance[0] > 0);
	estimate_spread_add(&spread, &turn);
	assert_true(spread.of[0].n == 0);
	estimate_spread_add(&spread, &two);
	assert_true(spread.of[0].n == 1);
}

static void everything_measured_is_exact(void **state)
{
	struct estimate_sample s = { 0 };
	struct estimate e;

	(void)state;
	for (uint64_t i = 1; i <= 100000; i++) {
		estimate_add(&s, i % 2 ? 9007199254740991.0 : 1.0, 0, i % 3 ? 1 : 0.25);
	}
	e = estimate_total(&s, 100000);
	assert_int_equal(e.kind, ESTIMATE_EXACT);
	assert_true(e.value == 50000.0 * 9007199254740992.0);
	assert_true(e.error == 0);
	/* Of a process that went away fewer may have been counted than came. */
	assert_int_equal(estimate_total(&s, 99999).seen, 100000);
}

static void once_is_marked_and_nothing_is_nothing(void **state)
{
	struct estimate_sample s = { 0 };
	struct estimate e = estimate_total(&s, 10);

	(void)state;
	assert_int_equal(e.kind, ESTIMATE_NONE);
	assert_true(isnan(e.value));
	estimate_add(&s, 5, 0, 1);
	e = estimate_total(&s, 10);
	assert_int_equal(e.kind, ESTIMATE_ONCE);
	assert_true(e.value == 50);
	assert_true(isnan(e.error));
	e = estimate_total(&s, 1);
	assert_int_equal(e.kind, ESTIMATE_EXACT);
}

/* One launch has the error that other strata have; equal launches none, as ever. */
static void one_launch_is_judged_by_other_strata(void **state)
{
	struct estimate_spread spread = { 0 };
	struct estimate_sample one = { 0 }, equal = { 0 };
	struct estimate_prior prior;
	struct estimate_pair p;

	(void)state;
	for (int i = 0; i < 40; i++) {
		struct estimate_sample s = { 0 };

		estimate_add(&s, 95, 7, 0.1);
		estimate_add(&s, 100, 7, 0.1);
		estimate_add(&s, 105, 7, 0.1);
		estimate_spread_add(&spread, &s);
	}
	prior = estimate_spread_prior(&spread);
	estimate_add(&one, 1000, 7, 0.1);
	assert_int_equal(estimate_pair(&one, 10).kind, ESTIMATE_ONCE);
	p = estimate_pair_among(&one, 10, &prior);
	assert_int_equal(p.kind, ESTIMATE_GUESS);
	assert_true(p.value[0] == 10000);
	/* 5 % of the mean, of nine launches that are known from one, by Student's for three. */
	assert_true(sqrt(p.variance[0]) > 1.5 * 50 * sqrt(9 * 10));
	assert_true(sqrt(p.variance[0]) < 2.2 * 50 * sqrt(9 * 10));
	assert_true(p.value[1] == 70 && p.variance[1] == 0);
	assert_int_equal(estimate_pair_among(&one, 1, &prior).kind, ESTIMATE_EXACT);
	estimate_add(&equal, 50, 7, 0.1);
	estimate_add(&equal, 50, 7, 0.1);
	assert_true(estimate_pair_among(&equal, 10, &prior).variance[0] == 0);
}

/* What other strata have shown counts for less where they differ in it: of 2.5 launches that they
 * are worth, 1 - 2.5 / 4 is taken away. */
static void one_launch_is_judged_by_as_much_as_strata_agree(void **state)
{
	const struct estimate_prior prior = { .launches = { 2.5, 4 }, .variance = { 0.01, 0.04 } };
	struct estimate_sample one = { 0 };
	struct estimate_pair p;

	(void)state;
	estimate_add(&one, 1000, 7, 0.1);
	p = estimate_pair_among(&one, 10, &prior);
	assert_int_equal(p.kind, ESTIMATE_GUESS);
	expect_near(p.variance[0], 0.01L * 1000 * 1000 * 9 * 10 * widen(2.125L));
	expect_near(p.variance[1], 0.04L * 7 * 7 * 9 * 10 * widen(4));
}

/* So many launches of one stratum, of which these were measured. */
static struct estimate_lacking lacking_of(const struct estimate_sample *own, uint64_t seen)
{
	struct estimate_lacking l = { .seen = 0 };

	estimate_lacking_add(&l, own, seen, NULL);
	return l;
}

static void what_is_missing_is_predicted_from_its_kind(void **state)
{
	(void)state;
	predict(false);
}

static void what_is_missing_is_predicted_by_its_size(void **state)
{
	(void)state;
	predict(true);
}

static void add_alike(struct estimate_class *c, const double *values, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct estimate_sample s = { 0 };

		for (int k = 0; k < 3; k++) {
			estimate_add(&s, values[i], 7, 0.5);
		}
		estimate_class_add(c, &s, 6, NULL);
	}
}

/* A few strata that happen to be alike are no sign that the next one of their kind is, when those
 * of other kinds differ, or are few as well; they are when all kinds are so. */
static void alike_strata_are_judged_by_other_kinds(void **state)
{
	static const double same[] = { 100, 100, 100 }, other[] = { 1, 1, 4 };
	struct estimate_class alike = { .degrees = 0 }, differs = { .degrees = 0 };
	const struct estimate_sample none = { 0 };
	const struct estimate_lacking ten = lacking_of(&none, 10);
	struct estimate_among among = { .degrees = 0 };
	struct estimate_pair alone, p;

	(void)state;
	add_alike(&alike, same, ARRAY_SIZE(same));
	estimate_among_add(&among, &alike);
	alone = estimate_pair_like(&alike, &ten, &among); /* it is the only kind */
	assert_true(alone.value[0] == 1000 && alone.kind == ESTIMATE_ONCE);
	for (int i = 0; i < 6; i++) {
		assert_int_equal(estimate_pair_like(&alike, &ten, &among).kind, ESTIMATE_ONCE);
		estimate_among_add(&among, &alike);
	}
	estimate_among_add(&among, &alike);
	p = estimate_pair_like(&alike, &ten, &among);
	assert_true(p.kind == ESTIMATE_GUESS && p.variance[0] == 0);
	add_alike(&differs, other, ARRAY_SIZE(other));
	estimate_among_add(&among, &differs);
	p = estimate_pair_like(&alike, &ten, &among);
	assert_true(p.value[0] == alone.value[0] && p.variance[0] > 0);
	/* Of 18 - 2 degrees of freedom in other kinds 2 are of one with the variance 3 around 2: an
	 * eleventh of 3 / 4 each, of which a third counts; and Student's for 3. */
	assert_true(fabs(sqrt(p.variance[0] / (100 + 100 / 3.0)) / (100 * sqrt(1.5 / 16 / 3)) -
			 1.63) < 0.02);
	/* What was the same everywhere stays so. */
	assert_true(p.value[1] == 70 && p.variance[1] == 0);
}

/* One stratum is judged by other kinds, but for few that did nothing: how they differ is a part of
 * the mean. */
static void one_stratum_is_judged_by_other_kinds(void **state)
{
	static const double differ[] = { 1, 1, 2, 3, 4, 4 }, ten[] = { 10 }, nothing[] = { 0 };
	static const double two[] = { 10, 10 };
	struct estimate_class others = { .degrees = 0 }, one = { .degrees = 0 },
			      zero = { .degrees = 0 }, pair = { .degrees = 0 };
	const struct estimate_sample none = { 0 };
	const struct estimate_lacking lacking = lacking_of(&none, 10);
	struct estimate_among among = { .degrees = 0 };
	struct estimate_pair p;

	(void)state;
	add_alike(&others, differ, ARRAY_SIZE(differ));
	add_alike(&one, ten, ARRAY_SIZE(ten));
	add_alike(&pair, two, ARRAY_SIZE(two));
	for (int i = 0; i < 2; i++) {
		estimate_among_add(&among, &others);
		assert_int_equal(estimate_pair_like(&one, &lacking, &among).kind, ESTIMATE_ONCE);
		assert_int_equal(estimate_pair_like(&pair, &lacking, &among).kind, ESTIMATE_ONCE);
	}
	estimate_among_add(&among, &others); /* fifteen degrees of freedom */
	p = estimate_pair_like(&one, &lacking, &among);
	assert_int_equal(p.kind, ESTIMATE_GUESS);
	assert_true(p.value[0] == 100 && p.variance[0] > 0);
	assert_int_equal(estimate_pair_like(&pair, &lacking, &among).kind, ESTIMATE_GUESS);
	for (int i = 0; i < 5; i++) {
		add_alike(&zero, nothing, ARRAY_SIZE(nothing));
		p = estimate_pair_like(&zero, &lacking, &among);
		assert_int_equal(p.kind, ESTIMATE_ONCE);
		assert_true(p.value[0] == 0 && isnan(p.variance[0]));
	}
	add_alike(&zero, nothing, ARRAY_SIZE(nothing)); /* several show it by themselves */
	p = estimate_pair_like(&zero, &lacking, &among);
	assert_true(p.kind == ESTIMATE_GUESS && p.value[0] == 0 && p.variance[0] == 0);
}

/* What was measured of strata that lack counts as it is; one stratum alone says nothing of errors.
 */
static void a_prediction_keeps_what_was_measured(void **state)
{
	struct estimate_class c = { .degrees = 0 };
	struct estimate_sample own = { 0 }, other = { 0 };
	struct estimate_lacking lacking = lacking_of(&own, 5);
	struct estimate_pair p = estimate_pair_like(&c, &lacking, NULL);

	(void)state;
	assert_int_equal(p.kind, ESTIMATE_NONE);
	assert_true(isnan(p.value[0]));
	estimate_add(&own, 10, 0, 0.5);
	estimate_class_add(&c, &own, 1, NULL);
	lacking = lacking_of(&own, 5);
	p = estimate_pair_like(&c, &lacking, NULL);
	assert_int_equal(p.kind, ESTIMATE_ONCE);
	assert_true(p.value[0] == 50);
	estimate_add(&other, 20, 0, 0.5);
	estimate_class_add(&c, &other, 1, NULL);
	p = estimate_pair_like(&c, &lacking, NULL);
	assert_int_equal(p.kind, ESTIMATE_GUESS);
	assert_true(p.value[0] == 10 + 4 * 15);
	assert_int_equal(p.measured, 1);
	assert_int_equal(p.seen, 5);
}

/* What rounding takes from a sum is kept, in parts as well. */
static void merged_sums_lose_nothing(void **state)
{
	struct estimate_sample parts[2] = { { 0 } };

	(void)state;
	for (int i = 0; i < 2000; i++) {
		estimate_add(&parts[i % 2], i < 2 ? 9007199254740992.0 : 1, 0, 1);
	}
	estimate_merge(&parts[0], &parts[1]);
	assert_true(estimate_total(&parts[0], 2000).value == 2 * 9007199254740992.0 + 1998);
}

/* The formula of the head comment, for strata of two launches and three, one launch missing in each
 * of them and five in one that lacks. */
static void a_prediction_is_what_is_written(void **state)
{
	static const double of[2][3] = { { 10, 14 }, { 40, 46, 58 } };
	const size_t n[2] = { 2, 3 };
	const double seen[2] = { 12, 33 }, N = 5;
	struct estimate_class c = { .degrees = 0 };
	const struct estimate_sample none = { 0 };
	struct estimate_lacking lacking = lacking_of(&none, (uint64_t)N);
	long double means[2], squares = 0, degrees = 0, inverse = 0, shared = 0, w, b;
	struct estimate_pair p;

	(void)state;
	for (size_t h = 0; h < 2; h++) {
		struct estimate_sample s = { 0 };

		means[h] = 0;
		for (size_t i = 0; i < n[h]; i++) {
			estimate_add(&s, of[h][i], 3 * of[h][i], 0.1);
			means[h] += of[h][i] / (long double)n[h];
		}
		for (size_t i = 0; i < n[h]; i++) {
			squares += (of[h][i] - means[h]) * (of[h][i] - means[h]);
		}
		degrees += (long double)n[h] - 1;
		inverse += 1 / (long double)n[h];
		shared += ((long double)seen[h] - (long double)n[h]) / (long double)n[h];
		estimate_class_add(&c, &s, (uint64_t)seen[h], NULL);
	}
	w = squares / degrees;
	b = (means[1] - means[0]) * (means[1] - means[0]) / 2 - w * inverse / 2;
	p = estimate_pair_like(&c, &lacking, NULL);
	expect_near(p.value[0], N * (means[0] + means[1]) / 2);
	expect_near(p.variance[0],
		    b * widen(1) * (N * N + N * N / 2) +
			    w * widen(degrees) * (N + N * N * inverse / 4 + 2 * N * shared / 2));
	expect_proportional(&p);
}

/* A launch that was certain to be measured is no sign of what the others do. */
static void the_first_launch_stands_for_itself(void **state)
{
	struct estimate_sample s = { 0 };
	struct estimate e;

	(void)state;
	estimate_add(&s, 1e6, 0, 1);
	for (int i = 0; i < 10; i++) {
		estimate_add(&s, 100 + i % 2, 0, 0.01);
	}
	e = estimate_total(&s, 1011);
	expect_near(e.value, 1e6L + 1010 * 100.5L);
	assert_true(e.error < 1000);
}

static void constant_values_have_no_error(void **state)
{
	struct estimate_sample s = { 0 };
	struct estimate e;

	(void)state;
	for (int i = 0; i < 7; i++) {
		estimate_add(&s, 123456789, 0, i ? 0.01 : 1);
	}
	e = estimate_total(&s, 1000);
	assert_true(e.value == 123456789000.0);
	assert_true(e.error == 0);
}

static void parts_merge_to_the_whole(void **state)
{
	uint64_t random = 99;

	(void)state;
	for (int i = 0; i < 200; i++) {
		struct estimate_sample parts[3] = { 0 }, whole = { 0 };
		struct estimate_pair a, b;

		for (int j = 0; j < 50; j++) {
			double x = 1e9 * uniform(&random), y = x * uniform(&random);
			double chance = j % 7 ? 0.01 + 0.9 * uniform(&random) : 1;

			estimate_add(&whole, x, y, chance);
			estimate_add(&parts[unit_random(&random) % 3], x, y, chance);
		}
		estimate_merge(&parts[0], &parts[1]);
		estimate_merge(&parts[0], &parts[2]);
		a = estimate_pair(&whole, 5000);
		b = estimate_pair(&parts[0], 5000);
		for (int k = 0; k < 2; k++) {
			assert_true(fabs(a.value[k] / b.value[k] - 1) < 1e-12);
			assert_true(fabs(a.variance[k] / b.variance[k] - 1) < 1e-9);
		}
		assert_true(fabs(a.covariance - b.covariance) <=
			    1e-9 * sqrt(a.variance[0] * a.variance[1]));
	}
}

static bool is_honest(const struct coverage *c)
{
	return c->one > 0.65 && c->two > 0.94 && c->two < 0.965 && c->three > 0.95;
}

static void errors_hold_the_truth_as_often_as_they_say(void **state)
{
	static const int sizes[] = { 2, 3, 5, 10, 50 };
	uint64_t random = 4711;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct coverage c = cover(&random, sizes[i], 1);

		print_message("n = %2d: %.1f %% within 1, %.1f %% within 2, %.1f %% within 3\n",
			      sizes[i], 100 * c.one, 100 * c.two, 100 * c.three);
		assert_true(is_honest(&c));
		/* Errors that are off would be noticed: of two launches less easily. */
		c = cover(&random, sizes[i], sizes[i] > 3 ? 0.75 : 0.6);
		assert_false(is_honest(&c));
		c = cover(&random, sizes[i], sizes[i] > 3 ? 1.3 : 1.8);
		assert_false(is_honest(&c));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_what_is_written),
		cmocka_unit_test(equal_chances_are_simple_random_sampling),
		cmocka_unit_test(few_launches_have_students_errors),
		cmocka_unit_test(alike_strata_lend_each_other_their_spread),
		cmocka_unit_test(what_goes_together_varies_together),
		cmocka_unit_test(a_widened_part_has_zeros_for_the_others),
		cmocka_unit_test(one_turn_alone_has_no_error),
		cmocka_unit_test(one_turn_is_judged_as_one_launch),
		cmocka_unit_test(everything_measured_is_exact),
		cmocka_unit_test(once_is_marked_and_nothing_is_nothing),
		cmocka_unit_test(one_launch_is_judged_by_other_strata),
		cmocka_unit_test(one_launch_is_judged_by_as_much_as_strata_agree),
		cmocka_unit_test(what_is_missing_is_predicted_from_its_kind),
		cmocka_unit_test(what_is_missing_is_predicted_by_its_size),
		cmocka_unit_test(alike_strata_are_judged_by_other_kinds),
		cmocka_unit_test(one_stratum_is_judged_by_other_kinds),
		cmocka_unit_test(a_prediction_keeps_what_was_measured),
		cmocka_unit_test(merged_sums_lose_nothing),
		cmocka_unit_test(a_prediction_is_what_is_written),
		cmocka_unit_test(the_first_launch_stands_for_itself),
		cmocka_unit_test(constant_values_have_no_error),
		cmocka_unit_test(parts_merge_to_the_whole),
		cmocka_unit_test(errors_hold_the_truth_as_often_as_they_say),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
