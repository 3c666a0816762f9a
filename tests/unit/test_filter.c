/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <limits.h>
#include <pthread.h>

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

TEST(a_name_that_explodes_is_matched_as_it_is_shown)
{
	CLEAN_FREE char *shown = NULL;
	char name[512];

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

/* A kernel whose name takes about so many bytes, in arguments that are types within types, as those
 * of CUTLASS are. libiberty prints no more than 1,024 levels. */
static void nest(char *name, size_t bytes)
{
	static const char begin[] = "_Z1kI", type[] = "St6vectorI", end[] = "EvT_";
	size_t n = (size_t)sprintf(name, "%s", begin), levels, left;

	while ((left = bytes - n - strlen(end)) > sizeof(type)) {
		levels = (left - 1) / sizeof(type);
		levels = levels < 80 ? levels : 80;
		for (size_t i = 0; i < levels; i++) {
			n += (size_t)sprintf(name + n, "%s", type);
		}
		name[n++] = 'i';
		memset(name + n, 'E', levels);
		n += levels;
	}
	strcpy(name + n, end);
}

struct launcher {
	const char *name, *regex;
	enum gpuctr_kernel_name_base base;
	bool selected;
};

/* No assertion: cmocka leaves by longjmp(), which is for one thread. */
static void *select_in_thread(void *argument)
{
	struct launcher *l = argument;
	struct wire_selection selection = selection_of(l->regex, "");
	struct refusal r;
	struct filter f;

	selection.kernel_name_base = l->base;
	if (filter_init(&f, &selection, &r) == 0) {
		l->selected = filter_selects(&f, l->name);
		filter_deinit(&f);
	}
	return NULL;
}

static bool selects_on_a_small_stack(const char *name, const char *regex,
				     enum gpuctr_kernel_name_base base)
{
	struct launcher l = { name, regex, base, false };
	pthread_attr_t attributes;
	pthread_t thread;

	assert_int_equal(pthread_attr_init(&attributes), 0);
	assert_int_equal(pthread_attr_setstacksize(&attributes, (unit_sanitized ? 8 : 1) * 16384),
			 0);
	assert_int_equal(pthread_create(&thread, &attributes, select_in_thread, &l), 0);
	pthread_attr_destroy(&attributes);
	assert_int_equal(pthread_join(thread, NULL), 0);
	return l.selected;
}

/* HPX, pika and brpc launch kernels from stacks of 16 to 64 KiB, and libiberty wants 160 KiB for a
 * name of 1,000 bytes. */
TEST(names_of_any_length_are_chosen_on_small_stacks)
{
	static const size_t lengths[] = { 120, 340, 670, 1000, 1024, 1025, 1100, 4000, 16000 };
	char name[16384];

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		CLEAN_FREE char *shown = NULL;

		nest(name, lengths[i]);
		assert_in_range(strlen(name), lengths[i] - 12, lengths[i]);
		shown = demangle_kernel(name);
		assert_memory_equal(shown, "void k<std::vector<std::vector<", 31);
		assert_string_equal(strrchr(shown, ')'), ")");
		assert_true(selects_on_a_small_stack(name, "^void k<std::vector<.* >\\)$",
						     GPUCTR_KERNEL_NAME_DEMANGLED));
		assert_false(selects_on_a_small_stack(name, "^_Z", GPUCTR_KERNEL_NAME_DEMANGLED));
		assert_true(selects_on_a_small_stack(name, "^k$", GPUCTR_KERNEL_NAME_FUNCTION));
		assert_true(selects_on_a_small_stack(name, "^_Z1kI(St6vectorI)+i",
						     GPUCTR_KERNEL_NAME_MANGLED));
	}
}

/* Names that take libiberty the most: they are none, and stay as they are. */
TEST(names_that_are_none_are_chosen_on_small_stacks)
{
	static const char *const repeated[] = { "P", "F", "DwF", "R", "Zcv", "X", "RT_1aIiE" };
	char name[16001];

	for (size_t i = 0; i < ARRAY_SIZE(repeated); i++) {
		size_t n = strlen(repeated[i]);

		strcpy(name, "_Z1fIiEv");
		for (size_t k = strlen(name); k + n < sizeof(name); k += n) {
			strcpy(name + k, repeated[i]);
		}
		expect_name(name, name);
		assert_true(selects_on_a_small_stack(name, "^_Z1f", GPUCTR_KERNEL_NAME_DEMANGLED));
		assert_true(selects_on_a_small_stack(name, "f", GPUCTR_KERNEL_NAME_FUNCTION));
	}
}

/* The name is sent with '?' for what is not UTF-8, and cut. */
TEST(bytes_that_are_no_text_are_matched_as_they_are_shown)
{
	CLEAN_FREE char *name = malloc(LIMIT_STRING_BYTES + 100);
	CLEAN_FREE char *shown = NULL;

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

TEST(a_function_stands_alone)
{
	char name[512];

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

TEST(a_name_is_compared_whole)
{
	static const char gemm[] = "_ZN6linear4gemmIfEEvPT_i";

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

/* By GPU or by kernel, the count is one for each. */
TEST(launches_are_counted_with_their_like)
{
	for (uint32_t mode = 0; mode <= GPUCTR_FILTER_PER_KERNEL; mode++) {
		struct wire_selection selection = selection_of("", "");
		bool grouped = mode != GPUCTR_FILTER_GLOBAL;
		struct refusal r;
		struct filter f;

		selection.launch_skip = 1;
		selection.launch_count = 1;
		selection.filter_mode = mode;
		assert_int_equal(filter_init(&f, &selection, &r), 0);
		assert_false(filter_takes(&f, 1));
		assert_int_equal(filter_takes(&f, UINT64_MAX), !grouped);
		assert_false(filter_missed_all(&f, &r) && !grouped);
		assert_int_equal(filter_takes(&f, 1), grouped);
		assert_int_equal(filter_takes(&f, UINT64_MAX), grouped);
		assert_false(filter_takes(&f, 1));
		assert_false(filter_takes(&f, UINT64_MAX));
		assert_false(filter_missed_all(&f, &r));
		filter_deinit(&f);
	}
}

/* Each of the first groups has its own count, and all further ones share one. */
TEST(groups_without_room_are_counted_together)
{
	enum { ROOM = 16384 };
	struct wire_selection selection = selection_of("", "");
	struct refusal r;
	struct filter f;
	unsigned n = 0;

	selection.launch_count = 1;
	selection.filter_mode = GPUCTR_FILTER_PER_KERNEL;
	assert_int_equal(filter_init(&f, &selection, &r), 0);
	for (int turn = 0; turn < 2; turn++) {
		for (uint64_t i = 1; i <= 2 * ROOM; i++) {
			n += filter_takes(&f, i * UINT64_C(0x9e3779b97f4a7c15));
		}
		assert_int_equal(n, ROOM + 1);
	}
	filter_deinit(&f);
}

enum { THREADS = 4, THREADS_GROUPS = 1000 };

static void *take_groups(void *argument)
{
	static atomic_uint n_taken;

	for (uint64_t group = 1; group <= THREADS_GROUPS; group++) {
		atomic_fetch_add(&n_taken, filter_takes(argument, group));
	}
	return &n_taken;
}

/* Threads that launch kernels of a new group at the same time give it one slot. */
TEST(threads_share_the_count_of_a_group)
{
	struct wire_selection selection = selection_of("", "");
	pthread_t threads[THREADS];
	void *n_taken = NULL;
	struct refusal r;
	struct filter f;

	selection.launch_count = 1;
	selection.filter_mode = GPUCTR_FILTER_PER_KERNEL;
	assert_int_equal(filter_init(&f, &selection, &r), 0);
	for (size_t i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_create(&threads[i], NULL, take_groups, &f), 0);
	}
	for (size_t i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &n_taken), 0);
	}
	assert_int_equal(atomic_load((atomic_uint *)n_taken), THREADS_GROUPS);
	filter_deinit(&f);
}

/* A launch that could not be measured takes no other one's place. */
TEST(what_is_given_back_is_taken_again)
{
	struct wire_selection selection = selection_of("", "");
	struct refusal r;
	struct filter f;

	selection.launch_skip = 1;
	selection.launch_count = 2;
	assert_int_equal(filter_init(&f, &selection, &r), 0);
	assert_false(filter_takes(&f, 1));
	assert_true(filter_takes(&f, 1));
	assert_true(filter_takes(&f, 1));
	assert_true(filter_is_finished(&f));
	filter_give_back(&f);
	assert_false(filter_is_finished(&f));
	assert_true(filter_takes(&f, 1));
	assert_false(filter_takes(&f, 1));
	filter_deinit(&f);
}
