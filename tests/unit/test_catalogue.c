/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cupti.h"

#include <fnmatch.h>

#include "proto/nvidia/aliases.h"
#include "proto/wire/limits.h"
#include "proto/nvidia/catalogue.h"

static struct catalogue gh100;

TEST(has_the_metrics_of_the_chip)
{
	const struct catalogue_base *b;

	assert_true(gh100.n_bases > 1000);
	for (size_t i = 1; i < gh100.n_bases; i++) {
		assert_true(strcmp(gh100.bases[i - 1].name, gh100.bases[i].name) <= 0);
	}
	b = catalogue_find_base(&gh100, "dram__bytes_read.sum", strlen("dram__bytes_read"));
	assert_non_null(b);
	assert_string_equal(b->name, "dram__bytes_read");
	assert_int_equal(b->kind, GPUCTR_METRIC_COUNTER);
	b = catalogue_find_base(&gh100, "dram__throughput", strlen("dram__throughput"));
	assert_non_null(b);
	assert_int_equal(b->kind, GPUCTR_METRIC_THROUGHPUT);
}

TEST(finds_whole_names_only)
{
	assert_null(catalogue_find_base(&gh100, "dram__bytes_rea", 15));
	assert_null(catalogue_find_base(&gh100, "", 0));
	assert_null(catalogue_find_base(&gh100, "zzz", 3));
	assert_null(catalogue_find_base(&gh100, "AAA", 3));
	for (size_t i = 0; i < gh100.n_bases; i++) {
		const struct catalogue_base *b = catalogue_find_base(&gh100, gh100.bases[i].name,
								     strlen(gh100.bases[i].name));

		assert_non_null(b);
		assert_string_equal(b->name, gh100.bases[i].name);
	}
}

TEST(full_names_have_a_known_submetric)
{
	assert_true(catalogue_has(&gh100, "dram__bytes_read.sum"));
	assert_true(catalogue_has(&gh100, "dram__bytes_read.sum.per_second"));
	assert_true(catalogue_has(&gh100, "dram__throughput.avg.pct_of_peak_sustained_elapsed"));
	assert_true(catalogue_has(&gh100, "gpu__time_duration.sum"));
	assert_false(catalogue_has(&gh100, "dram__bytes_read"));
	assert_false(catalogue_has(&gh100, "dram__bytes_read."));
	assert_false(catalogue_has(&gh100, "dram__bytes_read.summ"));
	assert_false(catalogue_has(&gh100, ".sum"));
	assert_false(catalogue_has(&gh100, ""));
	assert_false(catalogue_has(&gh100, "..."));
}

/* Some bases hold dots themselves. */
TEST(bases_with_dots_are_split_at_the_right_one)
{
	const struct catalogue_base *dotted = NULL;
	char full[512];

	for (size_t i = 0; i < gh100.n_bases && !dotted; i++) {
		if (strchr(gh100.bases[i].name, '.') &&
		    gh100.bases[i].kind == GPUCTR_METRIC_COUNTER) {
			dotted = &gh100.bases[i];
		}
	}
	assert_non_null(dotted);
	snprintf(full, sizeof(full), "%s.sum", dotted->name);
	assert_true(catalogue_has(&gh100, full));
	assert_false(catalogue_has(&gh100, dotted->name));
}

TEST(describes_with_unit)
{
	const char *unit = NULL, *hardware = NULL, *text = NULL;

	assert_true(catalogue_describe(&gh100, "dram__bytes_read.sum", &unit, &hardware, &text));
	assert_non_null(strstr(unit, "byte"));
	assert_non_null(strstr(hardware, "dram"));
	assert_true(strlen(text) > 10);
	assert_false(catalogue_describe(&gh100, "no__such_metric.sum", &unit, &hardware, &text));
}

TEST(near_matches_are_near)
{
	static const struct {
		const char *wrong, *right;
	} typos[] = {
		{ "dram__bytes_raed.sum", "dram__bytes_read.sum" },
		{ "dram_bytes_read.sum", "dram__bytes_read.sum" },
		{ "dram__byte_read", "dram__bytes_read.sum" },
		{ "sm__inst_execute.sum", "sm__inst_executed.sum" },
		{ "memroy", "memory" },
		{ "kineto__tensor_core_inst", "kineto__tensor_core_insts" },
	};
	struct arena a;

	arena_init(&a, 1 << 20);
	for (size_t i = 0; i < ARRAY_SIZE(typos); i++) {
		const char *near = catalogue_near(&gh100, &a, typos[i].wrong);

		if (!strstr(near, typos[i].right)) {
			fail_msg("near %s: '%s' is without %s", typos[i].wrong, near,
				 typos[i].right);
		}
	}
	assert_string_equal(catalogue_near(&gh100, &a, "qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq"), "");
	arena_deinit(&a);
}

TEST(near_matches_take_any_length)
{
	char *text = malloc(20000);
	struct arena a;

	arena_init(&a, 1 << 20);
	for (size_t n = 0; n < 20000; n = n * 2 + 1) {
		memset(text, 'd', n);
		text[n] = '\0';
		assert_non_null(catalogue_near(&gh100, &a, text));
	}
	arena_deinit(&a);
	free(text);
}

/* What is suggested is taken as it stands, whatever kind of metric it is. */
TEST(near_names_are_names_that_a_plan_takes)
{
	static const char *const wrong[] = { "dram__bytes_raed",
					     "dram__throughptu",
					     "sm__throughput.sum",
					     "dram__bytes_read.summ",
					     "sm__warps_activ.nope",
					     "l1tex__t_sector_hit_rate",
					     "memroy" };
	struct arena a;

	arena_init(&a, 1 << 20);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		char *near = arena_printf(&a, "%s", catalogue_near(&gh100, &a, wrong[i]));
		char *save = NULL;

		assert_true(near[0] != '\0');
		for (char *name = strtok_r(near, ", ", &save); name;
		     name = strtok_r(NULL, ", ", &save)) {
			if (strcmp(name, "or") != 0 && !catalogue_find_named(name) &&
			    !catalogue_has(&gh100, name)) {
				fail_msg("%s is suggested for %s", name, wrong[i]);
			}
		}
	}
	arena_deinit(&a);
}

/* Is there a chip for which the name is whole, or the glob has something? */
static bool some_chip_has(const char *name, bool is_glob)
{
	CUpti_Profiler_Host_GetSupportedChips_Params all = {
		.structSize = CUpti_Profiler_Host_GetSupportedChips_Params_STRUCT_SIZE,
	};
	bool found = false;

	assert_int_equal(cupti.cuptiProfilerHostGetSupportedChips(&all), CUPTI_SUCCESS);
	for (size_t i = all.numChips; i-- > 0 && !found;) {
		struct catalogue c;
		struct refusal r;

		assert_int_equal(catalogue_init(&c, &cupti, all.ppChipNames[i], &r), 0);
		found = !is_glob && catalogue_has(&c, name);
		for (size_t k = 0; is_glob && !found && k < c.n_bases; k++) {
			found = fnmatch(name, c.bases[k].name, 0) == 0;
		}
		catalogue_deinit(&c);
	}
	return found;
}

static bool gh100_has(const char *name, bool is_glob)
{
	bool found = !is_glob && catalogue_has(&gh100, name);

	for (size_t k = 0; is_glob && !found && k < gh100.n_bases; k++) {
		found = fnmatch(name, gh100.bases[k].name, 0) == 0;
	}
	return found || (is_glob && catalogue_find_named(name));
}

/* What is said to be a metric is one. */
TEST(what_aliases_mean_is_there)
{
	const struct alias *alias;

	for (unsigned i = 0; (alias = alias_at(i)); i++) {
		char *means = strdup(alias->means), *save = NULL;

		assert_ptr_equal(alias_find(alias->name), alias);
		for (char *m = strtok_r(means, " ", &save); m; m = strtok_r(NULL, " ", &save)) {
			bool is_glob = !alias->of_nvprof;

			if (!gh100_has(m, is_glob) && !some_chip_has(m, is_glob)) {
				fail_msg("%s means %s, which no chip has", alias->name, m);
			}
		}
		free(means);
	}
}

/* Of every throughput of the chip: its parts are metrics, and a list describes them. */
static int note_described(const struct gpuctr_metric *metric, void *userdata)
{
	size_t *n = userdata;

	if (metric->kind == GPUCTR_METRIC_THROUGHPUT && strstr(metric->description, "nearest to")) {
		assert_true(strlen(metric->description) < LIMIT_TEXT_BYTES);
		(*n)++;
	}
	return 0;
}

TEST(throughputs_have_parts)
{
	static const char rollup[] = ".avg.pct_of_peak_sustained_elapsed";
	const char *parts[CATALOGUE_PARTS_MAX];
	size_t with_parts = 0, described = 0, n;
	struct arena a;

	arena_init(&a, 1 << 20);
	for (size_t i = 0; i < gh100.n_bases; i++) {
		char *full = arena_printf(&a, "%s%s", gh100.bases[i].name, rollup);

		n = catalogue_parts(&gh100, &a, full, parts);
		with_parts += n > 0;
		for (size_t k = 0; k < n; k++) {
			assert_true(catalogue_has(&gh100, parts[k]));
			assert_non_null(strstr(parts[k], rollup));
		}
	}
	assert_true(with_parts > 20);
	assert_int_equal(catalogue_parts(&gh100, &a, "dram__bytes_read.sum", parts), 0);
	assert_int_equal(catalogue_parts(&gh100, &a, "sm__throughput", parts), 0);
	n = catalogue_parts(&gh100, &a, "sm__throughput.max.pct_of_peak_sustained_active", parts);
	assert_true(n > 10);
	assert_string_equal(parts[0], "sm__inst_executed.max.pct_of_peak_sustained_active");
	assert_int_equal(catalogue_list(&gh100, true, note_described, &described), 0);
	assert_true(described >= with_parts);
	arena_deinit(&a);
}

TEST(names_of_nvprof_are_answered)
{
	static const struct {
		const char *name, *near;
	} cases[] = {
		{ "achieved_occupancy", "sm__warps_active.avg.pct_of_peak_sustained_active" },
		{ "gld_efficiency",
		  "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct" },
		{ "dram_read_bytes", "dram__bytes_read.sum" },
		{ "l2_tex_hit_rate", "lts__t_sector_hit_rate.pct" },
		{ "flop_sp_efficiency",
		  "smsp__sass_thread_inst_executed_ops_fadd_fmul_ffma_pred_on.avg."
		  "pct_of_peak_sustained_elapsed" },
		{ "inst_executed_global_atomics", "smsp__sass_inst_executed_op_global_atom.sum" },
		{ "sysmem_read_transactions", "lts__t_sectors_aperture_sysmem_op_read.sum" },
		{ "l2_atomic_transactions",
		  "lts__t_sectors_op_atom.sum,lts__t_sectors_op_red.sum (twice their sum)" },
		{ "cf_executed",
		  "smsp__inst_executed_pipe_cbu.sum,smsp__inst_executed_pipe_adu.sum "
		  "(their sum)" },
	};
	struct arena a;

	arena_init(&a, 1 << 20);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_string_equal(catalogue_near(&gh100, &a, cases[i].name), cases[i].near);
	}
	arena_deinit(&a);
}

TEST(products_have_chips)
{
	static const char *const names[][2] = {
		{ "GH100", "GH100" },
		{ "gh100", "GH100" },
		{ "H200", "GH100" },
		{ "NVIDIA H100 80GB HBM3", "GH100" },
		{ "h100", "GH100" },
		{ "NVIDIA A100-SXM4-80GB", "GA100" },
		{ "L40S", "AD102" },
		{ "NVIDIA GeForce RTX 4090", "AD102" },
		{ "NVIDIA GH200 480GB", "GH100" },
	};
	struct refusal r = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *chip = catalogue_find_chip(&cupti, names[i][0], &r);

		assert_non_null(chip);
		assert_string_equal(chip, names[i][1]);
	}
	assert_null(catalogue_find_chip(&cupti, "H10", &r));
	assert_null(catalogue_find_chip(&cupti, "XH200", &r));
	assert_non_null(strstr(r.remedy, " GH100 "));
}

TEST(an_unknown_chip_is_told)
{
	struct refusal r = { 0 };
	struct catalogue c;

	assert_int_equal(catalogue_init(&c, &cupti, "XY999", &r), GPUCTR_E_CHIP_UNKNOWN);
	assert_non_null(strstr(r.message, "XY999"));
}

TEST(our_own_names_are_found)
{
	static const char *const names[] = { "memory",
					     "compute",
					     "tensor",
					     "roofline",
					     "kineto__tensor_core_insts",
					     "kineto__cuda_core_flops" };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_non_null(catalogue_find_named(names[i]));
	}
	assert_null(catalogue_find_named("memor"));
	assert_null(catalogue_find_named(""));
	while (catalogue_named_at(n)) {
		const struct catalogue_named *named = catalogue_named_at(n++);

		assert_ptr_equal(catalogue_find_named(named->name), named);
		assert_true(named->description[0] != '\0');
		assert_non_null(named->terms[0].metric);
	}
	assert_true(n >= ARRAY_SIZE(names));
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
