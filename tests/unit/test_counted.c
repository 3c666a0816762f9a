/* SPDX-License-Identifier: Apache-2.0 */

/* The line of samples in a page: what was counted in a part of the time stands for all of it. */

#include "tests/unit/unit.h"

#include <math.h>

#include "client/report/counted.h"

enum { SAMPLE_NS = 10000, VALUES = 2 };

static struct counted c;

static int setup(void **state)
{
	(void)state;
	return counted_init(&c, VALUES);
}

static int teardown(void **state)
{
	(void)state;
	counted_deinit(&c);
	return 0;
}

/* n samples, each of 5 of the first value, or of 7 of the second, or of both. */
static void sample(const char *gpu, int64_t from, size_t n, bool first, bool second)
{
	const double values[VALUES] = { first ? 5 : NAN, second ? 7 : NAN };

	for (size_t i = 0; i < n; i++) {
		int64_t at = from + (int64_t)i * SAMPLE_NS;

		counted_add(&c, gpu, at, at + SAMPLE_NS, values);
	}
}

/* What a bin in the middle would have counted by its part. */
static double whole(size_t value, size_t bin)
{
	return counted_sums(&c, value)[bin] / counted_part(&c, value, bin);
}

static double expected(double a_sample)
{
	return a_sample * (double)c.timeline.bin_ns / SAMPLE_NS;
}

#define COUNTED_TEST(f) TEST_WITH(f, setup, teardown)

/* Turns of 4 samples, which change within a bin. */
COUNTED_TEST(sets_that_take_turns_count_as_much)
{
	for (int64_t i = 0; i < 2000; i++) {
		sample("GPU-0", i * 4 * SAMPLE_NS, 4, i % 2 == 0, i % 2 == 1);
	}
	assert_true(c.timeline.bin_ns > 8 * SAMPLE_NS);
	for (size_t i = 1; i + 1 < c.timeline.n_bins; i++) {
		assert_true(fabs(whole(0, i) / expected(5) - 1) < 0.1);
		assert_true(fabs(whole(1, i) / expected(7) - 1) < 0.1);
		assert_true(counted_part(&c, 0, i) > 0.3 && counted_part(&c, 0, i) < 0.7);
	}
}

/* Turns that are longer than a bin. */
COUNTED_TEST(nothing_is_told_of_the_time_of_others)
{
	size_t none = 0;

	sample("GPU-0", 0, 4000, true, false);
	sample("GPU-0", 4000 * SAMPLE_NS, 4000, false, true);
	for (size_t i = 0; i + 1 < c.timeline.n_bins; i++) {
		bool is_none = counted_part(&c, 0, i) == 0;

		none += is_none;
		assert_true(is_none || fabs(whole(0, i) / expected(5) - 1) < 0.05);
	}
	assert_true(none > c.timeline.n_bins * 4 / 10 && none < c.timeline.n_bins * 6 / 10);
}

/* At once they are added, and one after the other not. */
COUNTED_TEST(gpus_are_added)
{
	size_t middle;

	sample("GPU-0", 0, 8000, true, true);
	sample("GPU-1", 0, 4000, true, false);
	sample("GPU-1", 4000 * SAMPLE_NS, 2000, false, true);
	middle = c.timeline.n_bins / 2;
	assert_true(fabs(whole(0, middle - 9) / expected(10) - 1) < 0.1);
	assert_true(fabs(whole(0, middle + 9) / expected(10) - 1) < 0.1);
	assert_true(fabs(whole(0, c.timeline.n_bins - 9) / expected(5) - 1) < 0.1);
}

/* In a short capture bins are short. */
COUNTED_TEST(a_sample_may_be_longer_than_a_bin)
{
	sample("GPU-0", 0, 100, true, true);
	assert_true(c.timeline.bin_ns < SAMPLE_NS);
	assert_true(fabs(whole(0, 0) / expected(5) - 1) < 0.01);
	assert_true(counted_part(&c, 0, 1) == 0);
}
