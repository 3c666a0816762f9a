/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client/report/derived.h"
#include "client/report/machine.h"
#include "client/report/stack_frames.h"
#include "client/report/table.h"
#include "client/report/view.h"

/* Rows of captures whose metrics took turns: launches that had a metric stand for the others of
 * their kernel and shape. */

enum { BYTES = MEASURE_TIME + 1, FLOPS };

/* Bytes in one group, operations in the other. */
static const struct gpuctr_column columns[] = {
	{ .name = "dram__bytes.sum", .unit = "byte", .group = 0 },
	{ .name = "sm__ops_path_tensor_src_fp8.sum", .unit = "math_op", .group = 1 },
};
static const struct gpuctr_plan in_turns = {
	.chip = "GH100", .passes = 2, .groups = 2, .columns = columns, .n_columns = 2
};
static const struct gpuctr_plan at_once = {
	.chip = "GH100", .passes = 1, .groups = 1, .columns = columns, .n_columns = 1
};
static const struct gpuctr_kernel kernels[] = { { .name = "alpha", .mangled = "", .id = 1 },
						{ .name = "beta", .mangled = "", .id = 2 } };

static void begin_capture(struct groups *g, const struct gpuctr_plan *plan)
{
	static const struct gpuctr_process one = { .process = 1, .program = "p" };
	static const struct gpuctr_process two = { .process = 2, .program = "q" };

	assert_int_equal(groups_begin(g, plan, "run.gpuctr", NULL), 0);
	assert_int_equal(groups_process(g, &one), 0);
	assert_int_equal(groups_process(g, &two), 0);
}

static struct groups *begin(const char *by, const struct gpuctr_plan *plan)
{
	struct groups *g;
	struct keys keys;

	assert_true(keys_parse(by, &keys, NULL));
	g = groups_new(&keys);
	assert_non_null(g);
	begin_capture(g, plan);
	return g;
}

/* A launch of a kernel of this many blocks. */
static struct gpuctr_record launch(unsigned kernel, uint32_t blocks)
{
	return (struct gpuctr_record){ .process = 1,
				       .kernel = &kernels[kernel],
				       .grid = { blocks, 1, 1 },
				       .block = { 32, 1, 1 },
				       .clock = GPUCTR_CLOCK_GPU,
				       .duration_ns = 10,
				       .stream = 7 };
}

/* Launches that have the bytes, or the operations. */
static void add_bytes(struct groups *g, struct gpuctr_record r, unsigned n, double bytes)
{
	const double values[] = { bytes, NAN };

	r.values = values;
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(groups_record(g, &r, NULL), 0);
	}
}

static void add_flops(struct groups *g, struct gpuctr_record r, unsigned n, double flops)
{
	const double values[] = { NAN, flops };

	r.values = values;
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(groups_record(g, &r, NULL), 0);
	}
}

static const struct group *find_row(struct groups *g, const char *label)
{
	struct group **rows;
	size_t n = groups_rows(g, &rows);

	for (size_t i = 0; i < n; i++) {
		if (strcmp(rows[i]->labels[0], label) == 0) {
			return rows[i];
		}
	}
	fail_msg("no row '%s'", label);
	return NULL;
}

/* of: the launches that the sum is of. */
static void expect_sum(const struct group *row, size_t measure, double sum, uint64_t of)
{
	if (fabs(row->own[measure].sum - sum) > 1e-9 * sum || row->own[measure].n != of) {
		fail_msg("%g of %lu launches, not %g of %lu", row->own[measure].sum,
			 row->own[measure].n, sum, of);
	}
	assert_true(row->total[measure].sum == row->own[measure].sum);
	assert_int_equal(row->total[measure].n, of);
}

TEST(each_shape_has_its_mean)
{
	struct groups *g = begin("kernel", &in_turns);
	const struct measure *measures;
	const struct group *row;

	add_bytes(g, launch(0, 1), 2, 100);
	add_flops(g, launch(0, 1), 6, 5);
	add_bytes(g, launch(0, 64), 3, 5000);
	add_bytes(g, launch(0, 64), 1, 7000);
	add_flops(g, launch(0, 64), 1, 90);
	assert_int_equal(groups_finish(g), 0);
	assert_true(groups_take_turns(g));
	groups_measures(g, &measures);
	row = find_row(g, "alpha");
	assert_int_equal(row->calls, 13);
	expect_sum(row, MEASURE_TIME, 130, 13);
	expect_sum(row, BYTES, 8 * 100 + 5 * 5500, 13);
	expect_sum(row, FLOPS, 8 * 5 + 5 * 90, 13);
	assert_int_equal(row->self[BYTES].n, 6);
	assert_int_equal(row->self[FLOPS].n, 7);
	/* The mean is that of all launches; the least and the largest are what was measured. */
	assert_true(fields_value(FIELD_MEAN, &measures[BYTES], BYTES, row, row) == 28300.0 / 13);
	assert_true(fields_value(FIELD_MIN, &measures[BYTES], BYTES, row, row) == 100);
	assert_true(fields_value(FIELD_MAX, &measures[BYTES], BYTES, row, row) == 7000);
	expect_sum(groups_all(g), BYTES, 28300, 13);
	assert_int_equal(groups_finish(g), 0); /* again */
	expect_sum(groups_all(g), BYTES, 28300, 13);
	groups_free(g);
}

/* Nobody knows what the others did. */
TEST(a_shape_without_a_launch_is_in_no_sum)
{
	struct groups *g = begin("kernel", &in_turns);
	CLEAN_BUF struct buf table = { 0 }, csv = { 0 };
	struct view v;

	add_bytes(g, launch(0, 1), 2, 100);
	add_flops(g, launch(0, 1), 1, 5);
	add_flops(g, launch(0, 64), 4, 90);
	add_flops(g, launch(1, 1), 1, 6);
	assert_int_equal(groups_finish(g), 0);
	expect_sum(find_row(g, "alpha"), BYTES, 300, 3);
	expect_sum(find_row(g, "alpha"), FLOPS, 3 * 5 + 4 * 90, 7);
	expect_sum(find_row(g, "beta"), BYTES, 0, 0);
	expect_sum(groups_all(g), BYTES, 300, 3);
	assert_int_equal(
		view_init(&v, g, &(struct view_options){ .columns = "dram__bytes.sum" }, NULL), 0);
	assert_int_equal(table_print(&v, 200, &table, NULL), 0);
	assert_non_null(strstr(buf_string(&table), "300 B*"));
	machine_csv(&v, &csv);
	assert_non_null(strstr(buf_string(&csv), ",dram__bytes.sum:n,dram__bytes.sum:unknown\n"));
	assert_non_null(strstr(buf_string(&csv), "\nalpha,7,"));
	assert_non_null(strstr(buf_string(&csv), ",2,4\n"));
	assert_non_null(strstr(buf_string(&csv), "\nbeta,1,"));
	assert_non_null(strstr(buf_string(&csv), ",0,1\n"));
	view_deinit(&v);
	groups_free(g);
}

TEST(rows_have_their_own_or_those_of_all)
{
	struct groups *g = begin("stream", &in_turns);
	struct gpuctr_record other = launch(0, 1), third = launch(0, 1);

	other.stream = 8;
	third.stream = 9;
	add_bytes(g, launch(0, 1), 1, 100);
	add_flops(g, launch(0, 1), 3, 5);
	add_bytes(g, other, 3, 200);
	add_flops(g, third, 2, 7);
	assert_int_equal(groups_finish(g), 0);
	expect_sum(find_row(g, "stream 7"), BYTES, 4 * 100, 4);
	expect_sum(find_row(g, "stream 8"), BYTES, 3 * 200, 3);
	expect_sum(find_row(g, "stream 9"), BYTES, 2 * 175, 2);
	expect_sum(find_row(g, "stream 7"), FLOPS, 4 * 5, 4);
	expect_sum(find_row(g, "stream 8"), FLOPS, 3 * 29 / 5.0, 3);
	assert_int_equal(find_row(g, "stream 9")->self[BYTES].n, 0);
	/* And together they are what they are by any other key. */
	expect_sum(groups_all(g), BYTES, 9 * 175, 9);
	groups_free(g);
}

TEST(processes_and_captures_are_apart)
{
	struct groups *g = begin("process", &in_turns);
	struct gpuctr_record second = launch(0, 1);
	const double value = 1000;
	struct gpuctr_record counted = launch(0, 1);

	second.process = 2;
	counted.values = &value;
	add_bytes(g, launch(0, 1), 1, 100);
	add_flops(g, launch(0, 1), 1, 5);
	add_flops(g, second, 1, 5);
	begin_capture(g, &in_turns);
	add_flops(g, launch(0, 1), 1, 5);
	begin_capture(g, &at_once);
	assert_int_equal(groups_record(g, &counted, NULL), 0);
	assert_int_equal(groups_finish(g), 0);
	expect_sum(find_row(g, "p (0)"), BYTES, 2 * 100 + 1000, 3);
	expect_sum(find_row(g, "q (0)"), BYTES, 0, 0);
	groups_free(g);
}

/* As where the length of ranges does not fit into each group. */
TEST(times_may_take_turns)
{
	static const struct gpuctr_column with_time[] = {
		{ .name = "dram__bytes.sum", .unit = "byte", .group = 0 },
		{ .name = "gpu__time_duration.sum", .unit = "nsecond", .group = 1 },
	};
	static const struct gpuctr_plan plan = {
		.chip = "GH100", .passes = 2, .groups = 2, .columns = with_time, .n_columns = 2
	};
	struct groups *g = begin("kernel", &plan);
	struct gpuctr_record without = launch(0, 1), with = launch(0, 1);
	struct derived_columns derived;
	const struct measure *measures;
	const struct group *row;
	size_t n;

	without.clock = GPUCTR_CLOCK_NONE;
	without.duration_ns = -1;
	with.clock = GPUCTR_CLOCK_RANGE;
	add_bytes(g, without, 3, 400);
	add_flops(g, with, 1, 10);
	assert_int_equal(groups_finish(g), 0);
	row = find_row(g, "alpha");
	expect_sum(row, MEASURE_TIME, 40, 4);
	expect_sum(row, BYTES, 1600, 4);
	assert_int_equal(row->ranged, 4);
	n = groups_measures(g, &measures);
	assert_int_equal(derived_init(&derived, measures, n), 0);
	assert_int_equal(derived.n, 2);
	assert_string_equal(derived.items[0].name, "dram_bandwidth");
	assert_true(derived.items[0].joined);
	assert_true(fabs(derived_value(&derived.items[0], row) / (1600 / 40e-9) - 1) < 1e-9);
	derived_deinit(&derived);
	groups_free(g);
}

TEST(ratios_of_groups_are_joined)
{
	struct groups *g = begin("kernel", &in_turns);
	struct derived_columns derived;
	const struct measure *measures;
	size_t n;

	add_bytes(g, launch(0, 1), 2, 100);
	add_flops(g, launch(0, 1), 3, 600);
	assert_int_equal(groups_finish(g), 0);
	n = groups_measures(g, &measures);
	assert_int_equal(derived_init(&derived, measures, n), 0);
	for (size_t i = 0; i < derived.n; i++) {
		const struct derived *d = &derived.items[i];
		double value = derived_value(d, groups_all(g));

		/* A launch has its time in any group. */
		assert_int_equal(d->joined, strcmp(d->name, "intensity") == 0);
		if (strcmp(d->name, "intensity") == 0) {
			assert_true(fabs(value - 6) < 1e-9);
		} else if (strcmp(d->name, "dram_bandwidth") == 0) {
			assert_true(fabs(value / 1e10 - 1) < 1e-9);
		} else if (strcmp(d->name, "of_flop_peak") == 0) {
			assert_true(isnan(value));
		}
	}
	derived_deinit(&derived);
	groups_free(g);
}

TEST(frames_have_sums_of_all_launches)
{
	struct stack_frames frames = { 0 };
	struct gpuctr_record r = launch(0, 1);
	struct groups *g = stack_frames_groups(NULL, false);
	const struct stack_frame *frame;

	assert_non_null(g);
	assert_int_equal(groups_begin(g, &in_turns, "run.gpuctr", NULL), 0);
	for (unsigned i = 0; i < 4; i++) {
		const double values[] = { i == 0 ? 100 : NAN, i == 0 ? NAN : 5 };

		r.values = values;
		assert_int_equal(groups_record(g, &r, NULL), 0);
	}
	assert_int_equal(stack_frames_make(&frames, g), 0);
	frame = frames.root.children;
	assert_true(frame && frame->is_kernel && !frame->next);
	assert_true(frame->row->own[BYTES].sum == 400);
	assert_int_equal(frame->row->own[BYTES].n, 4);
	stack_frames_deinit(&frames);
	groups_free(g);
}
