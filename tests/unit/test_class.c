/* SPDX-License-Identifier: Apache-2.0 */

/* Strata that are predicted by their size, and what tells sizes: client/estimate/class.c and
 * slope.c against their formulas, written out. Those without sizes are in test_estimate.c. */

#include "tests/unit/unit.h"

#include <math.h>

#include "client/estimate/slope.h"

enum { MEASURED = 2, LACKING = 2 };

static double uniform(uint64_t *random)
{
	return (double)(unit_random(random) >> 11) * 0x1p-53;
}

static double normal(uint64_t *random)
{
	return sqrt(-2 * log(1 - uniform(random))) * cos(2 * M_PI * uniform(random));
}

static void expect_near(double found, long double expected)
{
	if (!(fabs(found - (double)expected) <= 1e-9 * fabs((double)expected) + 1e-12)) {
		fail_msg("%.17g is not %.17g", found, (double)expected);
	}
}

/* Squares of Student's quantiles by the normal one, for 1 and 3 degrees of freedom. */
static const long double widen_1 = 6.4829L * 6.4829L, widen_3 = (2 * 1.5356L / 3 + 1.8238L / 3) *
								(2 * 1.5356L / 3 + 1.8238L / 3);

/* --- predictions by size ---------------------------------------------------------------------- */

/* Strata of two launches and of three, of the sizes 2 and 5; and two that lack, of the sizes 3 and
 * 7 with four launches and six, off together. */
struct made {
	struct estimate_class plain, sized;
	struct estimate_lacking lacking, alike;
	long double mean, within, inverse, shared, degrees, among;
};

static const double measured[MEASURED][3] = { { 10, 14 }, { 40, 46, 58 } };
static const size_t launches[MEASURED] = { 2, 3 };
static const double seen[MEASURED] = { 12, 33 }, sizes[MEASURED] = { 2, 5 };
static const double left[LACKING] = { 4, 6 }, units[LACKING] = { 3, 7 }, off[LACKING] = { 0.5, -2 };

static void add_measured(struct made *m, size_t h, bool by_size)
{
	const struct estimate_size size = { { sizes[h], 1 }, { 0, 0 } };
	long double mean = 0, unit = by_size ? sizes[h] : 1, n = (long double)launches[h];
	struct estimate_sample s = { 0 };

	for (size_t i = 0; i < launches[h]; i++) {
		estimate_add(&s, measured[h][i], 1, 0.1);
		mean += measured[h][i] / n;
	}
	for (size_t i = 0; i < launches[h]; i++) {
		m->within += (measured[h][i] - mean) * (measured[h][i] - mean) / (unit * unit);
	}
	m->degrees += n - 1;
	m->inverse += 1 / n;
	m->shared += ((long double)seen[h] - n) * unit / n;
	m->among += (h ? 1 : -1) * mean / unit; /* a difference, until both are added */
	m->mean += mean / unit / MEASURED;
	estimate_class_add(by_size ? &m->sized : &m->plain, &s, (uint64_t)seen[h],
			   by_size ? &size : NULL);
}

static struct made make(bool by_size)
{
	const struct estimate_sample none = { 0 };
	struct made m = { .mean = 0 };

	for (size_t h = 0; h < MEASURED; h++) {
		add_measured(&m, h, by_size);
	}
	m.within /= m.degrees;
	m.among = m.among * m.among / 2 - m.within * m.inverse / 2;
	for (size_t l = 0; l < LACKING; l++) {
		const struct estimate_size size = { { units[l], 1 }, { off[l], 0 } };

		estimate_lacking_add(&m.lacking, &none, (uint64_t)left[l], &size);
		estimate_lacking_add(&m.alike, &none, (uint64_t)left[l], NULL);
	}
	return m;
}

static long double variance_of_mean(const struct made *m)
{
	return m->among * widen_1 / 2 + m->within * widen_3 * m->inverse / 4;
}

/* Each launch counts as much as its size, those of the class's strata as well; and what sizes are
 * off by is one error for all strata. */
static void a_prediction_by_size_is_what_is_written(void **state)
{
	struct made m = make(true);
	struct estimate_pair p = estimate_pair_like(&m.sized, &m.lacking, NULL);
	long double u = 4 * 3 + 6 * 7, u_2 = 4 * 9 + 6 * 49, squares = 12 * 12 + 42 * 42,
		    o = 12 * 0.5L - 42 * 2;

	(void)state;
	assert_true(m.among > 0);
	expect_near(p.value[0], u * m.mean);
	expect_near(p.variance[0], variance_of_mean(&m) * u * u + m.among * widen_1 * squares +
					   m.within * widen_3 * (u_2 + 2 * u * m.shared / 2) +
					   o * o * m.mean * m.mean);
	assert_true(p.value[1] == 10 && p.variance[1] == 0);
}

/* What both predictions have from the same strata is in their sum twice more. */
static void predictions_from_the_same_strata_share_their_error(void **state)
{
	struct made plain = make(false), sized = make(true);
	const struct estimate_like a = { &plain.plain, &plain.alike, NULL };
	const struct estimate_like b = { &sized.sized, &sized.lacking, NULL };
	struct estimate_pair p = estimate_pair_like(a.class, a.lacking, NULL), alone = p;

	(void)state;
	estimate_pair_share(&p, &a, &b);
	expect_near(p.variance[0] - alone.variance[0],
		    2 * 10 * 54 * sqrtl(variance_of_mean(&plain) * variance_of_mean(&sized)));
	assert_true(p.value[0] == alone.value[0]);
	assert_true(p.variance[1] == 0 && p.covariance == 0);
}

/* Twice the same prediction has twice the error, but for the part that is each one's own; and both
 * metrics keep their correlation. */
static void shared_errors_keep_their_correlation(void **state)
{
	struct estimate_class c = { .degrees = 0 };
	const struct estimate_sample none = { 0 };
	struct estimate_lacking lacking = { .seen = 0 };
	const struct estimate_like like = { &c, &lacking, NULL };
	struct estimate_pair p, alone;

	(void)state;
	for (int h = 1; h <= 4; h++) {
		struct estimate_sample s = { 0 };

		estimate_add(&s, h, 10 * h, 0.1);
		estimate_class_add(&c, &s, 1, NULL);
	}
	estimate_lacking_add(&lacking, &none, 8, NULL);
	alone = p = estimate_pair_like(&c, &lacking, NULL);
	estimate_pair_share(&p, &like, &like);
	expect_near((p.variance[0] + alone.variance[0]) / alone.variance[0],
		    2 * (1 + 2 / 4.0L) / (1 + 1 / 4.0L));
	expect_near(p.covariance, 10 * p.variance[0]);
	expect_near(alone.covariance, 10 * alone.variance[0]);
}

/* --- slopes ----------------------------------------------------------------------------------- */

struct reference {
	long double xx, xy, yy, own, xx_2;
};

/* A class of three: x from -1 to 1 times wide, and y as is said. */
static void add_class(struct estimate_regression *r, struct reference *f, double wide,
		      const double y[3])
{
	struct estimate_moments m = { .weight = 0 };
	long double mean = ((long double)y[0] + y[1] + y[2]) / 3, xx = 0, xy = 0;

	for (int i = 0; i < 3; i++) {
		const double v[2] = { 100 + wide * (i - 1), y[i] };

		estimate_moments_add(&m, 1, v);
		xx += (long double)wide * wide * (i - 1) * (i - 1);
		xy += (long double)wide * (i - 1) * (y[i] - mean);
		f->yy += (y[i] - mean) * (y[i] - mean);
	}
	f->xx += xx;
	f->xy += xy;
	f->xx_2 += xx * xx;
	f->own += xx > 0 ? xy * xy / xx : 0;
	estimate_regression_add(r, &m);
}

/* Six classes, in one of which x does not differ; and one of one stratum, which says nothing. */
static void slopes_are_what_is_written(void **state)
{
	static const double y[6][3] = { { 5, 7, 9 },  { 1, 4, 8 },    { 0, 2.5, 4.5 },
					{ 3, 7, 12 }, { 10, 11, 13 }, { 2, 2.5, 3 } };
	const struct estimate_moments alone = { .weight = 1, .mean = { 4, 5 } };
	struct estimate_regression r = { .degrees = 0 };
	struct reference f = { 0 };
	long double b, chance, differ, t_2;
	struct estimate_slope s;

	(void)state;
	for (size_t c = 0; c < 6; c++) {
		add_class(&r, &f, c == 5 ? 0 : 1 + (double)c / 4, y[c]);
	}
	estimate_regression_add(&r, &alone);
	s = estimate_slope_of(&r);
	b = f.xy / f.xx;
	chance = (f.yy - f.own) / (12 - 5);
	differ = f.own - b * f.xy - 4 * chance;
	t_2 = differ / (f.xx - f.xx_2 / f.xx);
	assert_true(t_2 > 0);
	expect_near(s.slope, b);
	expect_near(s.explained, b * f.xy / f.yy);
	/* Student's for eleven degrees of freedom. */
	expect_near(s.error * s.error,
		    (f.yy - b * f.xy) / (11 * f.xx) * powl(1 + 0.1368L * 10 / 11, 2) + t_2);
}

/* Fewer than eight degrees of freedom say nothing, however well all goes together. */
static void few_pairs_say_nothing(void **state)
{
	static const double y[3] = { -2, 0, 2 };
	struct estimate_regression r = { .degrees = 0 };
	struct reference f = { 0 };

	(void)state;
	for (int c = 0; c < 3; c++) {
		add_class(&r, &f, 1, y);
		assert_true(estimate_slope_of(&r).slope == 0 && estimate_slope_of(&r).error == 0);
	}
	add_class(&r, &f, 1, y);
	expect_near(estimate_slope_of(&r).slope, 2);
	assert_true(estimate_slope_of(&r).error < 1e-6);
}

/* F on both sides of 15: where it is less the slope is not used, and may be as large all the same.
 */
static void a_slope_is_no_chance(void **state)
{
	(void)state;
	for (int proven = 0; proven < 2; proven++) {
		struct estimate_regression r = { .degrees = 0 };
		struct reference f = { 0 };
		/* Of xx 10 and xy 10 a slope of 1; with yy - 10 left F is 9 * 10 / left. */
		double rest = sqrt((proven ? 5.9 : 6.1) / 5 / 1.5);
		const double y[3] = { -1 + rest / 2, -rest, 1 + rest / 2 };
		struct estimate_slope s;

		for (int c = 0; c < 5; c++) {
			add_class(&r, &f, 1, y);
		}
		s = estimate_slope_of(&r);
		if (proven) {
			expect_near(s.slope, 1);
			assert_true(s.error > 0.25 && s.error < 0.35);
		} else {
			assert_true(s.slope == 0);
			assert_true(s.error > 1 && s.error < 1.1);
		}
	}
}

/* The best of sixty metrics that have nothing to do with y is taken for one in few programs. */
static void the_best_of_many_is_rarely_believed(void **state)
{
	enum { PROGRAMS = 300, METRICS = 60, CLASSES = 10 };
	unsigned believed = 0;
	uint64_t random = 31;

	(void)state;
	for (int p = 0; p < PROGRAMS; p++) {
		bool one = false;

		for (int m = 0; m < METRICS; m++) {
			struct estimate_regression r = { .degrees = 0 };

			for (int c = 0; c < CLASSES; c++) {
				struct estimate_moments moments = { .weight = 0 };

				for (int i = 0; i < 3; i++) {
					const double v[2] = { normal(&random), normal(&random) };

					estimate_moments_add(&moments, 1, v);
				}
				estimate_regression_add(&r, &moments);
			}
			one = one || estimate_slope_of(&r).slope != 0;
		}
		believed += one;
	}
	print_message("the best of %d by chance is believed in %.1f %% of programs\n", METRICS,
		      100.0 * believed / PROGRAMS);
	assert_true(believed < 0.1 * PROGRAMS);
}

/* Classes whose slopes differ: that of one more is as far off as is told, and not only what the
 * mean of the slopes is. */
static void a_slope_of_one_more_class_is_as_far_off_as_it_says(void **state)
{
	enum { PROGRAMS = 2000, CLASSES = 12 };
	unsigned within_1 = 0, within_3 = 0;
	uint64_t random = 59;

	(void)state;
	for (int p = 0; p < PROGRAMS; p++) {
		struct estimate_regression r = { .degrees = 0 };
		struct estimate_slope s;
		double away;

		for (int c = 0; c < CLASSES; c++) {
			struct estimate_moments moments = { .weight = 0 };
			double slope = 1 + 0.2 * normal(&random);

			for (int i = 0; i < 4; i++) {
				double x = normal(&random);
				const double v[2] = { x, slope * x + 0.1 * normal(&random) };

				estimate_moments_add(&moments, 1, v);
			}
			estimate_regression_add(&r, &moments);
		}
		s = estimate_slope_of(&r);
		away = fabs(s.slope - (1 + 0.2 * normal(&random)));
		within_1 += away <= s.error;
		within_3 += away <= 3 * s.error;
	}
	print_message("slopes: %.1f %% within one error, %.1f %% within three\n",
		      100.0 * within_1 / PROGRAMS, 100.0 * within_3 / PROGRAMS);
	assert_in_range(within_1, (unsigned)(0.6 * PROGRAMS), (unsigned)(0.75 * PROGRAMS));
	assert_true(within_3 > 0.965 * PROGRAMS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_prediction_by_size_is_what_is_written),
		cmocka_unit_test(predictions_from_the_same_strata_share_their_error),
		cmocka_unit_test(shared_errors_keep_their_correlation),
		cmocka_unit_test(slopes_are_what_is_written),
		cmocka_unit_test(few_pairs_say_nothing),
		cmocka_unit_test(a_slope_is_no_chance),
		cmocka_unit_test(the_best_of_many_is_rarely_believed),
		cmocka_unit_test(a_slope_of_one_more_class_is_as_far_off_as_it_says),
	};

	return cmocka_run_group_tests_name("class", tests, NULL, NULL);
}
