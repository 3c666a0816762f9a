/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_MEMBERS_H
#define CLIENT_CLI_MEMBERS_H

/* Writes JSON, member by member: the client's one writer. Commas come by themselves. A key that is
 * NULL is that of an element of a list. Keys are ours and need no escapes; members_key_text() takes
 * a key from outside.
 *
 *	struct members m = { b };
 *
 *	members_begin(&m, NULL, '{');
 *	members_u64(&m, "index", 3);
 *	members_begin(&m, "units", '[');
 *	members_text(&m, NULL, "byte");
 *	members_end(&m, ']');
 *	members_end(&m, '}');			// {"index":3,"units":["byte"]}
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/cli/buf.h"

struct members {
	struct buf *b;
	bool some; /* the object or list that is open has a member */
};

/* The comma and the key, for a value that the caller writes. */
static inline void members_key(struct members *m, const char *key)
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

static inline void members_u64(struct members *m, const char *key, uint64_t value)
{
	members_key(m, key);
	buf_u64(m->b, value);
}

static inline void members_i64(struct members *m, const char *key, int64_t value)
{
	members_key(m, key);
	buf_i64(m->b, value);
}

static inline void members_bool(struct members *m, const char *key, bool value)
{
	members_key(m, key);
	buf_text(m->b, value ? "true" : "false");
}

static inline void members_null(struct members *m, const char *key)
{
	members_key(m, key);
	buf_add(m->b, "null", 4);
}

/* A word of ours, which needs no escapes. */
static inline void members_word(struct members *m, const char *key, const char *word)
{
	members_key(m, key);
	buf_char(m->b, '"');
	buf_text(m->b, word);
	buf_char(m->b, '"');
}

/* bracket: '{' or '[', and '}' or ']'. */
static inline void members_begin(struct members *m, const char *key, char bracket)
{
	members_key(m, key);
	buf_char(m->b, bracket);
	m->some = false;
}

static inline void members_end(struct members *m, char bracket)
{
	buf_char(m->b, bracket);
	m->some = true;
}

static inline void members_u32s(struct members *m, const char *key, const uint32_t *values,
				size_t n)
{
	members_begin(m, key, '[');
	for (size_t i = 0; i < n; i++) {
		members_u64(m, NULL, values[i]);
	}
	members_end(m, ']');
}

/* Text that was made before: one value or member, or several with commas between. Nothing where it
 * is empty. */
void members_add(struct members *m, const struct buf *text);
void members_key_text(struct members *m, const char *key);
void members_text(struct members *m, const char *key, const char *value);
/* null where it is NULL or "". */
void members_text_or_null(struct members *m, const char *key, const char *value);
void members_texts(struct members *m, const char *key, const char *const *values, size_t n);
/* null where it is not finite. */
void members_double(struct members *m, const char *key, double value);

#endif
