/* SPDX-License-Identifier: Apache-2.0 */

/* Expressions are compiled into steps for a stack, with the unit of each part beside it, so that
 * what cannot be right is refused where it stands and before any row is computed.
 *
 *	sum	= product { ("+" | "-") product }	units must be equal
 *	product	= sign { ("*" | "/") sign }
 *	sign	= { "-" } atom
 *	atom	= number | name | "(" sum ")"
 *
 * An expression over time takes all its values from launches whose time is known, as rates do; any
 * other takes those of all launches. A sum that does not have all of these launches is not known.
 * Of a ratio, whose sum means nothing, the mean is taken.
 *
 * Where only some launches were measured, sums and means are the estimates of all launches. How
 * they depend on each other is not kept, so the value has no error. */

#include "client/report/define.h"
#include "client/report/define_steps.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/quantity.h"
#include "proto/base/near.h"

enum { DEPTH_MAX = 32, WORD_BYTES = 256 };

/* --- what is wrong --------------------------------------------------------------------------- */

struct parser {
	const struct define_source *source;
	const struct measure *measures;
	size_t n_measures;
	struct derived *derived;
	size_t n_derived;
	struct texts *owner;
	unsigned line;
	const char *begin, *at; /* of the line */
	unsigned depth;
	struct define *define;
	struct buf *why;
};

/* Shows the line with a mark below the position. */
static bool refuse(struct parser *p, const char *at, const char *what)
{
	CLEAN_BUF struct buf before = { 0 }, line = { 0 };
	size_t left = (size_t)(at - p->begin);
	char *head = strndup(p->begin, left);
	char *whole = strndup(p->begin, strcspn(p->begin, "\r\n"));

	text_terminal(p->why, p->source->path);
	buf_printf(p->why, ":%u: %s\n  ", p->line, what);
	text_terminal(&line, whole ? whole : "");
	text_terminal(&before, head ? head : "");
	buf_text(p->why, buf_string(&line));
	buf_printf(p->why, "\n  %*s^", (int)text_width(before.n ? before.data : "", before.n), "");
	free(head);
	free(whole);
	return false;
}

static bool refuse_units(struct parser *p, const char *at, const struct quantity *left,
			 const struct quantity *right)
{
	CLEAN_BUF struct buf what = { 0 };

	buf_text(&what, "units clash: '");
	quantity_format(left, &what);
	buf_text(&what, "' and '");
	quantity_format(right, &what);
	buf_text(&what, "' cannot be added");
	refuse(p, at, buf_string(&what));
	return false;
}

static bool refuse_name(struct parser *p, const char *at, const char *name)
{
	CLEAN_BUF struct buf what = { 0 };
	struct near near;

	near_init(&near, name, strlen(name));
	near_offer(&near, "launches");
	near_offer(&near, "peak_bytes");
	for (size_t i = 0; i < p->n_measures; i++) {
		near_offer(&near, p->measures[i].name);
	}
	for (size_t i = 0; i < p->n_derived; i++) {
		near_offer(&near, p->derived[i].name);
	}
	buf_text(&what, "the captures have no '");
	buf_text(&what, name);
	buf_char(&what, '\'');
	if (near_best(&near)) {
		buf_printf(&what, "; did you mean '%s'?", near_best(&near));
	}
	refuse(p, at, buf_string(&what));
	return false;
}

/* --- the expression -------------------------------------------------------------------------- */

static void skip_blanks(struct parser *p)
{
	while (*p->at == ' ' || *p->at == '\t') {
		p->at++;
	}
}

static bool add_step(struct parser *p, const char *at, struct step step)
{
	if (p->define->n == STEPS_MAX) {
		return refuse(p, at, "the expression is too long: define a part of it first");
	}
	p->define->steps[p->define->n++] = step;
	return true;
}

/* A metric's name may go without its ".sum". */
static size_t find_measure(const struct parser *p, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < p->n_measures; i++) {
		const char *measure = p->measures[i].name;

		if (strncmp(measure, name, n) == 0 &&
		    (measure[n] == '\0' || strcmp(measure + n, ".sum") == 0)) {
			return i;
		}
	}
	return SIZE_MAX;
}

static const struct derived *find_derived(const struct parser *p, const char *name)
{
	for (size_t i = 0; i < p->n_derived; i++) {
		if (strcmp(p->derived[i].name, name) == 0) {
			return &p->derived[i];
		}
	}
	return NULL;
}

static bool take_name(struct parser *p, const char *at, const char *name, struct step *step,
		      const char **ret_unit)
{
	size_t i = find_measure(p, name);

	*step = (struct step){ .number = 1 };
	if (strcmp(name, "launches") == 0) {
		step->kind = STEP_LAUNCHES;
		*ret_unit = "";
	} else if (strcmp(name, "peak_bytes") == 0) {
		step->kind = STEP_PEAK_BYTES;
		*ret_unit = "byte";
		p->define->timed = true;
	} else if (i != SIZE_MAX) {
		step->kind = p->measures[i].adds_up ? STEP_SUM : STEP_MEAN;
		step->measure = i;
		*ret_unit = p->measures[i].unit;
		p->define->timed |= i == MEASURE_TIME;
	} else if ((step->derived = find_derived(p, name))) {
		step->kind = STEP_DERIVED;
		*ret_unit = step->derived->unit;
	} else {
		return refuse_name(p, at, name);
	}
	return true;
}

/* Takes the word at the position; its length, 0: there is none. */
static size_t take_word(struct parser *p, char word[WORD_BYTES])
{
	size_t n = 0;

	if (isalpha((unsigned char)*p->at) || *p->at == '_') {
		while (isalnum((unsigned char)p->at[n]) || p->at[n] == '_' || p->at[n] == '.') {
			n++;
		}
	}
	if (n >= WORD_BYTES) {
		return 0;
	}
	memcpy(word, p->at, n);
	word[n] = '\0';
	p->at += n;
	return n;
}

static bool parse_name(struct parser *p, struct quantity *ret)
{
	const char *at = p->at, *unit;
	char word[WORD_BYTES];
	struct step step;
	double scale;

	if (take_word(p, word) == 0) {
		return refuse(p, at, "a number, a name or '(' is expected here");
	}
	if (!take_name(p, at, word, &step, &unit)) {
		return false;
	}
	if (!quantity_parse(unit, ret, &scale)) {
		return refuse(p, at, "its unit has too many parts to compute with");
	}
	step.number = scale;
	return add_step(p, at, step);
}

static bool parse_number(struct parser *p, struct quantity *ret)
{
	const char *at = p->at;
	char *end;
	double value = strtod(at, &end);

	*ret = (struct quantity){ 0 };
	if (!isfinite(value)) {
		return refuse(p, at, "the number is too large");
	}
	p->at = end;
	if (isalnum((unsigned char)*end) || *end == '_') {
		return refuse(p, end, "an operator is expected behind a number");
	}
	return add_step(p, at, (struct step){ .kind = STEP_NUMBER, .number = value });
}

static bool parse_sum(struct parser *p, struct quantity *ret);

static bool parse_parentheses(struct parser *p, struct quantity *ret)
{
	const char *at = p->at++;

	if (++p->depth > DEPTH_MAX) {
		return refuse(p, at, "parentheses are nested too deep");
	}
	if (!parse_sum(p, ret)) {
		return false;
	}
	p->depth--;
	if (*p->at != ')') {
		return refuse(p, at, "this '(' is not closed");
	}
	p->at++;
	return true;
}

static bool parse_sign(struct parser *p, struct quantity *ret)
{
	const char *at;
	bool negative = false, ok;

	for (skip_blanks(p); *p->at == '-'; skip_blanks(p)) {
		negative = !negative;
		p->at++;
	}
	at = p->at;
	ok = *at == '('					 ? parse_parentheses(p, ret)
	     : isdigit((unsigned char)*at) || *at == '.' ? parse_number(p, ret)
							 : parse_name(p, ret);
	if (ok && negative) {
		ok = add_step(p, at, (struct step){ .kind = STEP_NUMBER, .number = -1 }) &&
		     add_step(p, at, (struct step){ .kind = STEP_MULTIPLY });
	}
	skip_blanks(p);
	return ok;
}

static bool parse_product(struct parser *p, struct quantity *ret)
{
	bool ok = parse_sign(p, ret);

	while (ok && (*p->at == '*' || *p->at == '/')) {
		const char *at = p->at++;
		bool divides = *at == '/';
		struct quantity right;

		ok = parse_sign(p, &right);
		if (ok && !quantity_multiply(ret, &right, divides ? -1 : 1)) {
			ok = refuse(p, at, "the unit of this has too many parts");
		}
		ok = ok && add_step(p, at,
				    (struct step){ .kind = divides ? STEP_DIVIDE : STEP_MULTIPLY });
	}
	return ok;
}

static bool parse_sum(struct parser *p, struct quantity *ret)
{
	bool ok = parse_product(p, ret);

	while (ok && (*p->at == '+' || *p->at == '-')) {
		const char *at = p->at++;
		struct quantity right;

		ok = parse_product(p, &right);
		if (ok && !quantity_equal(ret, &right)) {
			ok = refuse_units(p, at, ret, &right);
		}
		ok = ok && add_step(p, at,
				    (struct step){ .kind = *at == '+' ? STEP_ADD : STEP_SUBTRACT });
	}
	return ok;
}

/* --- the file -------------------------------------------------------------------------------- */

static bool is_line_end(char c)
{
	return c == '\0' || c == '\n' || c == '\r' || c == '#';
}

static bool take_new_name(struct parser *p, struct derived *d)
{
	const char *at = p->at;
	char word[WORD_BYTES];

	if (take_word(p, word) == 0) {
		return refuse(p, at, "a line is NAME = EXPRESSION");
	}
	if (strcmp(word, "launches") == 0 || strcmp(word, "peak_bytes") == 0 ||
	    find_measure(p, word) != SIZE_MAX || find_derived(p, word)) {
		return refuse(p, at, "a column of this name is there already");
	}
	if (p->n_derived == DERIVED_MAX) {
		return refuse(p, at, "there are too many definitions");
	}
	skip_blanks(p);
	if (*p->at != '=') {
		return refuse(p, p->at, "'=' is expected here");
	}
	p->at++;
	d->name = texts_add_string(p->owner, word);
	return d->name || refuse(p, at, "out of memory");
}

static bool parse_line(struct parser *p)
{
	struct derived d = { .kind = DERIVED_DEFINED };
	struct quantity unit;
	CLEAN_BUF struct buf text = { 0 };

	p->define = texts_take(p->owner, sizeof(*p->define));
	if (!p->define) {
		return refuse(p, p->at, "out of memory");
	}
	p->depth = 0;
	if (!take_new_name(p, &d) || !parse_sum(p, &unit)) {
		return false;
	}
	if (!is_line_end(*p->at)) {
		return refuse(p, p->at, "an operator or the end of the line is expected here");
	}
	quantity_format(&unit, &text);
	d.unit = texts_add_string(p->owner, buf_string(&text));
	d.define = p->define;
	p->derived[p->n_derived++] = d;
	return d.unit || refuse(p, p->begin, "out of memory");
}

int define_columns(const struct define_source *source, const struct measure *measures,
		   size_t n_measures, struct texts *owner, struct derived *derived, size_t *n,
		   struct buf *why)
{
	struct parser p = { .source = source,
			    .measures = measures,
			    .n_measures = n_measures,
			    .derived = derived,
			    .n_derived = *n,
			    .owner = owner,
			    .why = why };
	const char *next = source->text;

	while (*next) {
		p.begin = p.at = next;
		p.line++;
		next += strcspn(next, "\n");
		next += *next == '\n';
		skip_blanks(&p);
		if (!is_line_end(*p.at) && !parse_line(&p)) {
			return -EINVAL;
		}
	}
	*n = p.n_derived;
	return 0;
}
