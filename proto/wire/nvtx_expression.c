/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/nvtx_expression.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/utf8.h"
#include "proto/wire/expression.h"
#include "proto/wire/limits.h"
#include "proto/wire/pattern.h"

/* A term about push/pop ranges is a path: names, and "*" and "+" between them. An automaton reads a
 * thread's stack from the bottom up and has a bit for each position of the path: bit i is set when
 * the first i parts of the path have matched, and the bit after the last part means that the term
 * holds. The state for a stack follows from the state below its topmost range, so a caller that
 * keeps a state with each range compares each range once, however many launches are inside. Each
 * domain has its own stack: ranges of other domains do not change the state. */

enum { PARTS_MAX = 62 };

enum part_kind {
	PART_NAME,
	PART_REGEX,
	PART_ANY, /* "*": any number of ranges, also none */
	PART_ONE, /* "+": any one range */
};

struct part {
	enum part_kind kind;
	char *text; /* of a name or a regular expression */
	regex_t regex;
};

struct term {
	bool started, bottom, top, has_domain;
	struct part domain;
	struct part path[PARTS_MAX];
	size_t n;
};

struct nvtx_expression {
	struct term *terms[NVTX_TERMS_MAX];
	size_t n;
};

/* --- reading --- */

struct reader {
	const char *text, *s;
	const char *wrong, *why; /* place and reason of the refusal; NULL: none */
	bool no_memory;
};

static bool fail(struct reader *in, const char *at, const char *why)
{
	in->wrong = at;
	in->why = why;
	return false;
}

static bool ends_term(char c)
{
	return c == '\0' || c == ',';
}

/* Is s at the end of a part? At the end of a term "]" means that the range before it is the
 * topmost. */
static bool ends_part(const char *s)
{
	return ends_term(*s) || *s == '/' || *s == '@' || (*s == ']' && ends_term(s[1]));
}

/* The length of the bracket expression or repetition of a regular expression at s, whose commas and
 * slashes do not end a part; 0: there is none. */
static size_t count_regex_unit(const char *s)
{
	const char *end = NULL;

	if (*s == '[') {
		return (size_t)(expression_skip_bracket(s) - s);
	}
	end = *s == '{' ? strchr(s, '}') : NULL;
	return end ? (size_t)(end - s) + 1 : 0;
}

/* Copies the text of a part to out, which has room for the rest of the expression. */
static bool read_text(struct reader *in, bool is_regex, char *out)
{
	while (!ends_part(in->s)) {
		size_t unit = is_regex ? count_regex_unit(in->s) : 0;

		if (unit > 0) {
			memcpy(out, in->s, unit);
			out += unit;
			in->s += unit;
			continue;
		}
		if (*in->s == '\\' && in->s[1] == '\0') {
			return fail(in, in->s, "nothing follows the backslash");
		}
		if (*in->s == '\\') {
			/* Removes a backslash of our grammar; a backslash of the regular expression
			 * stays. */
			if (is_regex && !strchr("/,@", in->s[1])) {
				*out++ = '\\';
			}
			in->s++;
		}
		*out++ = *in->s++;
	}
	*out = '\0';
	return true;
}

static bool compile(struct reader *in, struct part *p, const char *at)
{
	struct refusal r;

	if (expression_compile(&p->regex, p->text, &r) != 0) {
		return fail(in, at + expression_wrong_at(p->text) - 1,
			    "it is no regular expression");
	}
	p->kind = PART_REGEX;
	return true;
}

static bool read_part(struct reader *in, struct part *p)
{
	bool is_regex = pattern_is_regex(in->s);
	const char *begin;

	in->s += is_regex ? sizeof(PATTERN_REGEX_PREFIX) - 1 : 0;
	begin = in->s;
	p->text = malloc(strlen(begin) + 1);
	if (!p->text) {
		in->no_memory = true;
		return false;
	}
	if (!read_text(in, is_regex, p->text)) {
		return false;
	}
	if (in->s == begin) {
		return fail(in, begin, "a name is missing");
	}
	if (is_regex) {
		return compile(in, p, begin);
	}
	if (in->s == begin + 1 && (*begin == '*' || *begin == '+')) {
		p->kind = *begin == '*' ? PART_ANY : PART_ONE;
	}
	return true;
}

static bool is_wildcard(const struct part *p)
{
	return p->kind == PART_ANY || p->kind == PART_ONE;
}

static bool read_bottom(struct reader *in, struct term *t)
{
	bool here = *in->s == '[' && !t->bottom;

	t->bottom |= here;
	in->s += here;
	return here;
}

/* Reads the domain, if there is one, and the first name. */
static bool read_first(struct reader *in, struct term *t)
{
	const char *at;

	read_bottom(in, t);
	at = in->s;
	t->n = 1;
	if (!read_part(in, &t->path[0])) {
		return false;
	}
	if (is_wildcard(&t->path[0])) {
		return fail(in, at, "'*' and '+' stand between two names");
	}
	if (*in->s != '@') {
		return true;
	}
	t->has_domain = true;
	t->domain = t->path[0];
	t->path[0] = (struct part){ .kind = PART_NAME };
	in->s++;
	read_bottom(in, t);
	at = in->s;
	return read_part(in, &t->path[0]) &&
	       (!is_wildcard(&t->path[0]) || fail(in, at, "'*' and '+' stand between two names"));
}

static bool read_more(struct reader *in, struct term *t, bool *is_path)
{
	const char *at = in->s;

	while (*in->s == '/') {
		*is_path = true;
		at = ++in->s;
		if (ends_term(*in->s)) {
			break;
		}
		if (t->n == PARTS_MAX) {
			return fail(in, at, "it has too many names");
		}
		if (!read_part(in, &t->path[t->n++])) {
			return false;
		}
	}
	if (is_wildcard(&t->path[t->n - 1])) {
		return fail(in, at, "'*' and '+' stand between two names");
	}
	return *in->s != '@' || fail(in, in->s,
				     "a domain stands before the first name of a path, "
				     "and a character '@' behind a backslash");
}

static bool read_term(struct reader *in, struct term *t)
{
	bool is_path = false;

	if (!read_first(in, t) || !read_more(in, t, &is_path)) {
		return false;
	}
	if (*in->s == ']') {
		t->top = true;
		in->s++;
	}
	t->started = !is_path && !t->bottom && !t->top;
	return true;
}

static bool read_all(struct reader *in, struct nvtx_expression *e)
{
	do {
		struct term *t = calloc(1, sizeof(*t));

		if (!t) {
			in->no_memory = true;
			return false;
		}
		in->s += e->n > 0; /* the comma */
		e->terms[e->n++] = t;
		if (!read_term(in, t)) {
			return false;
		}
		if (*in->s == ',' && e->n == NVTX_TERMS_MAX) {
			return fail(in, in->s, "it has too many parts between commas");
		}
	} while (*in->s == ',');
	return true;
}

static int refuse(const struct reader *in, struct refusal *r)
{
	size_t at = utf8_count(in->text, (size_t)(in->wrong - in->text)) + 1;

	if (in->no_memory) {
		refusal_set(r, GPUCTR_E_INTERNAL, "", "out of memory");
	} else {
		refusal_set(r, GPUCTR_E_BAD_PATTERN,
			    "Write A/ for a push/pop range, A/B for one in another, A for a "
			    "start/end range, DOMAIN@A/ with a domain, as gpuctr-client(1) says.",
			    "'%.200s' is not taken as an NVTX expression: %s, at character %zu",
			    in->text, in->why, at);
	}
	return r->code;
}

int nvtx_expression_parse(const char *text, struct nvtx_expression **ret, struct refusal *r)
{
	struct nvtx_expression *e = calloc(1, sizeof(*e));
	struct reader in = { .text = text, .s = text, .wrong = text, .no_memory = !e };

	if (e && strlen(text) > LIMIT_TEXT_BYTES) {
		fail(&in, text, "it is too long");
	} else if (e && read_all(&in, e)) {
		*ret = e;
		return 0;
	}
	nvtx_expression_free(e);
	return refuse(&in, r);
}

static void part_deinit(struct part *p)
{
	if (p->kind == PART_REGEX) {
		regfree(&p->regex);
	}
	free(p->text);
}

struct nvtx_expression *nvtx_expression_free(struct nvtx_expression *e)
{
	for (size_t i = 0; e && i < e->n; i++) {
		struct term *t = e->terms[i];

		part_deinit(&t->domain);
		for (size_t k = 0; k < t->n; k++) {
			part_deinit(&t->path[k]);
		}
		free(t);
	}
	free(e);
	return NULL;
}

/* --- matching --- */

static bool part_means(const struct part *p, const char *text)
{
	return p->kind == PART_REGEX ? expression_matches(&p->regex, text)
				     : strcmp(p->text, text) == 0;
}

static bool is_of_domain(const struct term *t, const char *domain)
{
	return t->has_domain ? part_means(&t->domain, domain) : domain[0] == '\0';
}

size_t nvtx_expression_n_terms(const struct nvtx_expression *e)
{
	return e->n;
}

bool nvtx_term_is_started(const struct nvtx_expression *e, size_t term)
{
	return e->terms[term]->started;
}

bool nvtx_term_names(const struct nvtx_expression *e, size_t term, const char *domain,
		     const char *message)
{
	const struct term *t = e->terms[term];

	return is_of_domain(t, domain) && part_means(&t->path[0], message);
}

static uint64_t bit(size_t i)
{
	return (uint64_t)1 << i;
}

/* "*" may stand for no range. */
static uint64_t skip_any(const struct term *t, uint64_t state)
{
	for (size_t i = 0; i < t->n; i++) {
		if ((state & bit(i)) != 0 && t->path[i].kind == PART_ANY) {
			state |= bit(i + 1);
		}
	}
	return state;
}

uint64_t nvtx_term_begin(const struct nvtx_expression *e, size_t term)
{
	return skip_any(e->terms[term], bit(0));
}

static uint64_t advance_one(const struct term *t, size_t i, const char *message)
{
	switch (t->path[i].kind) {
	case PART_ANY:
		return bit(i);
	case PART_ONE:
		return bit(i + 1);
	default:
		return part_means(&t->path[i], message) ? bit(i + 1) : 0;
	}
}

uint64_t nvtx_term_advance(const struct nvtx_expression *e, size_t term, uint64_t state,
			   const char *domain, const char *message)
{
	const struct term *t = e->terms[term];
	uint64_t next = t->bottom ? 0 : bit(0);

	if (!is_of_domain(t, domain)) {
		return state;
	}
	for (size_t i = 0; i < t->n; i++) {
		if ((state & bit(i)) != 0) {
			next |= advance_one(t, i, message);
		}
	}
	if (!t->top) {
		next |= state & bit(t->n);
	}
	return skip_any(t, next);
}

bool nvtx_term_holds(const struct nvtx_expression *e, size_t term, uint64_t state)
{
	const struct term *t = e->terms[term];

	return (state & bit(t->n)) != 0;
}
