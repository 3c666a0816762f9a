/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "client/agent/filter.h"
#include "proto/wire/demangle.h"
#include "proto/wire/limits.h"

/* Kernels are chosen by the names that users see. */

static bool selects(const char *regex, const char *mangled)
{
	const struct wire_selection selection = { .kernel_regex = regex,
						  .capture_range = "",
						  .step = "" };
	struct refusal r;
	struct filter f;
	bool selected;

	assert_int_equal(filter_init(&f, &selection, &r), 0);
	selected = filter_selects(&f, mangled);
	filter_deinit(&f);
	return selected;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_is_matched_as_it_is_shown),
		cmocka_unit_test(a_name_that_explodes_is_matched_as_it_is_shown),
		cmocka_unit_test(bytes_that_are_no_text_are_matched_as_they_are_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
