/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/json.h"

#include <math.h>

#include "proto/base/utf8.h"

/* --- text: the common case, a run of plain bytes, is copied as a whole -------------------------
 */

static void escape(struct buf *b, uint32_t c)
{
	switch (c) {
	case '"':
		buf_add(b, "\\\"", 2);
		return;
	case '\\':
		buf_add(b, "\\\\", 2);
		return;
	case '\n':
		buf_add(b, "\\n", 2);
		return;
	case '\t':
		buf_add(b, "\\t", 2);
		return;
	case '\r':
		buf_add(b, "\\r", 2);
		return;
	default:
		buf_printf(b, "\\u%04x", c);
	}
}

void json_string_part(struct buf *b, const char *text, size_t length)
{
	const unsigned char *p = (const unsigned char *)text;
	const unsigned char *end = p + length;
	const unsigned char *from = p;

	while (p < end) {
		uint32_t c;
		size_t n;

		if (*p >= 0x20 && *p < 0x7f && *p != '"' && *p != '\\') {
			p++;
			continue;
		}
		n = utf8_decode((const char *)p, (size_t)(end - p), &c);
		if (n > 1 && !utf8_is_unsafe(c)) {
			p += n;
			continue;
		}
		buf_add(b, (const char *)from, (size_t)(p - from));
		if (n > 0) {
			escape(b, c);
		} else {
			buf_add(b, "\xef\xbf\xbd", 3);
		}
		p += n ? n : 1;
		from = p;
	}
	buf_add(b, (const char *)from, (size_t)(p - from));
}

void json_string_body(struct buf *b, const char *text)
{
	json_string_part(b, text ? text : "", text ? strlen(text) : 0);
}

void json_string(struct buf *b, const char *text)
{
	buf_char(b, '"');
	json_string_body(b, text);
	buf_char(b, '"');
}

/* --- members --------------------------------------------------------------------------------- */

void json_add(struct json *m, const struct buf *text)
{
	if (text->n > 0) {
		json_key(m, NULL);
		buf_add(m->b, text->data, text->n);
	}
	m->b->failed |= text->failed;
}

void json_key_text(struct json *m, const char *key)
{
	json_key(m, NULL);
	json_string(m->b, key);
	buf_char(m->b, ':');
}

void json_text(struct json *m, const char *key, const char *value)
{
	json_key(m, key);
	json_string(m->b, value);
}

void json_text_or_null(struct json *m, const char *key, const char *value)
{
	if (value && *value) {
		json_text(m, key, value);
	} else {
		json_null(m, key);
	}
}

void json_texts(struct json *m, const char *key, const char *const *values, size_t n)
{
	json_begin(m, key, '[');
	for (size_t i = 0; i < n; i++) {
		json_text(m, NULL, values[i]);
	}
	json_end(m, ']');
}

void json_value(struct json *m, double value)
{
	if (isfinite(value)) {
		buf_double(m->b, value);
	} else {
		buf_add(m->b, "null", 4);
	}
}

void json_double(struct json *m, const char *key, double value)
{
	json_key(m, key);
	json_value(m, value);
}

void json_doubles(struct json *m, const char *key, const double *values, size_t n)
{
	json_begin(m, key, '[');
	for (size_t i = 0; i < n; i++) {
		json_double(m, NULL, values[i]);
	}
	json_end(m, ']');
}
