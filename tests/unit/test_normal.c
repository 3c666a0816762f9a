/* SPDX-License-Identifier: Apache-2.0 */

/* The sparse solver against dense elimination, and what defines a non-negative minimum. */

#include <math.h>

#include "tests/unit/unit.h"

#include "client/attribution/normal.h"

#define UNKNOWNS_MOST 40

static double random_part(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (double)(*seed >> 11) / 9007199254740992.0;
}

struct dense {
	uint32_t n;
	double matrix[UNKNOWNS_MOST][UNKNOWNS_MOST], right[UNKNOWNS_MOST];
};

/* Random equations of up to four unknowns, neighbours around a circle; the same to both. */
static void fill(struct normal *normal, struct dense *d, uint64_t *seed, int signs)
{
	d->n = 2 + (uint32_t)(random_part(seed) * (UNKNOWNS_MOST - 2));
	assert_int_equal(normal_grow(normal, d->n), 0);
	for (uint32_t e = 0; e < 6 * d->n; e++) {
		uint32_t unknowns[4], count = 1 + (uint32_t)(random_part(seed) * 4);
		uint32_t from = (uint32_t)(random_part(seed) * d->n);
		double coefficients[4], value = random_part(seed) - (signs ? 0.5 : 0);

		count = count > d->n ? d->n : count;
		for (uint32_t i = 0; i < count; i++) {
			unknowns[i] = (from + i) % d->n;
			coefficients[i] = random_part(seed);
		}
		assert_int_equal(normal_add(normal, unknowns, coefficients, count, value), 0);
		for (uint32_t i = 0; i < count; i++) {
			d->right[unknowns[i]] += coefficients[i] * value;
			for (uint32_t j = 0; j < count; j++) {
				d->matrix[unknowns[i]][unknowns[j]] +=
					coefficients[i] * coefficients[j];
			}
		}
	}
}

/* The inverse by Gauss and Jordan; 0 where it has none. */
static int invert(const struct dense *d, double inverse[UNKNOWNS_MOST][UNKNOWNS_MOST])
{
	double m[UNKNOWNS_MOST][UNKNOWNS_MOST];

	memcpy(m, d->matrix, sizeof(m));
	memset(inverse, 0, sizeof(m));
	for (uint32_t i = 0; i < d->n; i++) {
		inverse[i][i] = 1;
	}
	for (uint32_t i = 0; i < d->n; i++) {
		double pivot = m[i][i];

		if (pivot < 1e-7) {
			return 0;
		}
		for (uint32_t j = 0; j < d->n; j++) {
			m[i][j] /= pivot;
			inverse[i][j] /= pivot;
		}
		for (uint32_t k = 0; k < d->n; k++) {
			double f = m[k][i];

			for (uint32_t j = 0; k != i && j < d->n; j++) {
				m[k][j] -= f * m[i][j];
				inverse[k][j] -= f * inverse[i][j];
			}
		}
	}
	return 1;
}

TEST(test_is_what_dense_elimination_finds)
{
	uint64_t seed = 1;
	int compared = 0;

	for (int round = 0; round < 300; round++) {
		static double inverse[UNKNOWNS_MOST][UNKNOWNS_MOST];
		struct normal normal = { 0 };
		struct dense d = { 0 };
		double x[UNKNOWNS_MOST], told[UNKNOWNS_MOST];
		int positive = 1;

		fill(&normal, &d, &seed, 0);
		assert_int_equal(normal_solve(&normal, x, told), 0);
		if (invert(&d, inverse)) {
			double expected[UNKNOWNS_MOST] = { 0 };

			for (uint32_t i = 0; i < d.n; i++) {
				for (uint32_t j = 0; j < d.n; j++) {
					expected[i] += inverse[i][j] * d.right[j];
				}
				positive = positive && expected[i] > 0;
				assert_true(fabs(told[i] / inverse[i][i] - 1) < 1e-6);
			}
			for (uint32_t i = 0; positive && i < d.n; i++) {
				assert_true(fabs(x[i] - expected[i]) <
					    1e-6 * (1 + fabs(expected[i])));
			}
			compared += positive;
		}
		normal_deinit(&normal);
	}
	assert_true(compared > 10);
}

/* Karush, Kuhn and Tucker: nothing is negative; what is positive has no slope, what is 0 none
 * upwards. */
TEST(test_is_a_minimum_without_negative_values)
{
	uint64_t seed = 2;
	int zeros = 0;

	for (int round = 0; round < 300; round++) {
		struct normal normal = { 0 };
		struct dense d = { 0 };
		double x[UNKNOWNS_MOST];

		fill(&normal, &d, &seed, 1);
		assert_int_equal(normal_solve(&normal, x, NULL), 0);
		for (uint32_t i = 0; i < d.n; i++) {
			double slope = d.right[i];

			for (uint32_t j = 0; j < d.n; j++) {
				slope -= d.matrix[i][j] * x[j];
			}
			assert_true(x[i] >= 0);
			assert_true(slope < 1e-6);
			assert_true(x[i] == 0 || slope > -1e-6);
			zeros += x[i] == 0;
		}
		normal_deinit(&normal);
	}
	assert_true(zeros > 100);
}

TEST(test_says_what_cannot_be_told_apart)
{
	struct normal normal = { 0 };
	const uint32_t pair[] = { 1, 3 }, one[] = { 0 }, other[] = { 2 };
	const double full[] = { 1 };
	double x[5], inverse[5];

	assert_int_equal(normal_grow(&normal, 5), 0);
	for (int i = 0; i < 10; i++) {
		const double root = sqrt(i + 2), parts[] = { 0.3 * root, 0.7 * root };

		assert_int_equal(normal_add(&normal, pair, parts, 2, 4 * root), 0);
		assert_int_equal(normal_add(&normal, one, full, 1, 7), 0);
		assert_int_equal(normal_add(&normal, other, full, 1, 0), 0);
	}
	assert_int_equal(normal_solve(&normal, x, inverse), 0);
	assert_true(isinf(inverse[1]) && isinf(inverse[3]));
	assert_true(fabs(0.3 * x[1] + 0.7 * x[3] - 4) < 1e-9);
	assert_true(fabs(x[0] - 7) < 1e-9 && fabs(inverse[0] - 0.1) < 1e-12);
	assert_true(x[2] == 0 && fabs(inverse[2] - 0.1) < 1e-12);
	assert_true(x[4] == 0 && inverse[4] == 0);
	normal_deinit(&normal);
}

enum { MANY = 20000 };

/* Neighbours around a circle, numbered in no order, and two that half of all are coupled with. */
TEST(test_finds_an_order)
{
	struct normal normal = { 0 };
	static double x[MANY], inverse[MANY], truth[MANY];
	const double coefficients[] = { 1, 1, 0.5 };

	assert_int_equal(normal_grow(&normal, MANY), 0);
	for (uint32_t i = 0; i < MANY; i++) {
		truth[i] = 1 + i % 7;
	}
	for (uint32_t i = 2; i < MANY; i++) {
		/* 7919 is coprime to 19,998 */
		const uint32_t unknowns[] = { 2 + (i * 7919u) % (MANY - 2),
					      2 + ((i + 1) * 7919u) % (MANY - 2), i % 2 };

		assert_int_equal(normal_add(&normal, unknowns, coefficients, 1, truth[unknowns[0]]),
				 0);
		assert_int_equal(normal_add(&normal, unknowns, coefficients, 3,
					    truth[unknowns[0]] + truth[unknowns[1]] +
						    0.5 * truth[unknowns[2]]),
				 0);
	}
	assert_int_equal(normal_solve(&normal, x, inverse), 0);
	for (uint32_t i = 0; i < MANY; i++) {
		assert_true(fabs(x[i] - truth[i]) < 1e-6);
		assert_true(inverse[i] > 0 && inverse[i] < 1);
	}
	normal_deinit(&normal);
}

/* Coupled with any others, so that no order helps. */
TEST(test_refuses_what_is_too_much)
{
	struct normal normal = { 0 };
	static double x[MANY], inverse[MANY];
	const double coefficients[] = { 1, 1 };
	uint64_t seed = 3;

	assert_int_equal(normal_grow(&normal, MANY), 0);
	for (uint32_t i = 0; i < 4 * MANY; i++) {
		const uint32_t one = (uint32_t)(random_part(&seed) * (MANY / 2));
		const uint32_t unknowns[] = { one, MANY / 2 + one / 2 + i % 5000 };

		assert_int_equal(normal_add(&normal, unknowns, coefficients, 2, 1), 0);
	}
	assert_true(normal_solve(&normal, x, inverse) > 0);
	assert_true(x[5] == 0 && inverse[5] == 0);
	normal_deinit(&normal);
}

/* A chain of pairs: what has more of them than may be solved keeps none, until it begins anew. */
TEST(test_keeps_no_more_than_can_be_solved)
{
	struct normal normal = { .entries_most = 1000 };
	static double x[MANY];
	const double coefficients[] = { 1, 1 };

	for (int round = 0; round < 2; round++) {
		uint32_t pairs = round == 0 ? 5000 : 900;

		normal_clear(&normal);
		assert_int_equal(normal_grow(&normal, MANY), 0);
		for (uint32_t i = 0; i < pairs; i++) {
			const uint32_t unknowns[] = { i, i + 1 };

			assert_int_equal(normal_add(&normal, unknowns, coefficients, 2, 2), 0);
			assert_int_equal(normal_add(&normal, unknowns, coefficients, 1, 1), 0);
			assert_true(normal.pairs_used <= 1000 && normal.pairs_size <= 4096);
		}
		x[5] = 7;
		assert_int_equal(normal_solve(&normal, x, NULL) > 0, round == 0);
		assert_true(fabs(x[5] - round) < 1e-9);
	}
	normal_deinit(&normal);
}

/* All of 60 are coupled: 60^3 / 6 multiplications. */
TEST(test_work_is_bounded)
{
	struct normal normal = { 0 };
	double x[60], coefficients[60];
	uint32_t unknowns[60];
	uint64_t seed = 9;

	assert_int_equal(normal_grow(&normal, 60), 0);
	for (uint32_t i = 0; i < 60; i++) {
		unknowns[i] = i;
	}
	for (int e = 0; e < 200; e++) {
		for (uint32_t i = 0; i < 60; i++) {
			coefficients[i] = random_part(&seed);
		}
		assert_int_equal(normal_add(&normal, unknowns, coefficients, 60, 1), 0);
	}
	assert_int_equal(normal_solve(&normal, x, NULL), 0);
	normal.work_most = 40000;
	assert_int_equal(normal_solve(&normal, x, NULL), 0);
	normal.work_most = 30000;
	assert_true(normal_solve(&normal, x, NULL) > 0);
	normal_deinit(&normal);
}
