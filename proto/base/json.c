/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/json.h"

#include <stdio.h>
#include <string.h>

#include "proto/base/utf8.h"

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

static void append_quoted(struct json *j, const char *text)
{
	char escape[8];

	append(j, "\"", 1);
	for (const char *s = text; *s;) {
		uint32_t c;
		size_t n = utf8_decode(s, 4, &c);

		if (n == 0) {
			append_string(j, "\\ufffd");
			n = 1;
		} else if (*s == '"' || *s == '\\') {
			escape[0] = '\\';
			escape[1] = *s;
			append(j, escape, 2);
		} else if (utf8_is_unsafe(c)) { /* none is beyond four digits */
			snprintf(escape, sizeof(escape), "\\u%04x", c & 0xffff);
			append_string(j, escape);
		} else {
			append(j, s, n);
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
