/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "proto/wire/nvtx_expression.h"

/* ncu's grammar, case by case: a stack is written as its messages, lowest first, between slashes,
 * with "DOMAIN@" before those of other domains; "|" before start/end ranges that are open. */

static bool holds_for(const struct nvtx_expression *e, size_t term, char *stack)
{
	uint64_t state = nvtx_term_begin(e, term);
	char *saved = NULL;
	bool started = false, is_started = nvtx_term_is_started(e, term);

	for (char *s = strtok_r(stack, "/", &saved); s; s = strtok_r(NULL, "/", &saved)) {
		bool open = s[0] == '|';
		char *at = strchr(s, '@');
		const char *message = at ? at + 1 : s + open;
		const char *domain = at ? s + open : "";

		if (at) {
			*at = '\0';
		}
		if (open) {
			started |= is_started && nvtx_term_names(e, term, domain, message);
		} else if (!is_started) {
			state = nvtx_term_advance(e, term, state, domain, message);
		}
	}
	return is_started ? started : nvtx_term_holds(e, term, state);
}

static bool matches(const char *text, const char *stack)
{
	struct nvtx_expression *e;
	struct refusal r;
	bool all = true;

	if (nvtx_expression_parse(text, &e, &r) != 0) {
		fail_msg("%s: %s", text, r.message);
	}
	for (size_t i = 0; i < nvtx_expression_n_terms(e); i++) {
		char copy[256];

		snprintf(copy, sizeof(copy), "%s", stack);
		all = holds_for(e, i, copy) && all;
	}
	nvtx_expression_free(e);
	return all;
}

static const struct {
	const char *text, *stack;
	bool matches;
} cases[] = {
	/* A/: somewhere in the stack of push/pop ranges, by its whole name. */
	{ "A/", "A", true },
	{ "A/", "A/B", true },
	{ "A/", "B/A", true },
	{ "A/", "B/A/C", true },
	{ "A/", "", false },
	{ "A/", "AA", false },
	{ "A/", "B", false },
	{ "A/", "|A", false },
	/* A/B: directly on it, and more may lie below and above. */
	{ "A/B", "A/B", true },
	{ "A/B/", "A/B", true },
	{ "A/B", "X/A/B/Y", true },
	{ "A/B", "A/A/B", true },
	{ "A/B", "A/X/B", false },
	{ "A/B", "B/A", false },
	{ "A/B", "A", false },
	{ "A/B", "B", false },
	{ "A/B/C", "A/B/A/B/C", true },
	{ "A/B/C", "A/B/X/C", false },
	/* A, then any number, then B. */
	{ "A/*/B", "A/B", true },
	{ "A/*/B", "A/X/B", true },
	{ "A/*/B", "A/X/Y/B/Z", true },
	{ "A/*/B", "B/X/A", false },
	{ "A/*/B", "X/B", false },
	{ "A/*/B/C", "A/B/X/B/C", true },
	/* A, then one, then B. */
	{ "A/+/B", "A/X/B", true },
	{ "A/+/B", "A/B/B", true },
	{ "A/+/B", "A/B", false },
	{ "A/+/B", "A/X/Y/B", false },
	{ "A/+/+/B", "A/X/Y/B", true },
	{ "A/+/*/B", "A/B", false },
	{ "A/+/*/B", "A/X/Y/Z/B", true },
	/* [A: the lowest. */
	{ "[A", "A", true },
	{ "[A", "A/B", true },
	{ "[A", "B/A", false },
	{ "[A/", "A/B", true },
	{ "[A/B", "A/B/C", true },
	{ "[A/B", "X/A/B", false },
	{ "[A/*/B", "A/X/A/B", true },
	{ "[A/*/B", "X/A/B", false },
	/* A]: the topmost. */
	{ "A]", "A", true },
	{ "A]", "B/A", true },
	{ "A]", "A/B", false },
	{ "A]", "A/B/A", true },
	{ "A/B]", "X/A/B", true },
	{ "A/B]", "A/B/X", false },
	{ "A/*/B]", "A/B/X/B", true },
	{ "[A]", "A", true },
	{ "[A]", "A/A", false },
	{ "[A/+/B]", "A/X/B", true },
	{ "[A/+/B]", "A/X/B/B", false },
	/* A: a start/end range. */
	{ "A", "|A", true },
	{ "A", "|B/|A", true },
	{ "A", "A", false },
	{ "A", "|B", false },
	/* A,B: both are open. */
	{ "A,B", "|A/|B", true },
	{ "A,B", "|B/|X/|A", true },
	{ "A,B", "|A", false },
	{ "A,B", "|B", false },
	{ "A/,B", "A/|B", true },
	{ "A/,B", "|A/|B", false },
	/* Domains have stacks of their own. */
	{ "D@A/", "D@A", true },
	{ "D@A/", "A", false },
	{ "D@A/", "E@A", false },
	{ "A/", "D@A", false },
	{ "D@A/B", "D@A/X/D@B", true },
	{ "A/B", "A/D@X/B", true },
	{ "D@A/B", "D@A/B", false },
	{ "[D@A", "X/D@A", true },
	{ "D@[A", "X/D@A", true },
	{ "D@[A", "D@X/D@A", false },
	{ "D@A]", "D@A/X", true },
	{ "D@A", "|D@A", true },
	{ "D@A", "|A", false },
	{ "A", "|D@A", false },
	{ "D@A,E@B", "|D@A/|E@B", true },
	{ "D@A,E@B", "|D@A/|D@B", false },
	/* Regular expressions are searched for. */
	{ "regex:step [0-9]+/", "step 12", true },
	{ "regex:step [0-9]+/", "a step 1 b", true },
	{ "regex:^step [0-9]$/", "step 12", false },
	{ "regex:^A$/regex:^B", "A/Bx", true },
	{ "A/regex:x|y]", "A/y", true },
	{ "regex:[,/@]/", "a,b", true },
	{ "regex:^a{2,3}$/", "aaa", true },
	{ "regex:^a{2,3}$/", "aaaa", false },
	{ "regex:a\\,b/", "a,b", true },
	{ "regex:a\\.b/", "axb", false },
	{ "regex:layer [0-9]", "|layer 4", true },
	{ "regex:layer [0-9]]", "layer 4", true },
	{ "regex:layer [0-9]]", "layer 4/X", false },
	{ "regex:^D@regex:^A/", "Dx@Ax", true },
	{ "A/*/regex:B", "A/X/xB", true },
	/* A backslash takes the next character as it is. */
	{ "a\\,b/", "a,b", true },
	{ "\\[A/", "[A", true },
	{ "\\[A/", "A", false },
	{ "A\\]/", "A]", true },
	{ "A\\]", "|A]", true },
	{ "a\\\\b/", "a\\b", true },
	{ "\\*/", "*", true },
	{ "\\*/", "A", false },
	{ "A/\\+/B", "A/+/B", true },
	{ "A/\\+/B", "A/X/B", false },
	{ "\\regex:x/", "regex:x", true },
	/* Elsewhere these characters mean themselves. */
	{ "a*b+/", "a*b+", true },
	{ "a*b+/", "aab", false },
	{ "f(x[1])/", "f(x[1])", true },
	{ "a[b/", "a[b", true },
	{ "gr\xc3\xb6\xc3\x9f"
	  "e/",
	  "gr\xc3\xb6\xc3\x9f"
	  "e",
	  true },
};

TEST(the_grammar_of_ncu)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (matches(cases[i].text, cases[i].stack) != cases[i].matches) {
			fail_msg("'%s' and '%s': not %d", cases[i].text, cases[i].stack,
				 cases[i].matches);
		}
	}
}

TEST(what_is_wrong_is_pointed_at)
{
	static const struct {
		const char *text, *message;
	} wrong[] = {
		{ "", "a name is missing, at character 1" },
		{ "/A", "a name is missing, at character 1" },
		{ "A//B", "a name is missing, at character 3" },
		{ "A,", "a name is missing, at character 3" },
		{ ",A", "a name is missing, at character 1" },
		{ "D@", "a name is missing, at character 3" },
		{ "@A", "a name is missing, at character 1" },
		{ "[", "a name is missing, at character 2" },
		{ "]", "a name is missing, at character 1" },
		{ "A/]", "a name is missing, at character 3" },
		{ "regex:/", "a name is missing, at character 7" },
		{ "*/A", "'*' and '+' stand between two names, at character 1" },
		{ "A/*", "'*' and '+' stand between two names, at character 3" },
		{ "A/+/", "'*' and '+' stand between two names, at character 5" },
		{ "D@*/A", "'*' and '+' stand between two names, at character 3" },
		{ "*@A/", "'*' and '+' stand between two names, at character 1" },
		{ "A/D@B", "a domain stands before the first name" },
		{ "A@B@C/", "a domain stands before the first name" },
		{ "A\\", "nothing follows the backslash, at character 2" },
		{ "regex:ab(c/", "it is no regular expression, at character 9" },
		{ "gr\xc3\xb6\xc3\x9f"
		  "e//",
		  "a name is missing, at character 7" },
		{ "A,B,C,D,E,F,G,H,I", "too many parts between commas, at character 16" },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct nvtx_expression *e = NULL;
		struct refusal r;

		assert_int_equal(nvtx_expression_parse(wrong[i].text, &e, &r),
				 GPUCTR_E_BAD_PATTERN);
		if (!strstr(r.message, wrong[i].message)) {
			fail_msg("'%s': %s", wrong[i].text, r.message);
		}
		assert_true(strlen(r.remedy) > 0);
	}
}

/* 62 names are taken, one more is not; the automaton's last bit is in use then. */
TEST(a_path_has_a_longest_one)
{
	char text[256] = "", stack[256];
	struct nvtx_expression *e;
	struct refusal r;

	for (int i = 0; i < 62; i++) {
		strcat(text, i ? "/A" : "A");
	}
	assert_true(matches(text, text));
	snprintf(stack, sizeof(stack), "%s/X", text);
	assert_true(matches(text, stack));
	assert_false(matches(text, text + 2));
	strcat(text, "/A");
	assert_int_equal(nvtx_expression_parse(text, &e, &r), GPUCTR_E_BAD_PATTERN);
	assert_non_null(strstr(r.message, "too many names"));
}
