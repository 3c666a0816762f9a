/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes JSON, member by member. Commas are added automatically. Elements of a list have the key
 * NULL. Keys are constants that need no escapes; json_key_text() takes any text as a key.
 *
 *  *	struct json m = { b };
 *
 *  *	json_begin(&m, NULL, '{');
 *  *	json_u64(&m, "index", 3);
 *  *	json_begin(&m, "units", '[');
 *  *	json_text(&m, NULL, "byte");
 *  *	json_end(&m, ']');
 *  *	json_end(&m, '}');			// {"index":3,"units":["byte"]} */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/buf.h"

struct json {
	struct buf *b;
	bool some; /* the open object or list has a member */
};

/* Appends text in double quotes. Escapes also characters that a terminal would obey or not show;
 * bytes that are not UTF-8 become U+FFFD. NULL is "". */
void json_string(struct buf *b, const char *text);
/* json_string() without the quotes. */
void json_string_part(struct buf *b, const char *text, size_t length);
void json_string_body(struct buf *b, const char *text);

/* Writes the comma and the key; the caller writes the value. */
static inline void json_key(struct json *m, const char *key)
{
	size_t n = key ? strlen(key) : 0;
	char *to;

	if (!buf_reserve(m->b, n + 4)) {
		return;
	}
	to = m->b->data + m->b->n;
	if (m->some) {
		*to++ = ',';
	}
	if (key) {
		*to++ = '"';
		memcpy(to, key, n);
		to += n;
		*to++ = '"';
		*to++ = ':';
	}
	m->b->n = (size_t)(to - m->b->data);
	m->some = true;
}

static inline void json_u64(struct json *m, const char *key, uint64_t value)
{
	json_key(m, key);
	buf_u64(m->b, value);
}

static inline void json_i64(struct json *m, const char *key, int64_t value)
{
	json_key(m, key);
	buf_i64(m->b, value);
}

static inline void json_bool(struct json *m, const char *key, bool value)
{
	json_key(m, key);
	buf_text(m->b, value ? "true" : "false");
}

static inline void json_null(struct json *m, const char *key)
{
	json_key(m, key);
	buf_add(m->b, "null", 4);
}

/* Writes a constant word that needs no escapes. */
static inline void json_word(struct json *m, const char *key, const char *word)
{
	json_key(m, key);
	buf_char(m->b, '"');
	buf_text(m->b, word);
	buf_char(m->b, '"');
}

/* bracket: '{' or '[', and '}' or ']'. */
static inline void json_begin(struct json *m, const char *key, char bracket)
{
	json_key(m, key);
	buf_char(m->b, bracket);
	m->some = false;
}

static inline void json_end(struct json *m, char bracket)
{
	buf_char(m->b, bracket);
	m->some = true;
}

static inline void json_u32s(struct json *m, const char *key, const uint32_t *values, size_t n)
{
	json_begin(m, key, '[');
	for (size_t i = 0; i < n; i++) {
		json_u64(m, NULL, values[i]);
	}
	json_end(m, ']');
}

/* Appends finished JSON text: one value or member, or several with commas between. Nothing if it is
 * empty. */
void json_add(struct json *m, const struct buf *text);
void json_key_text(struct json *m, const char *key);
void json_text(struct json *m, const char *key, const char *value);
/* Writes null if value is NULL or "". */
void json_text_or_null(struct json *m, const char *key, const char *value);
void json_texts(struct json *m, const char *key, const char *const *values, size_t n);
/* Writes null if the value is not finite; json_value() writes the value behind a key. */
void json_value(struct json *m, double value);
void json_double(struct json *m, const char *key, double value);
void json_doubles(struct json *m, const char *key, const double *values, size_t n);
