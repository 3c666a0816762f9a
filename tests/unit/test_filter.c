/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "client/agent/filter.h"
#include "proto/wire/demangle.h"
#include "proto/wire/limits.h"

/* Kernels are chosen by the names that users see. */

static struct wire_selection selection_of(const char *regex, const char *name)
{
	return (struct wire_selection){
		.kernel_regex = regex,
		.kernel_name = name,
		.capture_range = "",
		.step = "",
	};
}

static bool selects_by(enum gpuctr_kernel_name_base base, const char *regex, const char *name,
		       const char *mangled)
{
	struct wire_selection selection = selection_of(regex, name);
	struct refusal r;
	struct filter f;
	bool selected;

	selection.kernel_name_base = base;
	assert_int_equal(filter_init(&f, &selection, &r), 0);
	selected = filter_selects(&f, mangled);
	filter_deinit(&f);
	return selected;
}

static bool selects(const char *regex, const char *mangled)
{
	return selects_by(GPUCTR_KERNEL_NAME_DEMANGLED, regex, "", mangled);
}

static void expect_name(const char *mangled, const char *shown)
{
	CLEAN_FREE char *name = demangle_kernel(mangled);

	assert_string_equal(name, shown);
}

static void a_name_is_matched_as_it_is_shown(void **state)
{
	(void)state;
	expect_name("_Z6reducePfi", "reduce(float*, int)");
	assert_true(selects("^reduce\\(float", "_Z6reducePfi"));
	assert_false(selects("^_Z", "_Z6reducePfi"));
	expect_name("plain_c", "plain_c");
	assert_true(selects("^plain_c$", "plain_c"));
}

/* Each type is twice the one before: the last one is longer than memory. */
static void explode(char *name, size_t size, size_t n_types)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMN";

	snprintf(name, size, "_Z1f1AIiiE");
	for (size_t i = 0; i < n_types; i++) {
		size_t n = strlen(name);

		snprintf(name + n, size - n, "S_IS%c_S%c_E", digits[i], digits[i]);
	}
}

static void a_name_that_explodes_is_matched_as_it_is_shown(void **state)
{
	CLEAN_FREE char *shown = NULL;
	char name[512];

	(void)state;
	explode(name, sizeof(name), 24);
	expect_name(name, name);
	assert_true(selects("^_Z1f", name));
	assert_false(selects("^f\\(", name));
	/* The same with few types is a name that can be shown. */
	explode(name, sizeof(name), 2);
	shown = demangle_kernel(name);
	assert_memory_equal(shown, "f(A<int, int>", 13);
	assert_true(selects("^f\\(A<int, int>", name));
}

/* The name is sent with '?' for what is not UTF-8, and cut. */
static void bytes_that_are_no_text_are_matched_as_they_are_shown(void **state)
{
	CLEAN_FREE char *name = malloc(LIMIT_STRING_BYTES + 100);
	CLEAN_FREE char *shown = NULL;

	(void)state;
	expect_name("k\xff", "k?");
	assert_true(selects("^k\\?$", "k\xff"));
	memset(name, 'k', LIMIT_STRING_BYTES + 99);
	name[LIMIT_STRING_BYTES + 99] = '\0';
	shown = demangle_kernel(name);
	assert_int_equal(strlen(shown), LIMIT_STRING_BYTES);
}

static void expect_function(const char *mangled, const char *function)
{
	CLEAN_FREE char *name = demangle_function(mangled);

	assert_string_equal(name, function);
}

static void a_function_stands_alone(void **state)
{
	char name[512];

	(void)state;
	expect_function("_Z6reducePfi", "reduce");
	expect_function("_ZN6linear4gemmIfEEvPT_i", "gemm");
	expect_function("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEE"
			"St5arrayIPcLm1EEEEviT0_T1_",
			"vectorized_elementwise_kernel");
	expect_function("_ZN12_GLOBAL__N_17softmaxEPf", "softmax");
	expect_function("_ZL6hiddenPf", "hidden");
	expect_function("triton_poi_fused_add_0", "triton_poi_fused_add_0");
	expect_function("(CUDA graph)", "(CUDA graph)");
	expect_function("_Zno name", "_Zno name");
	expect_function("", "");
	/* Also where the whole would be longer than memory. */
	explode(name, sizeof(name), 24);
	expect_function(name, "f");
}

static void a_name_is_compared_whole(void **state)
{
	static const char gemm[] = "_ZN6linear4gemmIfEEvPT_i";

	(void)state;
	assert_true(selects_by(GPUCTR_KERNEL_NAME_FUNCTION, "", "gemm", gemm));
	assert_false(selects_by(GPUCTR_KERNEL_NAME_FUNCTION, "", "gem", gemm));
	assert_false(selects_by(GPUCTR_KERNEL_NAME_FUNCTION, "", "linear::gemm", gemm));
	assert_true(selects_by(GPUCTR_KERNEL_NAME_DEMANGLED, "",
			       "void linear::gemm<float>(float*, int)", gemm));
	assert_false(selects_by(GPUCTR_KERNEL_NAME_DEMANGLED, "", "gemm", gemm));
	assert_true(selects_by(GPUCTR_KERNEL_NAME_MANGLED, "", gemm, gemm));
	assert_false(selects_by(GPUCTR_KERNEL_NAME_MANGLED, "", "gemm", gemm));
	assert_true(selects_by(GPUCTR_KERNEL_NAME_FUNCTION, "^ge", "", gemm));
	assert_false(selects_by(GPUCTR_KERNEL_NAME_FUNCTION, "float", "", gemm));
	assert_true(selects_by(GPUCTR_KERNEL_NAME_MANGLED, "6linear", "", gemm));
}

/* A row: skip, every and count, and what becomes of the first launches. */
static void launches_are_skipped_thinned_out_and_counted(void **state)
{
	static const struct {
		uint64_t skip, every, count;
		const char *launches;
	} rows[] = {
		{ 0, 0, 0, "1111111" }, { 2, 0, 0, "0011111" },	  { 0, 0, 2, "1100000" },
		{ 0, 1, 0, "1111111" }, { 0, 3, 0, "10010010" },  { 1, 2, 2, "01010000" },
		{ 2, 3, 1, "0010000" }, { 0, 100, 0, "1000000" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct wire_selection selection = selection_of("", "");
		struct refusal r;
		struct filter f;

		selection.launch_skip = rows[i].skip;
		selection.launch_every = rows[i].every;
		selection.launch_count = rows[i].count;
		assert_int_equal(filter_init(&f, &selection, &r), 0);
		for (size_t k = 0; rows[i].launches[k]; k++) {
			if (filter_takes(&f, NULL) != (rows[i].launches[k] == '1')) {
				fail_msg("row %zu, launch %zu", i, k);
			}
		}
		filter_deinit(&f);
	}
}

/* Of each mode: is the second launch with another one of these counted with the first? */
static void launches_are_counted_with_their_like(void **state)
{
	const struct stratum_key first = {
		.kernel = 7, .range = 8, .grid = { 1, 1, 1 }, .block = { 32, 1, 1 }
	};
	struct stratum_key like = first, others[5] = { first, first, first, first, first };
	static const char *const taken[] = {
		[GPUCTR_FILTER_GLOBAL] = "00000",
		[GPUCTR_FILTER_PER_GPU] = "00001",
		[GPUCTR_FILTER_PER_KERNEL] = "10000",
		[GPUCTR_FILTER_PER_LAUNCH_CONFIG] = "11110",
	};

	(void)state;
	like.range = 9;
	others[0].kernel = 6;
	others[1].grid[2] = 2;
	others[2].block[0] = 64;
	others[3].shared_bytes = 1;
	others[4].device = 1;
	for (uint32_t mode = 0; mode <= GPUCTR_FILTER_PER_LAUNCH_CONFIG; mode++) {
		struct wire_selection selection = selection_of("", "");
		struct refusal r;
		struct filter f;

		selection.launch_count = 1;
		selection.filter_mode = mode;
		assert_int_equal(filter_init(&f, &selection, &r), 0);
		assert_true(filter_takes(&f, &first));
		assert_false(filter_takes(&f, &first));
		assert_false(filter_takes(&f, &like));
		for (size_t i = 0; i < 5; i++) {
			if (filter_takes(&f, &others[i]) != (taken[mode][i] == '1')) {
				fail_msg("mode %u, launch %zu", mode, i);
			}
		}
		filter_deinit(&f);
	}
}

static void too_many_configurations_are_told(void **state)
{
	struct wire_selection selection = selection_of("", "");
	char text[256];
	struct refusal r;
	struct filter f;

	(void)state;
	selection.launch_count = 1;
	selection.filter_mode = GPUCTR_FILTER_PER_LAUNCH_CONFIG;
	assert_int_equal(filter_init(&f, &selection, &r), 0);
	for (uint32_t i = 0; i < STRATA_SHAPES_OF_A_KERNEL_MAX; i++) {
		const struct stratum_key key = { .kernel = 1, .grid = { i + 1, 1, 1 } };

		assert_true(filter_takes(&f, &key));
	}
	assert_false(filter_describe(&f, text, sizeof(text)));
	filter_takes(&f, &(struct stratum_key){ .kernel = 1, .grid = { 1, 2, 1 } });
	assert_true(filter_describe(&f, text, sizeof(text)));
	assert_non_null(strstr(text, "too many launch configurations"));
	filter_deinit(&f);
}

static void records_are_limited(void **state)
{
	struct wire_selection selection = selection_of("", "");
	struct refusal r;
	struct filter f;
	char text[256];

	(void)state;
	selection.record_limit = 2;
	assert_int_equal(filter_init(&f, &selection, &r), 0);
	assert_true(filter_reserve(&f));
	assert_true(filter_has_room(&f));
	assert_true(filter_reserve(&f));
	assert_true(filter_is_full(&f));
	assert_false(filter_describe_limit(&f, text, sizeof(text)));
	assert_false(filter_reserve(&f));
	assert_false(filter_has_room(&f));
	assert_true(filter_describe_limit(&f, text, sizeof(text)));
	assert_string_equal(text, "of the filtered launches, 2 came when there were 2 records "
				  "already (--record-limit)");
	filter_give_back(&f);
	assert_false(filter_is_full(&f));
	assert_true(filter_reserve(&f));
	assert_false(filter_reserve(&f));
	filter_deinit(&f);
	selection.record_limit = 0;
	assert_int_equal(filter_init(&f, &selection, &r), 0);
	for (int i = 0; i < 5; i++) {
		assert_true(filter_reserve(&f));
		assert_false(filter_is_full(&f));
	}
	filter_deinit(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_is_matched_as_it_is_shown),
		cmocka_unit_test(a_name_that_explodes_is_matched_as_it_is_shown),
		cmocka_unit_test(bytes_that_are_no_text_are_matched_as_they_are_shown),
		cmocka_unit_test(a_function_stands_alone),
		cmocka_unit_test(a_name_is_compared_whole),
		cmocka_unit_test(launches_are_skipped_thinned_out_and_counted),
		cmocka_unit_test(launches_are_counted_with_their_like),
		cmocka_unit_test(too_many_configurations_are_told),
		cmocka_unit_test(records_are_limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
