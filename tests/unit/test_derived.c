/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <math.h>

#include "client/report/derived.h"

/* Which counters are floating-point operations, what follows from measures, and columns that the
 * user defines. */

static struct measure tensor(const char *name)
{
	return (struct measure){ .name = name, .unit = "math_op", .adds_up = true };
}

/* --- those that are always there --- */

static void expect_flops(const struct measure *measures, size_t n, const char *expected)
{
	struct buf b = { 0 };

	assert_int_equal(sums_add_flops(measures, n, &b), *expected != '\0');
	assert_string_equal(buf_string(&b), expected);
	buf_deinit(&b);
}

TEST(all_precisions_are_added_up)
{
	const struct measure measures[] = {
		{ .name = "time", .unit = "ns", .adds_up = true },
		tensor("sm__ops_path_tensor_src_bf16_dst_fp32.sum"),
		tensor("sm__ops_path_tensor_op_hgmma_src_fp16.sum"),
		tensor("sm__ops_path_tensor_src_fp8.sum"),
		{ .name = "kineto__cuda_core_flops", .unit = "FLOP", .adds_up = true },
		{ .name = "dram__bytes.sum", .unit = "byte", .adds_up = true },
	};
	struct part parts[] = { { 2, 1000 }, { 2, 10 }, { 2, 20 }, { 2, 30 }, { 2, 40 }, { 2, 5 } };
	const struct group row = { .calls = 2, .total_calls = 2, .total = parts, .timed = parts };
	struct derived_columns c;

	assert_int_equal(derived_init(&c, measures, 6), 0);
	assert_true(derived_value(derived_named(&c, "flop"), &row) == 100);
	assert_true(fabs(derived_value(derived_named(&c, "flop_rate"), &row) / 1e8 - 1) < 1e-12);
	assert_true(derived_value(derived_named(&c, "intensity"), &row) == 20);
	expect_flops(measures, 6,
		     "of the tensor cores bf16 to fp32, fp16 by hgmma, fp8, "
		     "kineto__cuda_core_flops");
	derived_deinit(&c);
}

/* A part of what is there already would be counted twice; integers have no point. */
TEST(what_is_in_another_counter_is_not_added)
{
	const struct measure measures[] = {
		{ .name = "time", .unit = "ns", .adds_up = true },
		tensor("sm__ops_path_tensor_op_hgmma_src_fp16.sum"),
		tensor("sm__ops_path_tensor_src_fp16.sum"),
		tensor("sm__ops_path_tensor_op_hmma_src_fp16_dst_fp32.sum"),
		tensor("sm__ops_path_tensor_op_hmma_src_fp16_dst_fp32_sparsity_on.sum"),
		tensor("sm__ops_path_tensor_src_int8.sum"),
		{ .name = "sm__ops_path_tensor_src_fp64.avg", .unit = "math_op" },
	};
	struct derived_columns c;

	assert_int_equal(derived_init(&c, measures, 7), 0);
	assert_null(derived_named(&c, "flop"));
	assert_non_null(derived_named(&c, "flop_rate"));
	assert_int_equal(c.sums->flops.n, 1);
	assert_int_equal(c.sums->flops.terms[0], 2);
	expect_flops(measures, 7, "of the tensor cores fp16");
	expect_flops(measures + 3, 2, "of the tensor cores fp16 to fp32 by hmma");
	expect_flops(measures + 5, 2, "");
	derived_deinit(&c);
}

/* A mean over units does not add up, so it stands for no sum: neither for its own counter's nor for
 * that of a part. */
TEST(a_mean_hides_no_sum)
{
	const struct measure measures[] = {
		tensor("sm__ops_path_tensor_src_fp16.sum"),
		{ .name = "sm__ops_path_tensor_src_fp16.avg", .unit = "math_op" },
		tensor("sm__ops_path_tensor_op_hgmma_src_bf16.sum"),
		{ .name = "sm__ops_path_tensor_src_bf16.avg", .unit = "math_op" },
	};
	struct sums s;

	sums_find(measures, 4, &s);
	assert_int_equal(s.flops.n, 2);
	assert_int_equal(s.flops.terms[0], 0);
	assert_int_equal(s.flops.terms[1], 2);
}

static bool is_joined(const struct measure *measures, const char *name)
{
	struct derived_columns c;
	bool joined;

	assert_int_equal(derived_init(&c, measures, 3), 0);
	joined = derived_named(&c, name)->joined;
	derived_deinit(&c);
	return joined;
}

/* Of two groups that took turns no launch has both counters. */
TEST(a_sum_of_turns_is_joined)
{
	struct measure measures[] = {
		{ .name = "time", .unit = "ns", .adds_up = true },
		tensor("sm__ops_path_tensor_src_bf16.sum"),
		tensor("sm__ops_path_tensor_src_fp8.sum"),
	};

	assert_false(is_joined(measures, "flop"));
	measures[1].turn = measures[2].turn = 2;
	assert_false(is_joined(measures, "flop"));
	measures[2].turn = 1;
	assert_true(is_joined(measures, "flop"));
	assert_true(is_joined(measures, "flop_rate"));
	assert_true(is_joined(measures, "of_flop_peak"));
	/* And of one group, with times that are another's. */
	measures[2].turn = 2;
	measures[MEASURE_TIME].turn = 1;
	assert_false(is_joined(measures, "flop"));
	assert_true(is_joined(measures, "flop_rate"));
}

TEST(hit_rates_are_of_the_sums)
{
	const struct measure measures[] = {
		{ .name = "time", .unit = "ns", .adds_up = true },
		{ .name = "lts__t_sectors_lookup_hit.sum", .unit = "sector", .adds_up = true },
		{ .name = "lts__t_sectors_lookup_miss.sum", .unit = "sector", .adds_up = true },
	};
	struct part parts[] = { { 2, 1000 }, { 2, 30 }, { 2, 10 } };
	const struct group row = { .calls = 2, .total_calls = 2, .total = parts, .timed = parts };
	struct derived_columns c;

	assert_int_equal(derived_init(&c, measures, 3), 0);
	assert_int_equal(c.n, 1);
	assert_string_equal(c.items[0].name, "l2_hit_rate");
	assert_string_equal(c.items[0].unit, "percent");
	assert_true(derived_value(&c.items[0], &row) == 75);
	derived_deinit(&c);
	assert_int_equal(derived_init(&c, measures, 2), 0);
	assert_int_equal(c.n, 0);
	derived_deinit(&c);
}

/* --- definitions --- */

enum { BYTES = 1, RATIO, MEASURES };

static const struct measure defined_of[MEASURES] = {
	[MEASURE_TIME] = { "time", "ns", .adds_up = true },
	[BYTES] = { "dram__bytes.sum", "byte", .adds_up = true },
	[RATIO] = { "sm__busy.avg.pct", "percent" },
};

/* A row whose launches with a known time are fewer than all. */
static struct part total[MEASURES] = { { 4, 2000 }, { 5, 600 }, { 5, 250 } };
static struct part timed[MEASURES] = { { 4, 2000 }, { 4, 400 }, { 4, 160 } };
static const struct group row = {
	.total = total, .timed = timed, .calls = 5, .total_calls = 5, .total_peak_bytes = 1600
};

/* The last of these definitions, and why it is refused. */
static int define(struct derived_columns *c, const char *const *definitions, struct buf *why)
{
	int r = derived_init(c, defined_of, MEASURES);

	for (; *definitions && r == 0; definitions++) {
		r = derived_define(c, *definitions, why);
	}
	return r;
}

static void expect_column(const char *definition, double value, const char *unit)
{
	struct derived_columns c;
	struct buf why = { 0 };
	double got;

	if (define(&c, (const char *const[]){ definition, NULL }, &why)) {
		fail_msg("%s is refused: %s", definition, buf_string(&why));
	}
	got = derived_value(&c.items[c.n - 1], &row);
	if (isnan(value) ? !isnan(got) : !(fabs(got - value) <= 1e-12 * fabs(value))) {
		fail_msg("%s is %g, not %g", definition, got, value);
	}
	assert_string_equal(c.items[c.n - 1].unit, unit);
	derived_deinit(&c);
}

static void expect_refusal(const char *definition, const char *expected)
{
	struct derived_columns c;
	struct buf why = { 0 };
	int r = define(&c, (const char *const[]){ definition, NULL }, &why);

	if (r != -EINVAL || strcmp(buf_string(&why), expected) != 0) {
		fail_msg("%s: %s", definition, buf_string(&why));
	}
	buf_deinit(&why);
	derived_deinit(&c);
}

TEST(expressions_are_sql_of_real_numbers)
{
	expect_column("x=1 + 2 * 3", 7, "");
	expect_column("x=(1 + 2) * 3", 9, "");
	expect_column("x=1 / 2", 0.5, "");
	expect_column("x=- 3 * -2e0", 6, "");
	expect_column("x=1 / 0", NAN, "");
	expect_column("x=1e308 * 10", NAN, "");
	expect_column("x=max(1, dram__bytes)", 600, "");
	expect_column("x=CASE WHEN dram__bytes > 5 THEN 2 END", 2, "");
	expect_column("x=NULL", NAN, "");
	expect_column("x = 1", 1, "");
	expect_column(" x [byte/second] = 1", 1, "byte/second");
}

/* Each launch counts, but where time is in it: then those whose time is known. */
TEST(values_are_of_the_launches_that_have_all_of_them)
{
	expect_column("x=dram__bytes.sum", 600, "");
	expect_column("x=bytes", 600, "");
	expect_column("x[byte]=dram__bytes / launches", 120, "byte");
	expect_column("x[second]=time / launches", 2000e-9 / 4, "second");
	expect_column("x=dram__bytes / time", 400 / 2000e-9, "");
	expect_column("x=dram__bytes / peak_bytes", 400 / 1600.0, "");
	expect_column("x=sm__busy.avg.pct", 50, "");
	expect_column("x=sm__busy.avg.pct * time / time", 40, "");
}

TEST(columns_build_on_those_before)
{
	static const char *const two[] = { "half=bytes - 300", "rate=half / time", NULL };
	static const char *const long_ones[] = {
		"a=bytes*bytes*bytes*bytes*bytes*bytes*bytes*bytes*bytes*bytes*bytes*bytes",
		"b=a*a*a*a*a*a*a*a*a*a*a*a*a*a",
		"c=b*b*b*b*b*b*b*b*b*b*b*b*b*b*b*b*b*b*b*b*b*b*b*b*b*b", NULL
	};
	struct derived_columns c;
	struct buf why = { 0 };

	assert_int_equal(define(&c, two, &why), 0);
	assert_true(derived_value(derived_named(&c, "half"), &row) == 300);
	assert_true(fabs(derived_value(derived_named(&c, "rate"), &row) / (100 / 2000e-9) - 1) <
		    1e-12);
	derived_deinit(&c);
	assert_int_equal(define(&c, long_ones, &why), -EINVAL);
	assert_non_null(strstr(buf_string(&why), "column 'c': it is too long"));
	buf_deinit(&why);
	derived_deinit(&c);
}

/* A value that is not there of each launch. */
TEST(what_is_missing_is_not_known)
{
	static const char *const one[] = { "x=dram__bytes * 2", NULL };
	struct part gaps[MEASURES];
	struct group with_gaps = row;
	struct derived_columns c;

	memcpy(gaps, total, sizeof(gaps));
	gaps[BYTES].n = 4;
	with_gaps.total = gaps;
	assert_int_equal(define(&c, one, NULL), 0);
	assert_true(derived_value(derived_named(&c, "x"), &row) == 1200);
	assert_true(isnan(derived_value(derived_named(&c, "x"), &with_gaps)));
	derived_deinit(&c);
}

/* Each error changes the value by as much as the value changes with its operand. */
TEST(a_definition_has_its_error)
{
	static const char *const one[] = { "x=100 - 2 * dram__bytes", "y=1 / dram__bytes", NULL };
	static const double errors[MEASURES] = { [BYTES] = 6 };
	struct group sampled = row;
	struct derived_columns c;

	sampled.total_error = errors;
	assert_int_equal(define(&c, one, NULL), 0);
	assert_true(fabs(derived_figure(derived_named(&c, "x"), &sampled).error - 12) < 1e-6);
	assert_true(fabs(derived_figure(derived_named(&c, "y"), &sampled).error * 60000 - 1) <
		    1e-6);
	derived_deinit(&c);
}

TEST(what_is_wrong_is_told_with_column_and_text)
{
	static const char form[] = "a column is NAME=EXPRESSION or NAME[UNIT]=EXPRESSION";
	static const char there[] = "a column of this name is there already";
	static const char *const bare[] = { "own.columns", "x", "3=x", "x[byte=3", "=3", "" };
	static const char *const taken[] = { "time=1", "launches=1", "dram__bytes=1",
					     "dram_bandwidth = 1" };
	struct buf text = { 0 };

	for (size_t i = 0; i < sizeof(bare) / sizeof(*bare); i++) {
		buf_clear(&text);
		buf_printf(&text, "'%s': %s", bare[i], form);
		expect_refusal(bare[i], buf_string(&text));
	}
	for (size_t i = 0; i < sizeof(taken) / sizeof(*taken); i++) {
		buf_clear(&text);
		buf_printf(&text, "'%s': %s", taken[i], there);
		expect_refusal(taken[i], buf_string(&text));
	}
	buf_deinit(&text);
	expect_refusal("x=1 +", "column 'x': incomplete input: '1 +'");
	expect_refusal("x=1, 2", "column 'x': it is more than one expression: '1, 2'");
	expect_refusal("x=foo(1)", "column 'x': no such function: foo: 'foo(1)'");
	expect_refusal("x=dram__byte / 2", "column 'x': the captures have no 'dram__byte'; did you "
					   "mean 'dram__bytes.sum'?");
	expect_refusal("x=nothing_like_it", "column 'x': the captures have no 'nothing_like_it'");
	expect_refusal("x=flops", "column 'x': the captures have no 'flops'");
	expect_refusal("x=1; DROP", "column 'x': an expression ends before '; DROP'");
	expect_refusal("x='a'", "column 'x': an expression ends before ''a''");
	expect_refusal("x=\033[2J", "column 'x': an expression ends before '\\x1b[2J'");
}
