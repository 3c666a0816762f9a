/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/expression.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/own_stack.h"
#include "proto/base/utf8.h"

/* Client, front and agent accept the same expressions, so that a wrong one is refused before the
 * program starts. glibc's regcomp() writes repetitions out: "x{50}" is fifty copies of x, "x+" two,
 * and nested ones multiply. The product of all repetitions is bounded before regcomp() is called,
 * because the front must answer other users. A "+" after a single character adds only that
 * character and is not counted. */

enum { COPIED_BYTES_MAX = 2048 };

const char *expression_skip_bracket(const char *s)
{
	s += s[1] == '^' ? 2 : 1;
	s += *s == ']';
	while (*s && *s != ']') {
		const char *class_end = NULL;

		if (*s == '[' && (s[1] == ':' || s[1] == '.' || s[1] == '=')) {
			const char end[] = { s[1], ']', '\0' };

			class_end = strstr(s + 2, end);
		}
		s = class_end ? class_end + 2 : s + 1;
	}
	return *s ? s + 1 : s;
}

/* The number of copies that "{n,m}" makes; s is at the brace. */
static size_t count_copies(const char *s)
{
	char *end;
	unsigned long least = strtoul(s + 1, &end, 10), most = least;

	if (*end == ',') {
		most = isdigit((unsigned char)end[1]) ? strtoul(end + 1, NULL, 10) : least + 1;
	}
	most = most > least ? most : least;
	return most > 1 ? most : 1;
}

static bool is_costly(const char *text)
{
	size_t bytes = strlen(text);
	bool repeats_much = false; /* the repeated part is a group, or has a repetition */

	for (const char *s = text; *s && bytes <= COPIED_BYTES_MAX;) {
		size_t copies = *s == '{' ? count_copies(s) : *s == '+' && repeats_much ? 2 : 1;

		bytes = copies > COPIED_BYTES_MAX ? SIZE_MAX : bytes * copies;
		repeats_much = *s && strchr(")}*+?", *s);
		if (*s == '[') {
			s = expression_skip_bracket(s);
		} else {
			s += *s == '\\' && s[1] ? 2 : 1;
		}
	}
	return bytes > COPIED_BYTES_MAX;
}

static int refuse(struct refusal *r, const char *text, const char *why)
{
	refusal_set(r, GPUCTR_E_BAD_PATTERN,
		    "Write a POSIX extended regular expression, quoted from the shell; a backslash "
		    "before one of ( ) [ ] { } . * + ? | ^ $ takes it as it is.",
		    "'%.200s' is not taken as a regular expression: %s", text, why);
	return r->code;
}

int expression_compile(regex_t *ret, const char *text, struct refusal *r)
{
	char why[128];
	int e;

	if (is_costly(text)) {
		return refuse(r, text, "its repetitions multiply to too much");
	}
	e = regcomp(ret, text, REG_EXTENDED | REG_NOSUB);
	if (e != 0) {
		regerror(e, ret, why, sizeof(why));
		return refuse(r, text, why);
	}
	return 0;
}

struct match {
	const regex_t *regex;
	const char *text;
	bool matches;
};

static void match(void *argument)
{
	struct match *m = argument;

	m->matches = regexec(m->regex, m->text, 0, NULL, 0) == 0;
}

bool expression_matches(const regex_t *regex, const char *text)
{
	struct match m = { regex, text, false };

	return own_stack_run(OWN_STACK_BYTES, match, &m) && m.matches;
}

/* The fault is at the end of the longest prefix that compiles. A prefix that contains a "(" without
 * its ")" does not compile. */
size_t expression_wrong_at(const char *text)
{
	size_t n = strlen(text);
	char *part = strdup(text);
	regex_t regex;

	while (part && n > 0) {
		part[--n] = '\0';
		if (!is_costly(part) && regcomp(&regex, part, REG_EXTENDED | REG_NOSUB) == 0) {
			regfree(&regex);
			break;
		}
	}
	free(part);
	return utf8_count(text, n) + 1;
}
