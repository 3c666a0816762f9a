/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* An arena is a list of blocks, the newest first; each piece comes from the newest block. Blocks
 * grow from 16 KiB, so that a connection with small messages needs only one malloc(), up to 8 MiB.
 * Large blocks of an arena without a limit use huge pages: a capture file may have millions of
 * ranges, and the faults of small pages then take longer than the copying. */

enum {
	ARENA_ALIGN = alignof(max_align_t),
	ARENA_BLOCK_BYTES = 16 << 10,
	ARENA_BLOCK_MAX_BYTES = 8 << 20,
	ARENA_HUGE_BYTES = 2 << 20,
};

struct arena_block {
	struct arena_block *next;
	size_t size, used;
	alignas(max_align_t) uint8_t data[];
};

void arena_init(struct arena *a, size_t limit_bytes)
{
	*a = (struct arena){ .limit = limit_bytes };
}

static void free_blocks(struct arena *a, struct arena_block *b)
{
	while (b) {
		struct arena_block *next = b->next;

		quota_give(a->quota, sizeof(*b) + b->size);
		free(b);
		b = next;
	}
}

void arena_deinit(struct arena *a)
{
	free_blocks(a, a->blocks);
	a->blocks = NULL;
	a->total = 0;
}

void arena_reset(struct arena *a)
{
	struct arena_block *b = a->blocks;

	if (!b) {
		return;
	}
	if (b->size > 8 * ARENA_BLOCK_BYTES) {
		arena_deinit(a);
		return;
	}
	free_blocks(a, b->next);
	b->next = NULL;
	b->used = 0;
	a->total = b->size;
}

/* Without huge pages the system ignores this. */
static void want_huge_pages(void *data, size_t bytes)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), skip = -(uintptr_t)data % page;

	if (bytes >= ARENA_HUGE_BYTES + page) {
		madvise((char *)data + skip, (bytes - skip) & ~(page - 1), MADV_HUGEPAGE);
	}
}

static struct arena_block *add_block(struct arena *a, size_t bytes)
{
	size_t size = a->blocks ? 2 * a->blocks->size : ARENA_BLOCK_BYTES;
	struct arena_block *b;

	size = size < ARENA_BLOCK_MAX_BYTES ? size : ARENA_BLOCK_MAX_BYTES;
	size = size < bytes ? bytes : size;
	if (size > a->limit - a->total) {
		size = a->limit - a->total;
	}
	if (size < bytes || !quota_take(a->quota, sizeof(*b) + size)) {
		return NULL;
	}
	b = malloc(sizeof(*b) + size);
	if (!b) {
		quota_give(a->quota, sizeof(*b) + size);
		return NULL;
	}
	if (a->limit == ARENA_NO_LIMIT) {
		want_huge_pages(b, sizeof(*b) + size);
	}
	b->next = a->blocks;
	b->size = size;
	b->used = 0;
	a->blocks = b;
	a->total += size;
	return b;
}

void *arena_alloc(struct arena *a, size_t bytes)
{
	struct arena_block *b = a->blocks;
	void *p;

	if (bytes > a->limit) {
		return NULL;
	}
	bytes = (bytes + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
	if (bytes == 0) {
		bytes = ARENA_ALIGN;
	}
	if (!b || b->size - b->used < bytes) {
		b = add_block(a, bytes);
	}
	if (!b) {
		return NULL;
	}
	p = b->data + b->used;
	b->used += bytes;
	return p;
}

void *arena_zalloc(struct arena *a, size_t bytes)
{
	void *p = arena_alloc(a, bytes);

	return p ? memset(p, 0, bytes) : NULL;
}

void *arena_zalloc_array(struct arena *a, size_t n, size_t size)
{
	size_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? NULL : arena_zalloc(a, bytes);
}

char *arena_text(struct arena *a, const char *text, size_t length)
{
	char *copy = arena_alloc(a, length + 1);

	if (copy) {
		memcpy(copy, text, length);
		copy[length] = '\0';
	}
	return copy;
}

char *arena_printf(struct arena *a, const char *format, ...)
{
	va_list ap;
	char *s;
	int n;

	va_start(ap, format);
	n = vsnprintf(NULL, 0, format, ap);
	va_end(ap);
	s = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1);
	if (s) {
		va_start(ap, format);
		vsnprintf(s, (size_t)n + 1, format, ap);
		va_end(ap);
	}
	return s;
}
