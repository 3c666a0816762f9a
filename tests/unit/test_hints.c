/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/made_site.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/report/hints.h"

/* Kernels of an H200, whose memory moves 4,917 GB/s and whose tensor cores do 1.07 PFLOP/s in bf16,
 * and what is said of them. */

static struct attributor *attributor;

static const double errors[2];
static const struct gpuctr_column columns[] = {
	{ .name = "dram__bytes.sum", .unit = "byte" },
	{ .name = "sm__ops_path_tensor_src_bf16_dst_fp32.sum", .unit = "" },
};

struct made {
	struct hints *hints;
	struct groups *groups;
	const double *errors; /* of the values; NULL: these are counted */
};

/* One column: operations are not counted. */
static struct made begin(const char *by, size_t n_columns)
{
	static const struct gpuctr_device device = { .uuid = "GPU-1",
						     .name = "NVIDIA H200",
						     .chip = "GH100",
						     .clock_sm_mhz = 1980,
						     .clock_mem_mhz = 3201 };
	const struct gpuctr_process process = {
		.process = 1, .program = "p", .devices = &device, .n_devices = 1
	};
	const struct gpuctr_plan plan = { .chip = "GH100",
					  .columns = columns,
					  .n_columns = n_columns };
	struct made m = { 0 };
	struct keys keys;

	assert_true(keys_parse(by, &keys, NULL));
	m.groups = groups_new(&keys);
	assert_non_null(m.groups);
	m.hints = hints_new(m.groups);
	assert_int_equal(groups_begin(m.groups, &plan, "run.gpuctr", NULL), 0);
	assert_int_equal(groups_process(m.groups, &process), 0);
	return m;
}

struct launch {
	unsigned id;
	const char *kernel;
	unsigned blocks;
	int64_t ns;
	double bytes, operations;
	const struct made_site *range;
	bool ranged;
};

static void add(struct made *m, struct launch l)
{
	const struct gpuctr_kernel kernel = { .name = l.kernel, .mangled = "", .id = l.id };
	const double values[] = { l.bytes, l.operations };
	struct gpuctr_record record = { .process = 1,
					.kernel = &kernel,
					.grid = { l.blocks ? l.blocks : 1000, 1, 1 },
					.block = { 32, 1, 1 },
					.clock = l.ranged ? GPUCTR_CLOCK_RANGE : GPUCTR_CLOCK_GPU,
					.duration_ns = l.ns,
					.values = values,
					.errors = m->errors };
	struct attribution what;

	put_into(&record, l.range);
	assert_int_equal(attributor_take(attributor, &record, &what), 0);
	hints_record(m->hints, &record);
	assert_int_equal(groups_record(m->groups, &record, &what), 0);
}

/* These, with as many lines, and no others. */
static void expect_hints(struct made *m, const char *const *expected)
{
	const struct view_options options = { 0 };
	const struct hint *items;
	struct buf b = { 0 };
	struct view v;
	size_t n, left_out, wanted = 0;

	assert_int_equal(groups_finish(m->groups), 0);
	assert_int_equal(view_init(&v, m->groups, &options, NULL), 0);
	assert_int_equal(hints_find(m->hints, &v), 0);
	n = hints_list(m->hints, &items, &left_out);
	hints_print(m->hints, 2000, &b);
	for (; expected[wanted]; wanted++) {
		if (!strstr(buf_string(&b), expected[wanted])) {
			fail_msg("no '%s' in:\n%s", expected[wanted], buf_string(&b));
		}
	}
	if (n + (left_out > 0) != wanted) {
		fail_msg("%zu hints, and %zu expected:\n%s", n, wanted, buf_string(&b));
	}
	buf_deinit(&b);
	view_deinit(&v);
	m->groups = groups_free(m->groups);
	m->hints = hints_free(m->hints);
}

/* --- roofs --- */

/* 57 % and 63 % of what the memory moves. */
TEST(memory_is_a_bound_from_60_percent_on)
{
	struct made m = begin("kernel", 2);

	add(&m, (struct launch){ .id = 1, .kernel = "near", .ns = 1000, .bytes = 3100000 });
	add(&m, (struct launch){ .id = 2, .kernel = "far", .ns = 1000, .bytes = 2800000 });
	expect_hints(&m,
		     (const char *[]){
			     "hint: near, grid 1000x1x1 block 32x1x1: moves 3.10 MB (53% "
			     "of all) in 1.00 us, at 63% of the memory's peak: bound by memory "
			     "(limit: 60%): fuse ",
			     "hint: far, grid 1000x1x1 block 32x1x1: moves 2.80 MB (47% of all) "
			     "in 1.00 us, at 57% of the memory's peak: bound by latency, at "
			     "0% of the tensor cores' peak (both below 60%): run more warps",
			     NULL });
}

/* Of samples the shortest launches have no value, and still take their time: what nobody told is
 * not shown as bytes. */
TEST(bytes_and_time_are_of_the_same_launches)
{
	struct made m = begin("kernel", 2);

	m.errors = errors;
	for (int i = 0; i < 4; i++) {
		add(&m, (struct launch){ .id = 1,
					 .kernel = "part",
					 .ns = 1000,
					 .bytes = i == 0 ? 1000000 : NAN });
	}
	add(&m, (struct launch){ .id = 2, .kernel = "whole", .ns = 1000, .bytes = 1000000 });
	expect_hints(&m, (const char *[]){ "hint: part, grid 1000x1x1 block 32x1x1: moves "
					   "1.00 MB (50% of all) in 1.00 us (of 4.00 us, the rest "
					   "without a value), at 20% of the memory",
					   "hint: whole", NULL });
}

/* Of counted values nobody knows what the others did. */
TEST(bytes_of_some_launches_are_not_told)
{
	struct made m = begin("kernel", 2);

	add(&m, (struct launch){ .id = 1, .kernel = "part", .ns = 1000, .bytes = 9000000 });
	add(&m, (struct launch){ .id = 1, .kernel = "part", .ns = 1000, .bytes = NAN });
	add(&m, (struct launch){ .id = 2, .kernel = "whole", .ns = 1000, .bytes = 1000000 });
	expect_hints(&m, (const char *[]){ "hint: whole, grid 1000x1x1 block 32x1x1: moves "
					   "1.00 MB in 1.00 us, at 20% of the memory",
					   NULL });
}

/* What reaches the peak of the tensor cores does not wait. */
TEST(what_computes_does_not_wait)
{
	struct made m = begin("kernel", 2);

	add(&m, (struct launch){
			.id = 1, .kernel = "gemm", .ns = 1000, .bytes = 100, .operations = 8e8 });
	add(&m, (struct launch){
			.id = 2, .kernel = "small", .ns = 1000, .bytes = 90, .operations = 4e8 });
	expect_hints(&m, (const char *[]){ "hint: small, grid 1000x1x1 block 32x1x1: moves 90 B "
					   "(47% of all) in 1.00 us, at 0% of the memory's peak: "
					   "bound by latency, at 37% of the tensor cores' peak",
					   NULL });
}

/* Who did not count operations is not told that a product waits. */
TEST(what_was_not_counted_is_not_judged)
{
	struct made m = begin("kernel", 1);

	add(&m, (struct launch){ .id = 1, .kernel = "gemm", .ns = 1000, .bytes = 1000 });
	add(&m, (struct launch){ .id = 2, .kernel = "other", .ns = 1000, .bytes = 900 });
	expect_hints(&m, (const char *[]){ NULL });
}

/* Together the launches are at 45 %: neither shape is. */
TEST(launch_shapes_are_judged_apart)
{
	struct made m = begin("kernel", 2);

	add(&m, (struct launch){
			.id = 1, .kernel = "k", .blocks = 5000, .ns = 1000, .bytes = 4000000 });
	add(&m,
	    (struct launch){ .id = 1, .kernel = "k", .blocks = 700, .ns = 1000, .bytes = 400000 });
	add(&m,
	    (struct launch){ .id = 1, .kernel = "k", .blocks = 20, .ns = 1000, .bytes = 400000 });
	expect_hints(&m, (const char *[]){
				 "hint: k, grid 5000x1x1 block 32x1x1: moves 4.00 MB (83% of "
				 "all) in 1.00 us, at 81% of the memory's peak: bound by memory",
				 "hint: k, grid 700x1x1 block 32x1x1: moves 400 kB (8% of all) in "
				 "1.00 us, at 8% of the memory's peak: bound by latency",
				 "hint: k, grid 20x1x1 block 32x1x1: moves 400 kB (8% of all) in "
				 "1.00 us, at 8% of the memory's peak: 1 of 1 launches have fewer "
				 "blocks than the device has multiprocessors",
				 NULL });
}

/* A range is longer than its kernel, which may be near the peak: nothing follows, so no hint. */
TEST(times_of_ranges_tell_no_latency)
{
	struct made m = begin("kernel", 2);

	add(&m, (struct launch){
			.id = 1, .kernel = "one", .ns = 1000, .bytes = 900000, .ranged = true });
	add(&m, (struct launch){
			.id = 2, .kernel = "two", .ns = 1000, .bytes = 800000, .ranged = true });
	expect_hints(&m, (const char *[]){ NULL });
}

/* --- which --- */

/* Of the time of all, five in a hundred. */
TEST(what_takes_little_time_is_not_told)
{
	struct made m = begin("kernel", 2);

	add(&m, (struct launch){ .id = 1, .kernel = "long", .ns = 9600, .bytes = 100000 });
	add(&m, (struct launch){ .id = 2, .kernel = "short", .ns = 400, .bytes = 1700000 });
	expect_hints(&m, (const char *[]){ "hint: long", NULL });
}

/* Shapes beyond those that are told apart are not judged, and those before still are. */
TEST(memory_does_not_grow_with_shapes)
{
	enum { SHAPES = 40000 };
	struct made m = begin("kernel", 2);

	add(&m, (struct launch){ .id = 1, .kernel = "first", .ns = 100000, .bytes = 10 });
	for (unsigned i = 0; i < SHAPES; i++) {
		add(&m, (struct launch){
				.id = 2, .kernel = "k", .blocks = 1000 + i, .ns = 10, .bytes = 1 });
	}
	add(&m, (struct launch){ .id = 1, .kernel = "first", .ns = 100000, .bytes = 10 });
	add(&m,
	    (struct launch){ .id = 3, .kernel = "last", .blocks = 7, .ns = 100000, .bytes = 100 });
	expect_hints(&m, (const char *[]){ "hint: first, grid 1000x1x1 block 32x1x1: moves "
					   "20 B (0% of all) in 200 us",
					   NULL });
}

/* Each takes 1 %, and all of them 25. */
TEST(small_launches_are_told_together)
{
	struct made m = begin("kernel", 2);

	add(&m, (struct launch){ .id = 1, .kernel = "large", .ns = 7500, .bytes = 30000000 });
	for (unsigned i = 0; i < 25; i++) {
		char name[16];

		snprintf(name, sizeof(name), "small%u", i);
		add(&m, (struct launch){
				.id = i + 2, .kernel = name, .blocks = 8, .ns = 100, .bytes = 1 });
	}
	expect_hints(&m, (const char *[]){
				 "hint: large",
				 "hint: kernels below 5% of the time: 25 launches, which take 25% "
				 "of the time (limit: 20%), have fewer blocks than",
				 NULL });
}

TEST(those_that_are_too_many_are_counted)
{
	struct made m = begin("kernel", 2);

	for (unsigned i = 0; i < HINTS_MAX + 2; i++) {
		char name[16];

		snprintf(name, sizeof(name), "kernel%u", i);
		add(&m,
		    (struct launch){ .id = i + 1, .kernel = name, .ns = 1000, .bytes = 4000000 });
	}
	expect_hints(&m, (const char *[]){ "hint: kernel0", "hint: kernel1", "hint: kernel2",
					   "hint: kernel3", "hint: kernel4", "hint: kernel5",
					   "2 more hints are not shown\n", NULL });
}

/* --- operators --- */

/* Lives until the next one with this id. */
static const struct made_site *operator_range(unsigned id, const char *text)
{
	static struct made_site sites[8];

	make_site(&sites[id], NULL, id, text);
	return &sites[id];
}

static void expect_of_operators(const char *by, double operations, const char *first,
				const char *second)
{
	const struct made_site *odd =
		operator_range(1, "aten::mm, seq = 1, op_id = 1, sizes = [[16, 7], [7, 16]]");
	const struct made_site *even =
		operator_range(2, "aten::addmm, seq = 2, op_id = 2, sizes = [[1, 8], [16, 24]]");
	const struct made_site *no_product =
		operator_range(3, "aten::relu, seq = 3, op_id = 3, sizes = [[7, 7]]");
	const struct made_site *image =
		operator_range(4, "aten::cudnn_convolution, seq = 4, op_id = 4, sizes = [[7, 3, 9, "
				  "9], [64, 3, 7, 7]]");
	const struct made_site *batch =
		operator_range(5, "aten::cudnn_convolution, seq = 5, op_id = 5, sizes = [[7, 64, "
				  "9, 9], [64, 64, 3, 3]]");
	const struct made_site *const ranges[] = { odd, odd, even, no_product, image, batch };
	struct made m = begin(by, 2);

	for (unsigned i = 0; i < sizeof(ranges) / sizeof(*ranges); i++) {
		add(&m, (struct launch){ .id = 1,
					 .kernel = "gemm",
					 .ns = 100,
					 .operations = ranges[i] == image ? 0 : operations,
					 .range = ranges[i] });
	}
	expect_hints(&m, (const char *[]){ "hint: gemm, grid", first, second, NULL });
}

/* In each report that has operators, and in none twice. The dimension that counts the images of a
 * batch is not multiplied, and the libraries know images of 3 channels. */
TEST(dimensions_that_eight_does_not_divide_are_told)
{
	static const char says[] = "hint: aten::mm: a dimension of 7, as in [16,7] [7,16], is not "
				   "a multiple of 8";

	expect_of_operators("op", 10, says, NULL);
	expect_of_operators("op,shape", 10, says, NULL);
	expect_of_operators("op,kernel", 10, says, NULL);
	expect_of_operators("kernel", 10, NULL, NULL);
}

/* Its dimensions then matter to nobody. */
TEST(products_without_tensor_cores_are_told)
{
	struct made m = begin("op", 2);
	const struct made_site *odd =
		operator_range(1, "aten::mm, seq = 1, op_id = 1, sizes = [[16, 7], [7, 16]]");
	const struct made_site *image =
		operator_range(6, "aten::cudnn_convolution, seq = 6, op_id = 6, sizes = [[8, 3, 9, "
				  "9], [64, 3, 7, 7]]");

	add(&m, (struct launch){ .id = 1, .kernel = "gemm", .ns = 100, .range = odd });
	add(&m, (struct launch){ .id = 1, .kernel = "gemm", .ns = 100, .range = image });
	expect_hints(&m, (const char *[]){ "hint: gemm, grid",
					   "hint: aten::mm: none of its operations ran on tensor "
					   "cores, as far as these were counted: use bf16",
					   NULL });
	expect_of_operators("op,kernel", 0, NULL, NULL);
}

/* --- launches --- */

static void expect_of_launches(unsigned pause_ns, unsigned n_columns, bool sampled,
			       const char *expected)
{
	const struct gpuctr_kernel kernel = { .name = "k", .mangled = "", .id = 1 };
	const double values[2] = { 0 };
	struct made m = begin("kernel", n_columns);

	for (unsigned i = 0; i < 200; i++) {
		struct gpuctr_record record = { .process = 1,
						.index = i,
						.kernel = &kernel,
						.grid = { 1000, 1, 1 },
						.block = { 32, 1, 1 },
						.clock = GPUCTR_CLOCK_GPU,
						.start_ns = 1000 + i * (4000 + pause_ns),
						.duration_ns = 4000,
						.values = values,
						.errors = sampled ? errors : NULL };

		hints_record(m.hints, &record);
		assert_int_equal(groups_record(m.groups, &record, NULL), 0);
	}
	expect_hints(&m, (const char *[]){ expected, NULL });
}

/* Pauses that are as long as the kernels. Longer ones have other reasons, and those in a capture of
 * ranges are made by measuring. */
TEST(launching_is_told_where_the_gpu_waits_for_it)
{
	static const char says[] = "hint: launches: 199 kernels of 4.00 us on average follow "
				   "pauses that take 60% of the time (limit: 50%)";

	expect_of_launches(6000, 0, false, says);
	expect_of_launches(6000, 1, true, says);
	expect_of_launches(6000, 1, false, NULL);
	expect_of_launches(3000, 0, false, NULL);
	expect_of_launches(200000, 0, false, NULL);
}

static int set_up_attributor(void **state)
{
	(void)state;
	attributor = attributor_new();
	return attributor ? 0 : -1;
}

static int free_attributor(void **state)
{
	(void)state;
	attributor = attributor_free(attributor);
	return 0;
}

TEST_GROUP(set_up_attributor, free_attributor)
