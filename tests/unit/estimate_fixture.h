/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What test_estimate.c and test_estimate_total.c share. */

#include "tests/unit/unit.h"

#include <math.h>

#include "client/estimate/total.h"

enum { VALUES_MAX = 400 };

struct reference {
	size_t n;
	long double x[VALUES_MAX], y[VALUES_MAX], chance[VALUES_MAX];
};

static inline double uniform(uint64_t *random)
{
	return (double)(unit_random(random) >> 11) * 0x1p-53;
}

static inline void expect_near(double found, long double expected)
{
	double allowed = 1e-9 * fabs((double)expected) + 1e-9;

	if (!(fabs(found - (double)expected) <= allowed)) {
		fail_msg("%.17g is not %.17g", found, (double)expected);
	}
}

static inline long double odds_of(const struct reference *r, size_t i)
{
	return (1 - r->chance[i]) / r->chance[i];
}

/* The mean of v that the unmeasured launches are taken to have. */
static inline long double reference_mean(const struct reference *r, const long double *v)
{
	long double sum = 0, weight = 0, plain = 0;

	for (size_t i = 0; i < r->n; i++) {
		sum += odds_of(r, i) * v[i];
		weight += odds_of(r, i);
		plain += v[i];
	}
	return weight > 0 ? sum / weight : plain / (long double)r->n;
}

/* 97.5 % quantiles of Student's distribution by the normal one, for 10 / i degrees of freedom. */
static inline long double widen(long double degrees)
{
	static const long double quantiles[] = { 1,	  1.1368L, 1.3115L, 1.5356L,
						 1.8238L, 2.1953L, 2.6747L, 3.2942L,
						 4.0960L, 5.1348L, 6.4829L };
	long double at = 10 / (degrees > 1 ? degrees : 1), t;
	size_t i = at < 9 ? (size_t)at : 9;

	t = quantiles[i] * ((long double)i + 1 - at) + quantiles[i + 1] * (at - (long double)i);
	return t * t;
}

static inline double normal(uint64_t *random)
{
	return sqrt(-2 * log(1 - uniform(random))) * cos(2 * M_PI * uniform(random));
}

/* A metric that is three times another in each launch: whatever is said of the one holds of the
 * other, three and nine times, and so of what they have in common. */
static inline void expect_proportional(const struct estimate_pair *p)
{
	expect_near(p->value[1] / p->value[0], 3);
	expect_near(p->variance[1] / p->variance[0], 9);
	expect_near(p->covariance / p->variance[0], 3);
}

/* A class of strata that differ by 30 % among each other, or for each unit of their size, and by 10
 * % within. What is missing in some of them is predicted: as far off as it says. */
static inline void predict(bool sized)
{
	enum { STRATA = 12, OF_EACH = 20, TRIES = 2000 };
	uint64_t random = 77;
	unsigned within_1 = 0, within_2 = 0;
	double off = 0;

	for (int t = 0; t < TRIES; t++) {
		struct estimate_class c = { .degrees = 0 };
		struct estimate_lacking lacking = { .seen = 0 };
		struct estimate_pair p;
		double truth = 0, z;

		for (int h = 0; h < STRATA; h++) {
			const struct estimate_size size = { { sized ? 1 + h * h : 1, 1 },
							    { 0, 0 } };
			double mean = 100 * size.unit[0] * (1 + 0.3 * normal(&random));
			struct estimate_sample s = { 0 };

			for (int i = 0; i < OF_EACH; i++) {
				double v = mean * (1 + 0.1 * normal(&random));

				truth += h < 2 ? v : 0;
				if (h >= 2 && i < 2) {
					estimate_add(&s, v, 1, 0.1);
				}
			}
			estimate_class_add(&c, &s, 2, &size);
			if (h < 2) {
				estimate_lacking_add(&lacking, &s, OF_EACH, &size);
			}
		}
		assert_true(c.means.weight == STRATA - 2);
		p = estimate_pair_like(&c, &lacking, NULL);
		assert_int_equal(p.kind, ESTIMATE_GUESS);
		assert_true(p.value[1] == 2 * OF_EACH && p.variance[1] < 1e-9);
		z = (p.value[0] - truth) / sqrt(p.variance[0]);
		within_1 += fabs(z) <= 1;
		within_2 += fabs(z) <= 2;
		off += z / TRIES;
	}
	print_message("predicted: %.1f %% within one error, %.1f %% within two, off by %.2f\n",
		      100.0 * within_1 / TRIES, 100.0 * within_2 / TRIES, off);
	assert_in_range(within_1, (unsigned)(0.64 * TRIES), (unsigned)(0.8 * TRIES));
	assert_true(within_2 > 0.93 * TRIES && fabs(off) < 0.1);
}

/* How often 1, 2 and 3 errors hold the truth, for samples of n from normal values; and the mean z.
 */
struct coverage {
	double one, two, three, mean_z;
};

static inline struct coverage cover(uint64_t *random, int n, double factor)
{
	enum { RUNS = 4000, N = 500 };
	struct coverage c = { 0, 0, 0, 0 };

	for (int run = 0; run < RUNS; run++) {
		struct estimate_sample s = { 0 };
		double truth = 0, z;
		struct estimate e;

		for (int i = 0; i < N; i++) {
			double v = 50 + normal(random);

			truth += v;
			if (i < n) {
				estimate_add(&s, v, 0, (double)n / N);
			}
		}
		e = estimate_total(&s, N);
		z = (e.value - truth) / (factor * e.error);
		c.one += (fabs(z) <= 1) / (double)RUNS;
		c.two += (fabs(z) <= 2) / (double)RUNS;
		c.three += (fabs(z) <= 3) / (double)RUNS;
		c.mean_z += z / RUNS;
	}
	return c;
}

/* Of launches whose y is about twice their x: the error of the ratio is small though both vary. */
static inline double ratio_spread(uint64_t *random, double *ret_error, double *ret_mean)
{
	enum { RUNS = 1500, N = 500, MEASURED = 25 };
	double squares = 0, sum = 0;

	*ret_error = 0;
	for (int run = 0; run < RUNS; run++) {
		struct estimate_total t = { 0 };
		double x = 0, y = 0;
		struct estimate e;

		for (int stratum = 1; stratum <= 4; stratum++) {
			struct estimate_sample s = { 0 };
			struct estimate_pair p;

			for (int i = 0; i < N; i++) {
				double a = stratum * (1 + uniform(random));
				double b = a * (stratum + 0.2 * uniform(random));

				x += a;
				y += b;
				if (i < MEASURED) {
					estimate_add(&s, a, b, (double)MEASURED / N);
				}
			}
			p = estimate_pair(&s, N);
			estimate_total_add(&t, &p);
		}
		e = estimate_total_ratio(&t);
		squares += (e.value - y / x) * (e.value - y / x) / RUNS;
		sum += (e.value - y / x) / RUNS;
		*ret_error += e.error * e.error / RUNS;
	}
	*ret_mean = sum;
	*ret_error = sqrt(*ret_error);
	return sqrt(squares);
}

/* A program whose launches are alike for as long as a turn: of 40 spells of 100 launches, a quarter
 * had the turn of this metric. How often the truth is within one error, with and without turns. */
static inline double covered_by_turns(bool told)
{
	enum { RUNS = 400, SPELLS = 40, SPELL = 100 };
	uint64_t random = 11;
	unsigned within = 0;

	for (int run = 0; run < RUNS; run++) {
		struct estimate_sample s = { 0 };
		struct estimate e;
		double truth = 0;

		for (uint64_t spell = 0; spell < SPELLS; spell++) {
			double level = 1000 + 1000 * uniform(&random);
			bool turn = uniform(&random) < 0.25;

			for (int i = 0; i < SPELL; i++) {
				double v = level + 10 * uniform(&random);

				truth += v;
				if (turn && uniform(&random) < 0.2) {
					estimate_add_in_turn(&s, v, 0, 0.25 * 0.2,
							     told ? spell : 0);
				}
			}
		}
		e = estimate_total(&s, SPELLS * SPELL);
		within += fabs(e.value - truth) <= e.error;
	}
	return (double)within / RUNS;
}
