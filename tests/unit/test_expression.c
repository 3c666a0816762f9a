/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "proto/wire/expression.h"

static void expect_taken(const char *text)
{
	struct refusal r = { 0 };
	regex_t regex;

	if (expression_compile(&regex, text, &r) != 0) {
		fail_msg("%s", r.message);
	}
	regfree(&regex);
}

static void expect_wrong(const char *text, size_t at)
{
	struct refusal r = { 0 };
	regex_t regex;

	assert_int_equal(expression_compile(&regex, text, &r), GPUCTR_E_BAD_PATTERN);
	assert_int_equal(r.code, GPUCTR_E_BAD_PATTERN);
	assert_non_null(strstr(r.message, text));
	assert_true(r.remedy[0] != '\0');
	assert_int_equal(expression_wrong_at(text), at);
}

TEST(what_compiles_is_taken)
{
	expect_taken("gemm");
	expect_taken("^void at::native::.*(add|mul)_kernel");
	expect_taken("<4, \\{lambda\\(float\\)#1\\}>");
	expect_taken("[+{(]+[]{}]+[^]{]x{2}[[:digit:]]{1,3}");
}

TEST(what_does_not_is_refused_with_its_place)
{
	expect_wrong("k(", 2);
	expect_wrong("(a)((b)", 4);
	expect_wrong("*a", 1);
	expect_wrong("gr\xc3\xb6\xc3\x9f"
		     "e[",
		     6);
	expect_wrong("k[z-a]", 2);
	expect_wrong("k\\", 2);
	expect_wrong("k{lambda}", 2);
}

/* glibc would take gigabytes for each of these, and the first kills a process that calls it. */
TEST(repetitions_of_repetitions_are_refused)
{
	char nested[256] = "a";
	struct refusal r;
	regex_t regex;

	for (int i = 0; i < 60; i++) {
		memmove(nested + 1, nested, strlen(nested) + 1);
		nested[0] = '(';
		strcat(nested, ")+");
	}
	assert_int_equal(expression_compile(&regex, nested, &r), GPUCTR_E_BAD_PATTERN);
	assert_int_equal(expression_compile(&regex, "((a{250}){250}){250}", &r),
			 GPUCTR_E_BAD_PATTERN);
	assert_int_equal(expression_compile(&regex, "(((a{1,250}){1,}){3,250})+", &r),
			 GPUCTR_E_BAD_PATTERN);
	assert_int_equal(expression_compile(&regex, "a{99999999999999999999}", &r),
			 GPUCTR_E_BAD_PATTERN);
	assert_non_null(strstr(r.message, "multiply to too much"));
}
