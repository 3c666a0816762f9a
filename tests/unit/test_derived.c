/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <math.h>

#include "client/report/derived.h"
#include "client/report/estimated.h"

/* Which counters are floating-point operations, and what follows from them. */

static struct measure tensor(const char *name)
{
	return (struct measure){ .name = name, .unit = "math_op", .adds_up = true };
}

static const struct derived *find(const struct derived *d, size_t n, enum derived_kind kind)
{
	for (size_t i = 0; i < n; i++) {
		if (d[i].kind == kind) {
			return &d[i];
		}
	}
	return NULL;
}

static void expect_flops(const struct measure *measures, size_t n, const char *expected)
{
	struct buf b = { 0 };

	assert_int_equal(derived_add_flops(measures, n, &b), *expected != '\0');
	assert_string_equal(buf_string(&b), expected);
	buf_deinit(&b);
}

static void all_precisions_are_added_up(void **state)
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
	struct derived d[DERIVED_MAX];
	size_t n = derived_find(measures, 6, d);

	(void)state;
	assert_true(derived_value(find(d, n, DERIVED_FLOP), &row) == 100);
	assert_true(fabs(derived_value(find(d, n, DERIVED_RATE), &row) / 1e8 - 1) < 1e-12);
	assert_true(derived_value(find(d, n, DERIVED_INTENSITY), &row) == 20);
	expect_flops(measures, 6,
		     "of the tensor cores bf16 to fp32, fp16 by hgmma, fp8, "
		     "kineto__cuda_core_flops");
}

/* A part of what is there already would be counted twice; integers have no point. */
static void what_is_in_another_counter_is_not_added(void **state)
{
	const struct measure measures[] = {
		tensor("sm__ops_path_tensor_op_hgmma_src_fp16.sum"),
		tensor("sm__ops_path_tensor_src_fp16.sum"),
		tensor("sm__ops_path_tensor_op_hmma_src_fp16_dst_fp32.sum"),
		tensor("sm__ops_path_tensor_op_hmma_src_fp16_dst_fp32_sparsity_on.sum"),
		tensor("sm__ops_path_tensor_src_int8.sum"),
		{ .name = "sm__ops_path_tensor_src_fp64.avg", .unit = "math_op" },
	};
	struct derived d[DERIVED_MAX];
	size_t n = derived_find(measures, 6, d);

	(void)state;
	assert_null(find(d, n, DERIVED_FLOP));
	assert_int_equal(find(d, n, DERIVED_RATE)->part.n, 1);
	assert_int_equal(find(d, n, DERIVED_RATE)->part.terms[0], 1);
	expect_flops(measures, 6, "of the tensor cores fp16");
	expect_flops(measures + 2, 2, "of the tensor cores fp16 to fp32 by hmma");
	expect_flops(measures + 4, 2, "");
}

/* A mean over units does not add up, so it stands for no sum: neither for its own counter's nor for
 * that of a part. */
static void a_mean_hides_no_sum(void **state)
{
	const struct measure measures[] = {
		tensor("sm__ops_path_tensor_src_fp16.sum"),
		{ .name = "sm__ops_path_tensor_src_fp16.avg", .unit = "math_op" },
		tensor("sm__ops_path_tensor_op_hgmma_src_bf16.sum"),
		{ .name = "sm__ops_path_tensor_src_bf16.avg", .unit = "math_op" },
	};
	struct derived d[DERIVED_MAX];
	size_t n = derived_find(measures, 4, d);
	const struct derived *flop = find(d, n, DERIVED_FLOP);

	(void)state;
	assert_non_null(flop);
	assert_int_equal(flop->part.n, 2);
	assert_int_equal(flop->part.terms[0], 0);
	assert_int_equal(flop->part.terms[1], 2);
}

/* Of two groups that took turns no launch has both counters, and the sum is of totals that know
 * nothing of each other. */
static void a_sum_of_turns_is_joined(void **state)
{
	const struct measure measures[] = {
		{ .name = "time", .unit = "ns", .adds_up = true },
		tensor("sm__ops_path_tensor_src_bf16.sum"),
		tensor("sm__ops_path_tensor_src_fp8.sum"),
	};
	struct estimate_total totals[3] = { { .seen = 9 }, { .seen = 9 }, { .seen = 9 } };
	struct estimate_total kinds[DERIVED_BUILT_IN] = { [DERIVED_FLOP] = { .seen = 9 } };
	struct estimated e = { .total = totals, .derived = kinds };
	const struct group row = { .estimated = &e };
	struct derived d[DERIVED_MAX];
	const struct derived *flop = find(d, derived_find(measures, 3, d), DERIVED_FLOP);

	(void)state;
	assert_false(derived_is_joined(flop, &row));
	kinds[DERIVED_FLOP].unknown = 9;
	assert_true(derived_is_joined(flop, &row));
	totals[2].unknown = 9;
	assert_false(derived_is_joined(flop, &row));
	assert_int_equal(derived_unknown(flop, &row), 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_precisions_are_added_up),
		cmocka_unit_test(what_is_in_another_counter_is_not_added),
		cmocka_unit_test(a_mean_hides_no_sum),
		cmocka_unit_test(a_sum_of_turns_is_joined),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
