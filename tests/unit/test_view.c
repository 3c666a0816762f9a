/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/made_site.h"
#include "tests/unit/unit.h"

#include <math.h>

#include "client/report/groups_internal.h"
#include "client/report/view.h"

/* A few records that are written out, and the rows and their order that follow. */

static struct attributor *attributor;

static const struct gpuctr_column columns[] = {
	{ .name = "dram__bytes.sum", .unit = "byte" },
	{ .name = "sm__busy.avg.pct", .unit = "percent" },
};
static const struct gpuctr_column sectors[] = { { .name = "dram__bytes.sum", .unit = "sector" } };
static const struct gpuctr_plan plan = { .chip = "GH100", .columns = columns, .n_columns = 2 };
static const struct gpuctr_plan other_plan = { .chip = "GH100",
					       .columns = sectors,
					       .n_columns = 1 };

static struct groups *begin(const char *by, const struct gpuctr_plan *p)
{
	struct groups *g;
	struct keys keys;

	assert_true(keys_parse(by, &keys, NULL));
	g = groups_new(&keys);
	assert_non_null(g);
	assert_int_equal(groups_begin(g, p, "run.gpuctr", NULL), 0);
	return g;
}

static void add_process(struct groups *g, unsigned process, const char *const *claims, size_t n)
{
	static const struct gpuctr_device device = {
		.uuid = "GPU-1", .name = "NVIDIA H200", .chip = "GH100", .clock_mem_mhz = 3201
	};

	assert_int_equal(groups_process(g, &(struct gpuctr_process){ .process = process,
								     .program = "p",
								     .claims = claims,
								     .n_claims = n,
								     .devices = &device,
								     .n_devices = 1 }),
			 0);
}

/* Kernels are numbered by their process. */
static void add(struct groups *g, unsigned process, unsigned id, const char *kernel,
		const struct made_site *range, int64_t ns, double bytes, double busy)
{
	const struct gpuctr_kernel k = { .name = kernel, .mangled = "", .id = id };
	const double values[] = { bytes, busy };
	struct gpuctr_record record = { .process = process,
					.kernel = &k,
					.grid = { 1000, 1, 1 },
					.block = { 32, 1, 1 },
					.clock = GPUCTR_CLOCK_GPU,
					.duration_ns = ns,
					.values = values };
	struct attribution what;

	put_into(&record, range);
	assert_int_equal(attributor_take(attributor, &record, &what), 0);
	assert_int_equal(groups_record(g, &record, &what), 0);
}

static struct view open_view(struct groups *g, const struct view_options *options)
{
	struct view v;

	assert_int_equal(groups_finish(g), 0);
	assert_int_equal(view_init(&v, g, options, NULL), 0);
	return v;
}

/* The rows' first labels in their order. */
static void expect_rows(const struct view *v, const char *expected)
{
	char text[512] = "";

	for (size_t i = 0; i < v->n_shown; i++) {
		size_t n = strlen(text);

		snprintf(text + n, sizeof(text) - n, "%s%s", i > 0 ? " " : "",
			 *v->rows[i]->labels[0] ? v->rows[i]->labels[0] : "-");
	}
	assert_string_equal(text, expected);
}

static const struct group *find_row(const struct view *v, const char *label)
{
	for (size_t i = 0; i < v->n_rows; i++) {
		if (strcmp(v->rows[i]->labels[0], label) == 0) {
			return v->rows[i];
		}
	}
	fail_msg("there is no row %s", label);
	return NULL;
}

/* --- order and choice --- */

TEST(zeros_are_left_out_however_long_they_took)
{
	const struct view_options all = { 0 }, some = { .skip_zero = true };
	struct groups *g = begin("kernel", &plan);
	struct view v;

	add(g, 1, 1, "works", NULL, 10, 32, 0);
	add(g, 1, 2, "idles", NULL, 500, 0, 0);
	add(g, 1, 3, "spins", NULL, 100, 0, 7);
	v = open_view(g, &all);
	expect_rows(&v, "idles spins works");
	view_deinit(&v);
	v = open_view(g, &some);
	expect_rows(&v, "spins works");
	assert_int_equal(v.n_zero, 1);
	view_deinit(&v);
	groups_free(g);
}

/* Of one launch or of all; that a capture it is compared with has no such counter is no reason. */
TEST(what_is_not_known_is_not_zero)
{
	struct groups *g = begin("kernel", &plan), *before = begin("kernel", &plan);
	const struct view_options some = { .skip_zero = true },
				  against = { .skip_zero = true, .against = before };
	struct view v;

	add(g, 1, 1, "idles", NULL, 500, 0, 0);
	add(g, 1, 2, "hides", NULL, 400, NAN, NAN);
	add(g, 1, 3, "half", NULL, 300, 0, NAN);
	add(g, 1, 4, "once", NULL, 100, 0, 0);
	add(g, 1, 4, "once", NULL, 100, NAN, 0);
	add(before, 1, 1, "idles", NULL, 500, 0, NAN);
	v = open_view(g, &some);
	expect_rows(&v, "hides half once");
	assert_int_equal(v.n_zero, 1);
	view_deinit(&v);
	assert_int_equal(groups_finish(before), 0);
	v = open_view(g, &against);
	assert_int_equal(v.n_zero, 1);
	view_deinit(&v);
	groups_free(g);
	groups_free(before);
}

TEST(ratios_are_sorted_by_their_mean)
{
	const struct view_options options = { .sort = "sm__busy" };
	struct groups *g = begin("kernel", &plan);
	struct view v;

	for (unsigned i = 0; i < 3; i++) {
		add(g, 1, 1, "often", NULL, 10, 0, 10);
	}
	add(g, 1, 2, "once", NULL, 10, 0, 20);
	v = open_view(g, &options);
	expect_rows(&v, "once often");
	view_deinit(&v);
	groups_free(g);
}

/* --- comparison --- */

TEST(what_has_changed_most_comes_first)
{
	struct groups *before = begin("kernel", &plan), *now = begin("kernel", &plan);
	struct view_options options = { .sort = "dram__bytes.sum:change", .against = before };
	struct view v;

	add(before, 1, 1, "less", NULL, 10, 100, 0);
	add(now, 1, 1, "less", NULL, 10, 10, 0);
	add(before, 1, 2, "more", NULL, 10, 10, 0);
	add(now, 1, 2, "more", NULL, 10, 60, 0);
	add(now, 1, 3, "new", NULL, 10, 70, 0);
	add(before, 1, 4, "same", NULL, 10, 1000, 0);
	add(now, 1, 4, "same", NULL, 10, 1000, 0);
	assert_int_equal(groups_finish(before), 0);
	v = open_view(now, &options);
	expect_rows(&v, "less new more same");
	view_deinit(&v);
	groups_free(before);
	groups_free(now);
}

TEST(counters_in_other_units_are_not_compared)
{
	struct groups *before = begin("kernel", &other_plan), *now = begin("kernel", &plan);
	struct view_options options = { .against = before };
	struct view v;

	add(before, 1, 1, "k", NULL, 10, 100, 0);
	add(now, 1, 1, "k", NULL, 30, 10, 0);
	assert_int_equal(groups_finish(before), 0);
	v = open_view(now, &options);
	assert_true(fields_value(FIELD_BEFORE, &v.measures[0], 0, v.rows[0], v.all) == 10);
	assert_int_equal(v.rows[0]->before->total[1].n, 0);
	view_deinit(&v);
	groups_free(before);
	groups_free(now);
}

/* --- whose records --- */

static void add_of_launch(struct groups *g, unsigned launch, const char *kernel, unsigned graph,
			  int64_t step)
{
	const struct gpuctr_kernel k = { .name = kernel, .mangled = "", .id = 1 };
	const double values[] = { 0, 0 };
	const struct gpuctr_record record = { .process = 1,
					      .kernel = &k,
					      .kind = graph ? GPUCTR_LAUNCH_GRAPH_KERNEL
							    : GPUCTR_LAUNCH_KERNEL,
					      .graph = graph,
					      .values = values };
	const struct attribution what = {
		.layer = "", .step = "step", .step_number = step, .launch = launch
	};

	assert_int_equal(groups_record(g, &record, &what), 0);
}

/* What is kept of a launch is of no other number, capture, graph or step. */
TEST(what_is_kept_is_of_its_launch)
{
	static const char *const by[] = { "kernel", "kernel,graph,step" };
	static const size_t rows[] = { 3, 5 };

	for (size_t i = 0; i < 2; i++) {
		struct groups *g = begin(by[i], &plan);
		struct group **found;

		add_of_launch(g, 1, "a", 0, 1);
		add_of_launch(g, 1 + GROUPS_LAUNCHES, "b", 0, 1); /* where the first is kept */
		add_of_launch(g, 1, "a", 0, 1);
		add_of_launch(g, 1, "a", 0, 2);
		add_of_launch(g, 1, "a", 7, 2);
		add_of_launch(g, 1, "a", 0, 1);
		assert_int_equal(groups_begin(g, &plan, "second.gpuctr", NULL), 0);
		add_of_launch(g, 1, "c", 0, 1);
		assert_int_equal(groups_finish(g), 0);
		assert_int_equal(groups_rows(g, &found), rows[i]);
		assert_int_equal(found[0]->calls, i ? 3 : 5);
		groups_free(g);
	}
}

/* A process may be announced again, with other devices. */
TEST(what_is_kept_has_the_devices_of_its_process)
{
	const struct gpuctr_process without_devices = { .process = 1, .program = "p" };
	struct groups *g = begin("device", &plan);
	struct group **found;

	add_process(g, 1, NULL, 0);
	add_of_launch(g, 1, "a", 0, 1);
	assert_int_equal(groups_process(g, &without_devices), 0);
	add_of_launch(g, 1, "a", 0, 1);
	assert_int_equal(groups_finish(g), 0);
	assert_int_equal(groups_rows(g, &found), 2);
	assert_int_equal(found[0]->small, 1);
	assert_int_equal(found[1]->small, 0);
	groups_free(g);
}

TEST(a_capture_without_a_host_has_none)
{
	const struct view_options options = { .sort = "name" };
	struct groups *g = begin("host", &plan);
	struct view v;

	assert_int_equal(groups_host(g, "n1"), 0);
	add(g, 1, 1, "a", NULL, 10, 0, 0);
	assert_int_equal(groups_begin(g, &plan, "second.gpuctr", NULL), 0);
	add(g, 1, 1, "a", NULL, 10, 0, 0);
	v = open_view(g, &options);
	expect_rows(&v, "- n1");
	view_deinit(&v);
	groups_free(g);
}

/* torchrun's rank is another number than that of the task that Slurm has started. */
TEST(tasks_are_not_ranks)
{
	static const char *const claims[] = { "SLURM_PROCID=1", "RANK=3" };
	const struct view_options options = { 0 };
	struct groups *g = begin("task,rank", &plan);
	struct view v;

	add_process(g, 1, claims, 2);
	add(g, 1, 1, "a", NULL, 10, 0, 0);
	v = open_view(g, &options);
	expect_rows(&v, "task 1");
	assert_string_equal(v.rows[0]->labels[1], "rank 3");
	view_deinit(&v);
	groups_free(g);
}

/* --- layers --- */

/* What is in no layer is around the layers, and holds nothing of theirs. */
TEST(a_layer_is_in_no_row_without_a_layer)
{
	struct made_site outside, layer, op;
	const struct view_options options = { 0 };
	struct groups *g = begin("layer", &plan);
	struct view v;

	make_site(&outside, NULL, 1, "iteration 1");
	make_site(&layer, &outside, 2, "layer1.conv");
	make_site(&op, &layer, 3, "aten::mm, seq = 1, op_id = 1, sizes = [[8, 8]]");
	add(g, 1, 1, "gemm", &op, 100, 5, 0);
	add(g, 1, 2, "copy", &outside, 30, 7, 0);
	v = open_view(g, &options);
	assert_int_equal(find_row(&v, "layer1.conv")->total_calls, 1);
	assert_int_equal(find_row(&v, "")->total_calls, 1);
	assert_true(find_row(&v, "")->total[1].sum == 7);
	view_deinit(&v);
	groups_free(g);
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
