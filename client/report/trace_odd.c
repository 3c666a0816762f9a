/* SPDX-License-Identifier: Apache-2.0 */

/* Kineto prints numbers by the locale of the program, infinite ones and NaN as C or JavaScript
 * does, and names of files and functions often without escapes. */

#include "client/report/trace_odd.h"

#include <ctype.h>
#include <string.h>

#include "client/cli/text.h"

enum {
	STRING_BYTES_MAX = 1 << 20,
	DIGITS_MAX = 4096, /* most digits of a number */
	ESCAPE_BYTES = 5,  /* length of "u12ab" */
	SHOWN_BEFORE = 40,
	SHOWN_BEHIND = 20,
};

/* A character that no parser takes outside a string. */
#define REFUSED '\x01'

/* --- what is taken --------------------------------------------------------------------------- */

static char mend_in_string(struct trace_odd *o, char c)
{
	o->length++;
	if (o->escape > 0) {
		o->escape = o->escape == ESCAPE_BYTES && c != 'u' ? 0 : o->escape - 1;
	} else if (c == '\\') {
		o->escape = ESCAPE_BYTES;
	} else if (c == '"') {
		o->in_string = false;
	} else if ((unsigned char)c < 0x20) {
		return ' ';
	}
	return c;
}

/* NaN becomes an empty list, which no member takes as a value. Infinity, which may have a sign,
 * becomes a number too large for a double. */
static char mend_outside(struct trace_odd *o, char c)
{
	if (o->rest && *o->rest) {
		char instead = *o->rest++ == c ? *o->instead++ : REFUSED;

		o->rest = *o->rest && instead != REFUSED ? o->rest : NULL;
		return instead;
	}
	if (c == 'N') {
		o->rest = "aN";
		o->instead = "] ";
		return '[';
	}
	if (c == 'I') {
		o->rest = "nfinity";
		o->instead = "e999999";
		return '1';
	}
	o->length = c >= '0' && c <= '9' ? o->length + 1 : 0;
	if (c == '"') {
		o->in_string = true;
		o->escape = 0;
	}
	return o->length > DIGITS_MAX ? REFUSED : c;
}

static bool is_too_long(const struct trace_odd *o)
{
	return o->in_string && o->escape == 0 && o->length >= STRING_BYTES_MAX;
}

size_t trace_odd_mend(struct trace_odd *o, char *data, size_t n, size_t *ret_skip)
{
	size_t at = 0, skipped = 0;

	for (; at < n && !is_too_long(o); at++) {
		data[at] = o->in_string ? mend_in_string(o, data[at]) : mend_outside(o, data[at]);
	}
	for (; at + skipped < n && o->in_string; skipped++) {
		mend_in_string(o, data[at + skipped]);
	}
	/* The parser needs the quote at the end. */
	if (skipped > 0 && !o->in_string) {
		o->in_string = true;
		o->length = 0;
		skipped--;
	}
	*ret_skip = skipped;
	return at;
}

/* --- what is not ----------------------------------------------------------------------------- */

static bool is_word(char c)
{
	return isalnum((unsigned char)c);
}

static bool is_name(const char *at, const char *name)
{
	return strncmp(at, name, strlen(name)) == 0;
}

/* Finds the cause why the parser refused the character at `wrong`. NULL: not known. */
static const char *find_cause(const char *text, const char *wrong, const char **ret_remedy)
{
	const char *before = wrong > text ? wrong - 1 : text;

	if (*wrong == '\\' || *before == '\\') {
		*ret_remedy = "Put a second backslash before each that is in a name, or trace "
			      "without with_stack=True.";
		return "a backslash within a string has no backslash before it";
	}
	if (*before == ',' && isdigit((unsigned char)*wrong) && before > text &&
	    isdigit((unsigned char)before[-1])) {
		*ret_remedy = "Run the program with LC_ALL=C, or write points in place of these "
			      "commas.";
		return "numbers have a comma for a point";
	}
	while (before > text && *before == ' ') {
		before--;
	}
	if (*before == '"') {
		*ret_remedy = "Put a backslash before each quote that is in a name, or trace "
			      "without with_stack=True.";
		return "a quote within a string has no backslash before it";
	}
	if (is_name(wrong + (*wrong == '-'), "inf") || is_name(wrong + (*wrong == '-'), "nan")) {
		*ret_remedy = "Write null in place of each inf and nan.";
		return "JSON has no number inf or nan";
	}
	return NULL;
}

/* Reads the text before and behind an offset. */
static void read_shown(gzFile text, uint64_t at, char before[SHOWN_BEFORE + 1],
		       char behind[SHOWN_BEHIND + 1])
{
	uint64_t begin = at > SHOWN_BEFORE ? at - SHOWN_BEFORE : 0;
	int64_t n = trace_text_seek(text, begin);

	n = n ? 0 : trace_text_next(text, before, (size_t)(at - begin));
	before[n > 0 ? n : 0] = '\0';
	n = trace_text_next(text, behind, SHOWN_BEHIND);
	behind[n > 0 ? n : 0] = '\0';
}

void trace_odd_explain(gzFile text, uint64_t at, struct buf *why, const char **ret_remedy)
{
	char shown[SHOWN_BEFORE + SHOWN_BEHIND + 1] = "", behind[SHOWN_BEHIND + 1];
	char *wrong = shown;
	const char *cause;

	at -= at > 0;
	read_shown(text, at, shown, behind);
	wrong += strlen(shown);
	memcpy(wrong, behind, strlen(behind) + 1);
	while (wrong > shown && is_word(*wrong) && is_word(wrong[-1])) {
		wrong--;
		at--;
	}
	cause = find_cause(shown, wrong, ret_remedy);
	buf_printf(why, "it is not JSON at byte %llu", (unsigned long long)at);
	if (cause) {
		buf_printf(why, " (%s)", cause);
	}
	memcpy(behind, wrong, strlen(behind));
	*wrong = '\0';
	buf_text(why, ": ");
	text_terminal(why, shown);
	buf_text(why, " <here> ");
	text_terminal(why, behind);
}

void trace_odd_explain_end(gzFile text, uint64_t end, struct buf *why)
{
	char shown[SHOWN_BEFORE + 1], behind[SHOWN_BEHIND + 1];

	read_shown(text, end, shown, behind);
	buf_printf(why,
		   "it is not whole JSON and ends at byte %llu, after: ", (unsigned long long)end);
	text_terminal(why, shown);
}
