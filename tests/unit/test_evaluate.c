/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cupti.h"

#include <malloc.h>
#include <math.h>

#include "client/agent/evaluate.h"

/* A counter-data image that CUPTI wrote on an H200: five runs of a kernel that copies 256 MiB. What
 * it evaluates to there is known; it must be the same here, to the byte. */

enum { RANGES = 5, METRICS = 3 };

static const char *const metrics[METRICS] = { "dram__bytes_read.sum", "dram__bytes_write.sum",
					      "gpu__time_duration.sum" };

static const double truth[RANGES][METRICS] = {
	{ 268452096, 269983744, 127136 }, { 268450304, 268056320, 126368 },
	{ 268445440, 267861248, 126240 }, { 268446208, 267489024, 126400 },
	{ 268453888, 267744512, 126912 },
};

static struct host host;
static uint8_t *image;
static size_t image_size;

static int load_image(const char *path)
{
	FILE *f = fopen(path, "rb");
	long size;

	if (!f || fseek(f, 0, SEEK_END) < 0 || (size = ftell(f)) <= 0) {
		return -1;
	}
	rewind(f);
	image_size = (size_t)size;
	image = malloc(image_size);
	size = (long)fread(image, 1, image_size, f);
	fclose(f);
	return size == (long)image_size ? 0 : -1;
}

/* Its launches live until the next call. */
static struct batch recorded_batch(size_t n)
{
	static struct launch launches[RANGES + 2];

	memset(launches, 0, sizeof(launches));
	return (struct batch){ .launches = launches,
			       .n = n,
			       .image = image,
			       .image_size = image_size,
			       .host = &host };
}

static void one_metric_a_column(uint32_t index[METRICS], double weight[METRICS],
				struct wire_column columns[METRICS])
{
	for (uint32_t i = 0; i < METRICS; i++) {
		index[i] = i;
		weight[i] = 1;
		columns[i] = (struct wire_column){ .name = metrics[i],
						   .metric = { 1, &index[i] },
						   .weight = { 1, &weight[i] } };
	}
}

TEST(real_data_gives_the_known_values)
{
	struct batch b = recorded_batch(RANGES);
	struct wire_column columns[METRICS];
	struct wire_plan plan = { .metrics = { METRICS, metrics },
				  .columns = { METRICS, columns } };
	double values[RANGES][METRICS], weight[METRICS];
	bool measured[RANGES];
	uint32_t index[METRICS];

	one_metric_a_column(index, weight, columns);
	assert_int_equal(host_count_ranges(&host, image, image_size), RANGES);
	assert_int_equal(evaluate_batch(&plan, &b, values[0], measured), 0);
	for (size_t r = 0; r < RANGES; r++) {
		assert_true(measured[r]);
		for (size_t i = 0; i < METRICS; i++) {
			if (values[r][i] != truth[r][i]) {
				fail_msg("range %zu %s: %.17g is not %.17g", r, metrics[i],
					 values[r][i], truth[r][i]);
			}
		}
	}
}

TEST(what_has_no_time_of_its_own_gets_its_ranges)
{
	struct batch b = recorded_batch(RANGES);
	struct wire_plan plan = { .metrics = { METRICS, metrics } };
	bool measured[RANGES];

	b.launches[2].clock = GPUCTR_CLOCK_GPU;
	b.launches[2].duration_ns = 5;
	assert_int_equal(evaluate_batch(&plan, &b, NULL, measured), 0);
	for (size_t r = 0; r < RANGES; r++) {
		const struct launch *l = &b.launches[r];

		assert_int_equal(l->clock, r == 2 ? GPUCTR_CLOCK_GPU : GPUCTR_CLOCK_RANGE);
		assert_int_equal(l->duration_ns, r == 2 ? 5 : (uint64_t)truth[r][2]);
	}
	plan.metrics.n = 2; /* without gpu__time_duration.sum */
	b = recorded_batch(RANGES);
	assert_int_equal(evaluate_batch(&plan, &b, NULL, measured), 0);
	assert_int_equal(b.launches[0].clock, GPUCTR_CLOCK_NONE);
}

TEST(a_column_is_its_weighted_sum)
{
	struct batch b = recorded_batch(RANGES);
	uint32_t index[] = { 1, 0 };
	double weight[] = { 2, -0.5 }, values[RANGES][2];
	struct wire_column columns[] = {
		{ .name = "sum", .metric = { 2, index }, .weight = { 2, weight } },
		{ .name = "nothing" },
	};
	struct wire_plan plan = { .metrics = { METRICS, metrics }, .columns = { 2, columns } };
	bool measured[RANGES];

	assert_int_equal(evaluate_batch(&plan, &b, values[0], measured), 0);
	for (size_t r = 0; r < RANGES; r++) {
		assert_true(values[r][0] == 2 * truth[r][1] - 0.5 * truth[r][0]);
		assert_true(isnan(values[r][1]));
	}
}

TEST(a_metric_that_is_not_there_is_not_a_number)
{
	static const char *const others[] = { "dram__bytes_read.sum", "sm__inst_executed.sum" };
	struct batch b = recorded_batch(RANGES);
	uint32_t index[] = { 0, 1 };
	double one = 1, values[RANGES][2];
	struct wire_column columns[] = {
		{ .name = others[0], .metric = { 1, &index[0] }, .weight = { 1, &one } },
		{ .name = others[1], .metric = { 1, &index[1] }, .weight = { 1, &one } },
	};
	struct wire_plan plan = { .metrics = { 2, others }, .columns = { 2, columns } };
	bool measured[RANGES];

	evaluate_batch(&plan, &b, values[0], measured);
	for (size_t r = 0; r < RANGES; r++) {
		assert_true(isnan(values[r][1]));
		assert_true(values[r][0] == truth[r][0] || isnan(values[r][0]));
	}
}

/* A launch without a range in the image was not measured; a range without a launch is passed over.
 */
TEST(launches_and_ranges_may_differ_in_number)
{
	struct batch more = recorded_batch(RANGES + 2), fewer = recorded_batch(2);
	struct wire_column columns[METRICS];
	struct wire_plan plan = { .metrics = { METRICS, metrics },
				  .columns = { METRICS, columns } };
	double values[RANGES + 2][METRICS], weight[METRICS];
	bool measured[RANGES + 2];
	uint32_t index[METRICS];

	one_metric_a_column(index, weight, columns);
	assert_int_equal(evaluate_batch(&plan, &more, values[0], measured), 0);
	for (size_t r = 0; r < RANGES + 2; r++) {
		assert_int_equal(measured[r], r < RANGES);
		assert_true(r < RANGES ? values[r][0] == truth[r][0] : isnan(values[r][0]));
	}
	memset(measured, 0, sizeof(measured));
	values[2][0] = -1;
	assert_int_equal(evaluate_batch(&plan, &fewer, values[0], measured), 0);
	assert_true(measured[0] && measured[1]);
	assert_true(values[2][0] == -1); /* not written beyond the batch */
}

/* CUPTI hands out what has to be given back, without always saying so. With a sanitizer's allocator
 * glibc has nothing to tell, and LeakSanitizer tells of the fake's. */
TEST(nothing_is_kept_of_a_batch)
{
	enum { ROUNDS = 4000, BYTES_A_RANGE_MAX = 4 };
	struct batch b = recorded_batch(RANGES);
	struct wire_plan plan = { .metrics = { METRICS, metrics } };
	bool measured[RANGES];
	size_t before = 0, after;

	for (int i = -100; i < ROUNDS; i++) {
		before = i == 0 ? mallinfo2().uordblks : before;
		assert_int_equal(evaluate_batch(&plan, &b, NULL, measured), 0);
	}
	after = mallinfo2().uordblks;
	if (after > before && after - before > ROUNDS * RANGES * BYTES_A_RANGE_MAX) {
		fail_msg("%d batches left %zu bytes", ROUNDS, after - before);
	}
}

int main(int argc, char **argv)
{
	struct refusal r;
	int result = cupti_open();

	if (result != 0) {
		return result;
	}
	if (argc != 2 || load_image(argv[1]) < 0 || host_init(&host, &cupti, "GH100", &r) != 0) {
		fprintf(stderr, "usage: test_evaluate IMAGE\n");
		return 1;
	}
	result = unit_run();
	host_deinit(&host);
	free(image);
	return result;
}
