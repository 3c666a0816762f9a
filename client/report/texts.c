/* SPDX-License-Identifier: Apache-2.0 */

/* A hash set over memory that is taken in chunks and freed as a whole. */

#include "client/report/texts.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 64 * 1024, ALIGNMENT = 16 };

struct texts_chunk {
	struct texts_chunk *next;
	size_t used, size;
	_Alignas(ALIGNMENT) char data[];
};

void texts_deinit(struct texts *t)
{
	while (t->chunks) {
		struct texts_chunk *next = t->chunks->next;

		free(t->chunks);
		t->chunks = next;
	}
	map_deinit(&t->known);
	memset(t, 0, sizeof(*t));
}

void *texts_take(struct texts *t, size_t bytes)
{
	struct texts_chunk *chunk = t->chunks;
	size_t size;

	if (bytes > SIZE_MAX / 2) {
		return NULL;
	}
	bytes = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
	if (!chunk || chunk->size - chunk->used < bytes) {
		size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
		chunk = calloc(1, sizeof(*chunk) + size);
		if (!chunk) {
			return NULL;
		}
		chunk->size = size;
		chunk->next = t->chunks;
		t->chunks = chunk;
	}
	chunk->used += bytes;
	return chunk->data + chunk->used - bytes;
}

struct wanted {
	const char *text;
	size_t n;
};

static bool is_text(const void *item, const void *key)
{
	const struct wanted *w = key;
	const char *text = item;

	return strncmp(text, w->text, w->n) == 0 && text[w->n] == '\0';
}

const char *texts_add(struct texts *t, const char *text, size_t n)
{
	struct wanted wanted = { text, strnlen(text, n) };
	uint64_t hash = map_hash(text, wanted.n);
	char *copy = map_find(&t->known, hash, is_text, &wanted);

	if (copy) {
		return copy;
	}
	copy = texts_take(t, wanted.n + 1);
	if (!copy || map_add(&t->known, hash, copy)) {
		return NULL;
	}
	memcpy(copy, text, wanted.n);
	return copy;
}

const char *texts_add_string(struct texts *t, const char *text)
{
	return texts_add(t, text ? text : "", text ? strlen(text) : 0);
}
