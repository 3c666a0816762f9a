/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/json.h"

#include <stdio.h>
#include <string.h>

static void append(struct json *j, const char *text, size_t n)
{
	if (j->error == 0) {
		j->error = buffer_append(j->out, text, n);
	}
}

static void append_string(struct json *j, const char *text)
{
	append(j, text, strlen(text));
}

/* Length of the UTF-8 sequence that s begins with; 0: it begins with none. Overlong forms and
 * surrogates are none. */
static size_t sequence_length(const unsigned char *s)
{
	size_t n = *s < 0x80   ? 1
		   : *s < 0xc2 ? 0
		   : *s < 0xe0 ? 2
		   : *s < 0xf0 ? 3
		   : *s < 0xf5 ? 4
			       : 0;

	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80) {
			return 0;
		}
	}
	if ((*s == 0xe0 && s[1] < 0xa0) || (*s == 0xed && s[1] > 0x9f) ||
	    (*s == 0xf0 && s[1] < 0x90) || (*s == 0xf4 && s[1] > 0x8f)) {
		return 0;
	}
	return n;
}

static void append_quoted(struct json *j, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	char escape[8];

	append(j, "\"", 1);
	while (*s) {
		size_t n = sequence_length(s);

		if (n == 0) {
			append_string(j, "\\ufffd");
			n = 1;
		} else if (*s == '"' || *s == '\\') {
			escape[0] = '\\';
			escape[1] = (char)*s;
			append(j, escape, 2);
		} else if (*s < ' ' || *s == 0x7f) {
			snprintf(escape, sizeof(escape), "\\u%04x", *s);
			append_string(j, escape);
		} else {
			append(j, (const char *)s, n);
		}
		s += n;
	}
	append(j, "\"", 1);
}

static void append_key(struct json *j, const char *key)
{
	append(j, j->n++ ? "," : "{", 1);
	append_quoted(j, key);
	append(j, ":", 1);
}

void json_begin(struct json *j, struct buffer *out)
{
	*j = (struct json){ .out = out };
}

void json_text(struct json *j, const char *key, const char *value)
{
	append_key(j, key);
	append_quoted(j, value);
}

void json_number(struct json *j, const char *key, uint64_t value)
{
	char digits[24];

	append_key(j, key);
	snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value);
	append_string(j, digits);
}

void json_texts(struct json *j, const char *key, const char *const *values, size_t n)
{
	append_key(j, key);
	append(j, "[", 1);
	for (size_t i = 0; i < n; i++) {
		append(j, ",", i ? 1 : 0);
		append_quoted(j, values[i]);
	}
	append(j, "]", 1);
}

int json_end(struct json *j)
{
	if (j->n == 0) {
		append(j, "{", 1);
	}
	append(j, "}\n", 2);
	return j->error;
}
