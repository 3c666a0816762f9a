/* SPDX-License-Identifier: Apache-2.0 */

/* PyTorch writes the parts behind the name in a fixed order, each as ", key = value". A name may
 * hold commas as well, because users choose the labels of record_function(). The name therefore
 * ends at the first comma from which the rest of the text can be read as parts. The last list may
 * be cut off, because NVTX messages have a limited length. */

#include "proto/base/site_name.h"

#include <string.h>
#include <strings.h>

static const char engine[] = "autograd::engine::evaluate_function: ";

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Returns the end of the digits at p, or NULL if there are none or more than 18. */
static const char *parse_number(const char *p, int64_t *ret)
{
	int64_t value = 0;
	int digits = 0;

	for (; is_digit(*p) && digits < 18; p++, digits++) {
		value = value * 10 + (*p - '0');
	}
	if (digits == 0 || is_digit(*p)) {
		return NULL;
	}
	*ret = value;
	return p;
}

/* Returns the end of the list at p: behind its closing bracket, or the end of the text if the list
 * is cut off. NULL: there is no list at p. */
static const char *skip_list(const char *p)
{
	size_t depth = 0;

	if (*p != '[') {
		return NULL;
	}
	for (; *p; p++) {
		if (*p == '[') {
			depth++;
		} else if (*p == ']' && --depth == 0) {
			return p + 1;
		}
	}
	return p;
}

static const char *after(const char *p, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(p, prefix, n) == 0 ? p + n : NULL;
}

static const char *parse_part(const char *p, struct site_name *name)
{
	const char *value, *end;
	int64_t op_id;

	p = after(p, ", ");
	if (!p) {
		return NULL;
	}
	if ((value = after(p, "seq = "))) {
		name->numbered = SITE_NUMBER_SEQ;
		return parse_number(value, &name->number);
	}
	if ((value = after(p, "op_id = "))) {
		return parse_number(value, &op_id);
	}
	if ((value = after(p, "input_op_ids = "))) {
		return skip_list(value);
	}
	if ((value = after(p, "sizes = "))) {
		end = skip_list(value);
		name->sizes = value;
		name->n_sizes = end ? (size_t)(end - value) : 0;
		return end;
	}
	return NULL;
}

static bool is_step_word(const char *name, size_t n)
{
	static const char *const words[] = { "iteration", "iter",	  "step",      "batch",
					     "epoch",	  "ProfilerStep", "train_step" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (n == strlen(words[i]) && strncasecmp(name, words[i], n) == 0) {
			return true;
		}
	}
	return false;
}

/* Splits a step's number from its name. Leading zeros stay in the name, so that name and number
 * together give the text again. */
static void parse_step(const char *text, struct site_name *name)
{
	size_t digits = name->n, word;

	while (digits > 0 && is_digit(text[digits - 1])) {
		digits--;
	}
	for (word = digits; word > 0 && strchr(" #:_-=", text[word - 1]); word--) {
	}
	while (digits + 1 < name->n && text[digits] == '0') {
		digits++;
	}
	if (digits == name->n || name->n - digits > 18 || !is_step_word(text, word)) {
		return;
	}
	name->number = 0;
	for (size_t i = digits; i < name->n; i++) {
		name->number = name->number * 10 + (text[i] - '0');
	}
	name->numbered = SITE_NUMBER_STEP;
	name->n = digits;
}

void site_name_parse(const char *text, struct site_name *ret)
{
	const struct site_name none = { .number = -1 };
	const char *comma = text;

	*ret = none;
	ret->n = strlen(text);
	while ((comma = strchr(comma, ','))) {
		struct site_name name = none;
		const char *p = comma;

		while (p && *p) {
			p = parse_part(p, &name);
		}
		if (p) {
			name.n = (size_t)(comma - text);
			name.is_marker = true;
			*ret = name;
			break;
		}
		comma++;
	}
	if (ret->numbered == SITE_NUMBER_NONE) {
		parse_step(text, ret);
	}
}

/* Is name a backward function's, such as "ReluBackward0" or "MyFunctionBackward"? */
static bool is_backward(const char *name, size_t n)
{
	static const char word[] = "Backward";
	size_t n_word = sizeof(word) - 1;

	while (n > 0 && is_digit(name[n - 1])) {
		n--;
	}
	return n >= n_word && memcmp(name + n - n_word, word, n_word) == 0;
}

static bool has_namespace(const char *name, size_t n)
{
	return memmem(name, n, "::", 2) != NULL;
}

/* Does the engine's text name this node? */
static bool names_node(const char *around_text, const char *text, size_t n)
{
	const char *node = around_text + sizeof(engine) - 1;

	return strncmp(node, text, n) == 0 && (node[n] == '\0' || node[n] == ',');
}

/* Only ranges of PyTorch itself are markers. An operator's marker has a namespace in its name, or a
 * sequence number; a range of record_function() has neither and is a label. */
enum site_kind site_name_kind(const struct site_name *name, const char *text, enum site_kind around,
			      const char *around_text)
{
	bool has_seq = name->numbered == SITE_NUMBER_SEQ;

	if (name->is_marker && strncmp(text, engine, sizeof(engine) - 1) == 0) {
		return SITE_ENGINE;
	}
	if (name->is_marker && around_text && around == SITE_ENGINE &&
	    names_node(around_text, text, name->n)) {
		return SITE_NODE;
	}
	if (name->is_marker && has_seq && is_backward(text, name->n)) {
		return SITE_NODE;
	}
	if (name->is_marker && (has_seq || has_namespace(text, name->n))) {
		return SITE_OPERATOR;
	}
	return name->numbered == SITE_NUMBER_STEP ? SITE_STEP : SITE_LABEL;
}

void site_name_format(struct buf *b, const char *name, const char *sizes, enum site_number numbered,
		      int64_t number)
{
	size_t n = strlen(name);

	if (numbered == SITE_NUMBER_STEP && number >= 0 && n > 0) {
		buf_add(b, name, n - 1);
		buf_i64(b, number);
	} else {
		buf_add(b, name, n);
	}
	if (numbered == SITE_NUMBER_SEQ && number >= 0) {
		buf_text(b, ", seq = ");
		buf_i64(b, number);
	}
	if (*sizes) {
		buf_text(b, ", sizes = ");
		buf_text(b, sizes);
	}
}
