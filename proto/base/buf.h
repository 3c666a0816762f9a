/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A growing buffer. Zero-initialised by the caller. When memory runs out, functions set failed
 * and leave bytes out, so that a caller checks once, at the end. */
struct buf {
	char *data;
	size_t n, max;
	bool failed;
};

void buf_deinit(struct buf *b);
/* Frees a local buffer at the end of its scope. */
#define CLEAN_BUF __attribute__((cleanup(buf_deinit)))
/* Makes room for n more bytes; false: out of memory. */
bool buf_grow(struct buf *b, size_t n);

static inline bool buf_reserve(struct buf *b, size_t n)
{
	return b->max - b->n >= n || buf_grow(b, n);
}

static inline void buf_add(struct buf *b, const char *data, size_t n)
{
	if (buf_reserve(b, n) && n > 0) {
		memcpy(b->data + b->n, data, n);
		b->n += n;
	}
}

static inline void buf_char(struct buf *b, char c)
{
	if (buf_reserve(b, 1)) {
		b->data[b->n++] = c;
	}
}

static inline void buf_text(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text));
}

static inline void buf_clear(struct buf *b)
{
	b->n = 0;
}

/* NUL-terminated, valid until the next call; "" when empty. */
const char *buf_string(struct buf *b);

__attribute__((format(printf, 2, 3))) void buf_printf(struct buf *b, const char *format, ...);

/* Returns the text, which the caller frees, and empties the buffer. NULL: memory ran out. */
char *buf_take(struct buf *b);

void buf_u64(struct buf *b, uint64_t value);
void buf_i64(struct buf *b, int64_t value);
/* Appends the shortest decimal that reads back as the same double, with an exponent only for very
 * large and very small numbers. Not for NaN or infinity. */
void buf_double(struct buf *b, double value);
