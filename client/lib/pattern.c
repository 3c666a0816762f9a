/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/pattern.h"

#include <fnmatch.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/pattern.h"

struct pattern {
	enum { PATTERN_LITERAL, PATTERN_GLOB, PATTERN_REGEX } kind;
	char *text;
	regex_t regex;
};

static int compile_regex(struct pattern *p, struct refusal *r)
{
	char why[128];
	int e = regcomp(&p->regex, p->text + sizeof(PATTERN_REGEX_PREFIX) - 1,
			REG_EXTENDED | REG_NOSUB);

	if (e == 0) {
		p->kind = PATTERN_REGEX;
		return 0;
	}
	regerror(e, &p->regex, why, sizeof(why));
	refusal_set(r, GPUCTR_E_BAD_PATTERN,
		    "Write a POSIX extended regular expression behind '" PATTERN_REGEX_PREFIX "'.",
		    "'%.300s' is not taken as a regular expression: %s", p->text, why);
	return r->code;
}

int pattern_new(const char *text, struct pattern **ret, struct refusal *r)
{
	struct pattern *p = calloc(1, sizeof(*p));

	if (!p || !(p->text = strdup(text))) {
		free(p);
		refusal_set(r, GPUCTR_E_INTERNAL, "", "out of memory");
		return r->code;
	}
	if (pattern_is_regex(text)) {
		if (compile_regex(p, r) != 0) {
			pattern_free(p);
			return r->code;
		}
	} else if (pattern_is(text)) {
		p->kind = PATTERN_GLOB;
	}
	*ret = p;
	return 0;
}

struct pattern *pattern_free(struct pattern *p)
{
	if (p) {
		if (p->kind == PATTERN_REGEX) {
			regfree(&p->regex);
		}
		free(p->text);
		free(p);
	}
	return NULL;
}

const char *pattern_text(const struct pattern *p)
{
	return p->text;
}

bool pattern_is_literal(const struct pattern *p)
{
	return p->kind == PATTERN_LITERAL;
}

bool pattern_matches(const struct pattern *p, const char *name)
{
	switch (p->kind) {
	case PATTERN_REGEX:
		return regexec(&p->regex, name, 0, NULL, 0) == 0;
	case PATTERN_GLOB:
		return fnmatch(p->text, name, 0) == 0;
	default:
		return strcmp(p->text, name) == 0;
	}
}
