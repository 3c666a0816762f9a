/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cupti.h"

#include "proto/base/clock.h"
#include "daemon/gpu/plan.h"
#include "proto/base/blocking.h"
#include "proto/wire/limits.h"

static struct catalogue gh100;

struct fixture {
	struct arena arena;
	struct wire_plan plan;
	struct refusal refusal;
	uint64_t by_ns;
};

static int setup(void **state)
{
	static struct fixture f;

	f = (struct fixture){ .by_ns = UINT64_MAX };
	arena_init(&f.arena, 4 * LIMIT_UNPACKED_BYTES);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	arena_deinit(&((struct fixture *)*state)->arena);
	return 0;
}

static const char *other_chips(void *userdata, struct arena *a, const char *metric)
{
	(void)a;
	return strcmp(metric, userdata) == 0 ? "TU102, GA102" : "";
}

/* wanted: names apart by spaces. */
static int make(struct fixture *f, const char *wanted)
{
	char *copy = strdup(wanted), *save = NULL;
	const char *names[2 * LIMIT_METRICS];
	size_t n = 0;
	int code;

	for (char *name = strtok_r(copy, " ", &save); name; name = strtok_r(NULL, " ", &save)) {
		names[n++] = name;
	}
	code = plan_make(&gh100, &f->arena, &(struct wire_strings){ n, names }, other_chips,
			 (void *)(uintptr_t) "sm__inst_executed_pipe_fp16.sum.on_another", f->by_ns,
			 &f->plan, &f->refusal);
	memset(copy, '#', strlen(wanted)); /* the plan must have its own copies */
	free(copy);
	return code;
}

static const struct wire_column *column(const struct fixture *f, const char *name)
{
	for (size_t i = 0; i < f->plan.columns.n; i++) {
		if (strcmp(f->plan.columns.v[i].name, name) == 0) {
			return &f->plan.columns.v[i];
		}
	}
	return NULL;
}

/* What holds for every plan. */
static void expect_sound(const struct fixture *f)
{
	assert_string_equal(f->plan.chip, "GH100");
	for (size_t i = 0; i < f->plan.metrics.n; i++) {
		assert_true(catalogue_has(&gh100, f->plan.metrics.v[i]));
		for (size_t k = 0; k < i; k++) {
			assert_string_not_equal(f->plan.metrics.v[i], f->plan.metrics.v[k]);
		}
	}
	for (size_t i = 0; i < f->plan.columns.n; i++) {
		const struct wire_column *c = &f->plan.columns.v[i];

		assert_true(c->metric.n > 0);
		assert_int_equal(c->metric.n, c->weight.n);
		assert_true(c->group <= f->plan.groups);
		for (size_t k = 0; k < c->metric.n; k++) {
			assert_true(c->metric.v[k] < f->plan.metrics.n);
		}
		for (size_t k = 0; k < i; k++) {
			assert_string_not_equal(c->name, f->plan.columns.v[k].name);
		}
	}
}

#define FIXTURE_TEST(f) TEST_WITH(f, setup, teardown)

FIXTURE_TEST(duration_could_ride_along_when_it_is_free)
{
	struct fixture *f = *state;

	assert_int_equal(make(f, "dram__bytes_read.sum dram__bytes_write.sum"), 0);
	expect_sound(f);
	assert_int_equal(f->plan.passes, 1);
	assert_int_equal(f->plan.groups, 1);
	assert_int_equal(f->plan.columns.n, 2);
	assert_int_equal(f->plan.metrics.n, 2);
	assert_string_equal(f->plan.columns.v[0].name, "dram__bytes_read.sum");
	assert_string_equal(f->plan.columns.v[1].name, "dram__bytes_write.sum");
	assert_non_null(strstr(f->plan.columns.v[0].unit, "byte"));
	assert_true(f->plan.fits_duration);
}

FIXTURE_TEST(an_asked_duration_is_a_column)
{
	struct fixture *f = *state;

	assert_int_equal(make(f, "gpu__time_duration.sum dram__bytes_read.sum"), 0);
	assert_int_equal(f->plan.columns.n, 2);
	assert_true(f->plan.fits_duration);
}

/* named.c promises it for every preset. */
FIXTURE_TEST(every_preset_fits_into_one_pass)
{
	struct fixture *f = *state;
	unsigned wrong = 0;

	for (size_t i = 0; catalogue_named_at(i); i++) {
		const struct catalogue_named *n = catalogue_named_at(i);

		if (n->kind != GPUCTR_METRIC_PRESET) {
			continue;
		}
		if (make(f, n->name) != 0 || f->plan.passes != 1) {
			print_error("%s: %u passes %s\n", n->name, f->plan.passes,
				    f->refusal.message);
			wrong++;
		}
		expect_sound(f);
	}
	assert_int_equal(wrong, 0);
}

/* As many precisions as the chip counts at once. */
TEST(a_roofline_fits_into_one_pass_of_any_chip)
{
	static const struct {
		const char *chip;
		size_t precisions;
	} chips[] = { { "GV100", 2 }, { "TU102", 2 }, { "GA100", 1 }, { "GA102", 1 },
		      { "GH100", 4 }, { "AD102", 1 }, { "GB100", 1 } };
	const struct wire_strings names = { 1, (const char *[]){ "roofline" } };

	for (size_t i = 0; i < ARRAY_SIZE(chips); i++) {
		struct arena a;
		struct wire_plan plan = { 0 };
		struct refusal r = { 0 };
		struct catalogue c;

		arena_init(&a, 4 * LIMIT_UNPACKED_BYTES);
		assert_int_equal(catalogue_init(&c, &cupti, chips[i].chip, &r), 0);
		if (plan_make(&c, &a, &names, NULL, NULL, UINT64_MAX, &plan, &r) != 0) {
			fail_msg("%s: %s", chips[i].chip, r.message);
		}
		assert_int_equal(plan.passes, 1);
		assert_int_equal(plan.columns.n, chips[i].precisions + 2);
		catalogue_deinit(&c);
		arena_deinit(&a);
	}
}

FIXTURE_TEST(repeats_count_once)
{
	struct fixture *f = *state;

	assert_int_equal(
		make(f, "dram__bytes_read.sum memory dram__bytes_read.sum dram__bytes_read.sum"),
		0);
	expect_sound(f);
	assert_non_null(column(f, "lts__t_sectors_op_read.sum"));
	assert_int_equal(f->plan.columns.n, 4);
}

FIXTURE_TEST(a_derived_name_is_one_weighted_column)
{
	struct fixture *f = *state;
	const struct wire_column *c;
	double sum = 0;

	assert_int_equal(make(f, "kineto__tensor_core_insts"), 0);
	expect_sound(f);
	c = column(f, "kineto__tensor_core_insts");
	assert_non_null(c);
	assert_int_equal(c->metric.n, 1);
	assert_string_equal(f->plan.metrics.v[c->metric.v[0]], "sm__inst_executed_pipe_tensor.sum");
	assert_int_equal(make(f, "kineto__cuda_core_flops"), 0);
	expect_sound(f);
	c = column(f, "kineto__cuda_core_flops");
	assert_non_null(c);
	assert_int_equal(c->metric.n, 9);
	for (size_t i = 0; i < c->weight.n; i++) {
		const char *name = f->plan.metrics.v[c->metric.v[i]];

		assert_true(c->weight.v[i] ==
			    (strstr(name, "fma_") ? 2 : 1)); /* an FMA is two operations */
		sum += c->weight.v[i];
	}
	assert_true(sum == 12);
}

FIXTURE_TEST(too_many_passes_come_in_groups_of_one)
{
	struct fixture *f = *state;

	assert_int_equal(make(f, "dram__bytes_read.sum lts__t_bytes.sum l1tex__t_bytes.sum "
				 "sm__inst_executed.sum "
				 "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum "
				 "sm__inst_executed_pipe_tensor.sum "
				 "dram__throughput.avg.pct_of_peak_sustained_elapsed "
				 "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
			 0);
	expect_sound(f);
	assert_true(f->plan.passes > 1);
	assert_true(f->plan.groups > 1);
	assert_false(f->plan.fits_duration);
	for (uint32_t g = 0; g < f->plan.groups; g++) {
		char names[4096] = "";
		struct fixture one = { .by_ns = UINT64_MAX };
		unsigned n = 0;

		for (size_t i = 0; i < f->plan.columns.n; i++) {
			if (f->plan.columns.v[i].group == g) {
				snprintf(names + strlen(names), sizeof(names) - strlen(names),
					 "%s ", f->plan.columns.v[i].name);
				n++;
			}
		}
		assert_true(n > 0);
		arena_init(&one.arena, 4 * LIMIT_UNPACKED_BYTES);
		assert_int_equal(make(&one, names), 0);
		if (one.plan.passes != 1) {
			fail_msg("group %u (%s) needs %u passes", g, names, one.plan.passes);
		}
		arena_deinit(&one.arena);
	}
	/* What takes several passes by itself is in none of them. */
	assert_int_equal(column(f, "sm__throughput.avg.pct_of_peak_sustained_elapsed")->group,
			 f->plan.groups);
}

/* What a preset stands for is of one group, however the others are packed. */
FIXTURE_TEST(presets_stay_together)
{
	struct fixture *f = *state;
	const struct wire_column *first;

	assert_int_equal(make(f, "lts__t_sectors_op_read.sum l1tex__t_bytes.sum "
				 "sm__inst_executed.sum sm__inst_executed_pipe_tensor.sum "
				 "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum memory"),
			 0);
	expect_sound(f);
	assert_true(f->plan.groups > 1);
	first = column(f, "dram__bytes_read.sum");
	assert_true(first->group < f->plan.groups);
	assert_int_equal(column(f, "dram__bytes_write.sum")->group, first->group);
	assert_int_equal(column(f, "lts__t_sectors_op_write.sum")->group, first->group);
}

/* A group whose ranges are dear has no metrics that could be had for less. */
FIXTURE_TEST(dear_metrics_are_in_groups_of_their_own)
{
	bool blocks[LIMIT_GROUPS] = { false }, is_known[LIMIT_GROUPS] = { false };
	struct fixture *f = *state;
	unsigned n_cheap = 0;

	assert_int_equal(make(f, "sm__inst_executed.sum dram__bytes_read.sum l1tex__t_bytes.sum "
				 "lts__t_bytes.sum sm__inst_executed_pipe_tensor.sum "
				 "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum "
				 "dram__bytes_write.sum lts__t_sectors_op_read.sum"),
			 0);
	expect_sound(f);
	assert_true(f->plan.groups > 1 && f->plan.groups <= LIMIT_GROUPS);
	for (size_t i = 0; i < f->plan.columns.n; i++) {
		const struct wire_column *c = &f->plan.columns.v[i];
		bool dear = metric_blocks(c->name);

		assert_true(c->group < f->plan.groups);
		assert_true(!is_known[c->group] || blocks[c->group] == dear);
		is_known[c->group] = true;
		blocks[c->group] = dear;
	}
	for (uint32_t g = 0; g < f->plan.groups; g++) {
		n_cheap += !blocks[g];
	}
	assert_true(n_cheap > 0 && n_cheap < f->plan.groups);
}

#ifndef __SANITIZE_ADDRESS__ /* half a minute of its time would go into what CUPTI allocates */
/* Appends the sums of the first n that the chip has of a unit. */
static void append_sums(char *names, const char *unit, size_t n)
{
	for (size_t i = 0; n > 0; i++) {
		char full[LIMIT_NAME_BYTES];

		assert_true(i < gh100.n_bases);
		snprintf(full, sizeof(full), "%s.sum", gh100.bases[i].name);
		if (strncmp(full, unit, strlen(unit)) == 0 && catalogue_has(&gh100, full)) {
			strcat(strcat(names, full), " ");
			n--;
		}
	}
}

static uint32_t count_groups(struct fixture *f, const char *names)
{
	assert_int_equal(make(f, names), 0);
	expect_sound(f);
	return f->plan.groups;
}

/* Apart they would be more than can take turns, and then cheap ones ride along with dear ones. */
FIXTURE_TEST(more_groups_than_turns_are_mixed)
{
	enum { DEAR = 52, CHEAP = 36 };
	bool dear[LIMIT_GROUPS] = { false }, cheap[LIMIT_GROUPS] = { false };
	char *l1 = calloc(LIMIT_METRICS, LIMIT_NAME_BYTES),
	     *l2 = calloc(LIMIT_METRICS, LIMIT_NAME_BYTES);
	struct fixture *f = *state;
	unsigned n_mixed = 0;
	uint32_t apart;

	append_sums(l1, "l1tex__", DEAR);
	append_sums(l2, "lts__", CHEAP);
	apart = count_groups(f, l1) + count_groups(f, l2);
	assert_in_range(apart, LIMIT_GROUPS + 1, 2 * LIMIT_GROUPS);
	strcat(l1, l2);
	assert_in_range(count_groups(f, l1), 2, LIMIT_GROUPS);
	for (size_t i = 0; i < f->plan.columns.n; i++) {
		const struct wire_column *c = &f->plan.columns.v[i];

		if (c->group < f->plan.groups) { /* else it needs several passes by itself */
			(metric_blocks(c->name) ? dear : cheap)[c->group] = true;
		}
	}
	for (uint32_t g = 0; g < f->plan.groups; g++) {
		n_mixed += dear[g] && cheap[g];
	}
	assert_true(n_mixed > 0);
	free(l1);
	free(l2);
}
#endif

/* --- refusals --- */

/* A plan of 234 columns took 7 s: the others wait meanwhile. */
FIXTURE_TEST(a_plan_has_a_deadline)
{
	struct fixture *f = *state;

	f->by_ns = clock_now_ns(); /* over at once */
	assert_int_equal(make(f, "dram__bytes_read.sum lts__t_bytes.sum l1tex__t_bytes.sum "
				 "sm__inst_executed.sum "
				 "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum "
				 "sm__inst_executed_pipe_tensor.sum "
				 "dram__throughput.avg.pct_of_peak_sustained_elapsed "
				 "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
			 GPUCTR_E_TOO_MANY_METRICS);
	assert_non_null(strstr(f->refusal.message, "these 8 columns need "));
	assert_true(f->refusal.remedy[0] != '\0');
	assert_int_equal(make(f, "memory"), 0); /* nothing is to be divided */
}

FIXTURE_TEST(a_plan_has_so_many_columns)
{
	struct fixture *f = *state;
	char *names = calloc(LIMIT_METRICS + 1, LIMIT_NAME_BYTES);

	for (size_t i = 0, n = 0; n <= LIMIT_METRICS; i++) {
		const char **submetrics = NULL;

		assert_true(i < gh100.n_bases);
		if (catalogue_submetrics(&gh100, &gh100.bases[i], &submetrics) > 0) {
			strcat(strcat(strcat(names, gh100.bases[i].name), submetrics[0]), " ");
			n++;
		}
	}
	assert_int_equal(make(f, names), GPUCTR_E_TOO_MANY_METRICS);
	assert_non_null(strstr(f->refusal.message, "128 columns"));
	free(names);
}

FIXTURE_TEST(a_breakdown_is_its_parts)
{
	struct fixture *f = *state;

	assert_int_equal(make(f, "breakdown:dram__throughput.avg.pct_of_peak_sustained_elapsed"),
			 0);
	assert_int_equal(f->plan.columns.n, 1);
	assert_string_equal(f->plan.columns.v[0].name,
			    "dram__cycles_active.avg.pct_of_peak_sustained_elapsed");
	assert_int_equal(make(f, "breakdown:sm__throughput.avg.pct_of_peak_sustained_elapsed"), 0);
	assert_true(f->plan.columns.n > 10);
}

/* What a pattern means is not looked at: expanding one may take any time and memory, and is not for
 * a process that serves all users. */
FIXTURE_TEST(refusals_say_what_to_write)
{
	static const struct {
		const char *wanted;
		int code;
		const char *message, *remedy; /* parts of them */
	} rows[] = {
		{ "", GPUCTR_E_BAD_REQUEST, "is empty", "Name at least one metric" },
		{ "dram__bytes_raed.sum", GPUCTR_E_METRIC_UNKNOWN, "dram__bytes_raed.sum",
		  "dram__bytes_read.sum" },
		{ "%s%n%s.sum", GPUCTR_E_METRIC_UNKNOWN, "%s%n%s.sum", "" },
		{ "launch__registers_per_thread", GPUCTR_E_METRIC_UNKNOWN, "is no counter",
		  "Every record has its launch" },
		{ "dram__bytes_read", GPUCTR_E_METRIC_UNKNOWN, "rollup", "dram__bytes_read.sum" },
		{ "dram__throughput", GPUCTR_E_METRIC_UNKNOWN, "rollup",
		  "dram__throughput.avg.pct_of_peak_sustained_elapsed" },
		{ "breakdown:dram__bytes_read.sum", GPUCTR_E_METRIC_UNKNOWN, "dram__bytes_read.sum",
		  "breakdown:sm__throughput" },
		{ "breakdown:", GPUCTR_E_METRIC_UNKNOWN, "no throughput", "" },
		{ "sm__inst_executed_pipe_fp16.sum.on_another", GPUCTR_E_METRIC_OTHER_CHIP,
		  "TU102, GA102", "" },
		{ "dram__*.sum", GPUCTR_E_BAD_PATTERN, "dram__*.sum", "name the metrics" },
		{ "*", GPUCTR_E_BAD_PATTERN, "'*'", "" },
		{ "dram__bytes_rea?.sum", GPUCTR_E_BAD_PATTERN, "dram__bytes_rea?.sum", "" },
		{ "[", GPUCTR_E_BAD_PATTERN, "'['", "" },
		{ "regex:^dram__bytes\\.sum$", GPUCTR_E_BAD_PATTERN, "^dram__bytes\\.sum$", "" },
		{ "regex:(", GPUCTR_E_BAD_PATTERN, "regex:(", "" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(make(f, rows[i].wanted), rows[i].code);
		assert_int_equal(f->refusal.code, rows[i].code);
		if (!strstr(f->refusal.message, rows[i].message) || !f->refusal.remedy[0] ||
		    !strstr(f->refusal.remedy, rows[i].remedy)) {
			fail_msg("'%s': %s. %s", rows[i].wanted, f->refusal.message,
				 f->refusal.remedy);
		}
	}
}

/* glibc's regcomp() takes 5.4 GiB and 16 s for this. */
FIXTURE_TEST(a_nested_pattern_is_refused_unread)
{
	struct fixture *f = *state;
	char nested[160] = "regex:";

	memset(nested + strlen(nested), '(', 20);
	strcat(nested, "a");
	for (int i = 0; i < 20; i++) {
		strcat(nested, "+)+");
	}
	assert_int_equal(make(f, nested), GPUCTR_E_BAD_PATTERN);
}

FIXTURE_TEST(a_hostile_name_is_only_unknown)
{
	struct fixture *f = *state;
	char name[LIMIT_STRING_BYTES];

	memset(name, 'A', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(make(f, name), GPUCTR_E_METRIC_UNKNOWN);
	memset(name, '.', sizeof(name) - 1);
	assert_int_equal(make(f, name), GPUCTR_E_METRIC_UNKNOWN);
}

int main(void)
{
	int result = cupti_open_gh100(&gh100);

	if (result != 0) {
		return result;
	}
	result = unit_run();
	catalogue_deinit(&gh100);
	return result;
}
