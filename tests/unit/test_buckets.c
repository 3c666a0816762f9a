/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <math.h>

#include "client/cli/buckets.h"

enum { METRICS = 2, INTERVAL_NS = 10000 };

static const char *const metrics[METRICS] = { "dram__bytes_read.sum",
					      "sm__throughput.avg.pct_of_peak_sustained_elapsed" };
static const int64_t start_ns = INT64_C(1795163892970808035);

static double byte_value(unsigned i)
{
	return (i % 7) * 1000.0;
}

static int64_t time_of(unsigned i)
{
	return start_ns + (int64_t)i * INTERVAL_NS;
}

/* n samples from number from on. */
static void add(struct buckets *b, unsigned from, unsigned n)
{
	for (unsigned i = from; i < from + n; i++) {
		const double values[METRICS] = { byte_value(i), i % 2 ? 100 : 0 };

		buckets_add(b, time_of(i), time_of(i + 1), values);
	}
}

/* However long it is, nothing is lost, and there are neither few nor many. */
TEST(buckets_grow_with_time)
{
	static const unsigned lengths[] = { 1, 99, 100, 4799, 4800, 4801, 100000, 1234567 };

	for (size_t k = 0; k < ARRAY_SIZE(lengths); k++) {
		struct buckets b;
		uint64_t samples = 0;
		double sum = 0, wanted = 0;

		assert_int_equal(buckets_init(&b, metrics, METRICS, start_ns, time_of(lengths[k])),
				 0);
		add(&b, 0, lengths[k]);
		for (unsigned i = 0; i < lengths[k]; i++) {
			wanted += byte_value(i);
		}
		for (size_t i = 0; i < b.n; i++) {
			sum += buckets_at(&b, i)->values[0].sum;
			samples += buckets_at(&b, i)->samples;
			assert_true(buckets_at(&b, i)->samples >= 50 || lengths[k] < 50);
		}
		assert_true(sum == wanted);
		assert_int_equal(samples, lengths[k]);
		assert_true(b.n <= BUCKETS_MAX);
		assert_true(lengths[k] < 5000 || b.n >= BUCKETS_MAX / 2);
		buckets_deinit(&b);
	}
}

TEST(a_counter_is_a_rate_and_a_ratio_a_level)
{
	struct buckets b;
	const struct bucket *first;

	assert_int_equal(buckets_init(&b, metrics, METRICS, start_ns, time_of(70)), 0);
	add(&b, 0, 70);
	assert_int_equal(b.n, 1);
	first = buckets_at(&b, 0);
	assert_true(first->values[0].min == 0);
	assert_true(fabs(first->values[0].max - 6000 * 1e9 / INTERVAL_NS) < 1);
	assert_true(fabs(bucket_mean(&b, first, 0) - 3000 * 1e9 / INTERVAL_NS) < 1);
	assert_true(first->values[1].min == 0 && first->values[1].max == 100);
	assert_true(fabs(bucket_mean(&b, first, 1) - 50) < 1e-9);
	buckets_deinit(&b);
}

/* A time that nothing is known of has no values. */
TEST(gaps_are_no_zeros)
{
	struct buckets b;

	assert_int_equal(buckets_init(&b, metrics, METRICS, start_ns, time_of(500)), 0);
	add(&b, 0, 100);
	add(&b, 400, 100);
	assert_int_equal(b.n, 5);
	assert_true(isnan(bucket_mean(&b, buckets_at(&b, 2), 0)));
	assert_false(isnan(bucket_mean(&b, buckets_at(&b, 4), 0)));
	buckets_deinit(&b);
}

TEST(a_short_rest_joins_the_bucket_before)
{
	struct buckets b;

	assert_int_equal(buckets_init(&b, metrics, METRICS, start_ns, time_of(203)), 0);
	add(&b, 0, 203);
	assert_int_equal(b.n, 2);
	assert_int_equal(buckets_at(&b, 1)->samples, 103);
	buckets_deinit(&b);
}

static void expect_text(const char *metric, double shown, const char *text)
{
	struct bucket_metric m = bucket_metric(metric);
	struct buf b = { 0 };

	bucket_text(&m, shown, &b);
	assert_string_equal(buf_string(&b), text);
	buf_deinit(&b);
}

TEST(values_have_units)
{
	expect_text("dram__bytes_read.sum", 1.53e12, "1.53 TB/s");
	expect_text("dram__bytes_read.sum.per_second", 1.53e12, "1.53 TB/s");
	expect_text("sm__cycles_active.avg", 1.98e9, "1.98 GHz");
	expect_text("sm__inst_executed.sum", 2e9, "2.00 G/s");
	expect_text("sm__inst_executed.sum", 20, "20/s");
	expect_text("sm__throughput.avg.pct_of_peak_sustained_elapsed", 45.678, "45.7 %");
	expect_text("sm__average_threads_launched_per_warp.ratio", 32, "32");
	expect_text("dram__bytes_read.sum", NAN, "na");
}
