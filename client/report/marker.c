/* SPDX-License-Identifier: Apache-2.0 */

/* PyTorch writes the parts behind the name in a fixed order, each as ", key = value". A name may
 * hold commas as well, because users choose the labels of record_function(). The name therefore
 * ends at the first comma from which the rest of the message can be read as parts. The last list
 * may be cut off, because NVTX messages have a limited length. */

#include "client/report/marker.h"

#include <string.h>
#include <strings.h>

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

/* Returns the end of the list at p: behind its closing bracket, or the end of the message if the
 * list is cut off. NULL: there is no list at p. */
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
	while (*prefix && *p == *prefix) {
		p++;
		prefix++;
	}
	return *prefix ? NULL : p;
}

static const char *parse_part(const char *p, struct marker *m)
{
	const char *value, *end;

	p = after(p, ", ");
	if (!p) {
		return NULL;
	}
	if ((value = after(p, "seq = "))) {
		return parse_number(value, &m->seq);
	}
	if ((value = after(p, "op_id = "))) {
		return parse_number(value, &m->op_id);
	}
	if ((value = after(p, "input_op_ids = "))) {
		return skip_list(value);
	}
	if ((value = after(p, "sizes = "))) {
		end = skip_list(value);
		m->sizes = value;
		m->n_sizes = end ? (size_t)(end - value) : 0;
		return end;
	}
	return NULL;
}

void marker_parse(const char *message, struct marker *ret)
{
	const struct marker none = { .seq = -1, .op_id = -1 };
	const char *comma = message;

	while ((comma = strchr(comma, ','))) {
		struct marker m = none;
		const char *p = comma;

		while (p && *p) {
			p = parse_part(p, &m);
		}
		if (p) {
			m.n_name = (size_t)(comma - message);
			m.found = true;
			*ret = m;
			return;
		}
		comma++;
	}
	*ret = none;
	ret->n_name = strlen(message);
}

static size_t skip_digits(const char *text, size_t n, size_t i)
{
	while (i < n && text[i] >= '0' && text[i] <= '9') {
		i++;
	}
	return i;
}

bool marker_is_list(const char *sizes, size_t n)
{
	enum { OPENED, ITEM, COMMA } before = COMMA;
	size_t depth = 0;

	for (size_t i = 0; i < n; i++) {
		char c = sizes[i];

		if (c == ' ') {
			continue;
		}
		if (before == ITEM && depth > 0 && (c == ',' || c == ']')) {
			depth -= c == ']';
			before = c == ',' ? COMMA : ITEM;
		} else if (before == OPENED && c == ']') {
			depth--;
			before = ITEM;
		} else if (before != ITEM && c == '[') {
			depth++;
			before = OPENED;
		} else if (before != ITEM && depth > 0 && c >= '0' && c <= '9') {
			size_t end = skip_digits(sizes, n, i);

			if (c == '0' && end > i + 1) {
				return false;
			}
			i = end - 1;
			before = ITEM;
		} else {
			return false;
		}
	}
	return depth == 0 && before == ITEM;
}

bool marker_format_sizes(const char *sizes, size_t n, char *text, size_t max)
{
	size_t used = 0, keep = 0;
	int depth = 0;

	text[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		char c = sizes[i];

		if (c == ' ' || (c == ',' && depth < 2)) {
			continue;
		}
		depth += c == '[';
		if (depth >= 2) {
			if (used + 3 >= max) {
				break;
			}
			if (c == '[' && depth == 2 && used > 0) {
				text[used++] = ' ';
			}
			text[used++] = c;
		}
		depth -= c == ']';
		if (c == ']' && depth == 1 && text[used - 2] != '[') {
			keep = used;
		}
	}
	/* If all sizes are empty the first "[]" stands for all. */
	keep = keep == 0 && used >= 2 ? 2 : keep;
	text[keep] = '\0';
	return depth == 0;
}

bool marker_is_step(const char *name, size_t n)
{
	static const char *const words[] = { "iteration", "iter",	  "step",      "batch",
					     "epoch",	  "ProfilerStep", "train_step" };
	size_t digits = n;

	while (digits > 0 && is_digit(name[digits - 1])) {
		digits--;
	}
	if (digits == n || digits == 0) {
		return false;
	}
	n = digits;
	while (n > 0 && strchr(" #:_-=", name[n - 1])) {
		n--;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (n == strlen(words[i]) && strncasecmp(name, words[i], n) == 0) {
			return true;
		}
	}
	return false;
}

bool marker_is_backward(const char *name, size_t n)
{
	static const char word[] = "Backward";
	size_t n_word = sizeof(word) - 1;

	while (n > 0 && is_digit(name[n - 1])) {
		n--;
	}
	return n >= n_word && memcmp(name + n - n_word, word, n_word) == 0;
}
