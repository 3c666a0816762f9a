/* SPDX-License-Identifier: Apache-2.0 */

/* A hash set over memory that is taken in chunks and freed as a whole. */

#include "client/report/texts.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 64 * 1024, FIRST_SLOTS = 256, ALIGNMENT = 16 };

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
	free(t->slots);
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

uint64_t texts_hash(const void *data, size_t n)
{
	const unsigned char *p = data;
	uint64_t hash = n * UINT64_C(0x9e3779b97f4a7c15) + 1, word;

	for (; n >= sizeof(word); n -= sizeof(word), p += sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		hash = texts_mix(hash, word);
	}
	word = 0;
	memcpy(&word, p, n);
	return texts_mix(hash, word);
}

static size_t find_slot(const char *const *slots, size_t n_slots, const char *text, size_t n)
{
	size_t slot = texts_hash(text, n) & (n_slots - 1);

	while (slots[slot] && (strncmp(slots[slot], text, n) != 0 || slots[slot][n] != '\0')) {
		slot = (slot + 1) & (n_slots - 1);
	}
	return slot;
}

static bool grow(struct texts *t)
{
	size_t n_slots = t->n_slots ? t->n_slots * 2 : FIRST_SLOTS;
	const char **slots;

	if (t->n * 2 < t->n_slots) {
		return true;
	}
	slots = calloc(n_slots, sizeof(*slots));
	if (!slots) {
		return false;
	}
	for (size_t i = 0; i < t->n_slots; i++) {
		const char *text = t->slots[i];

		if (text) {
			slots[find_slot(slots, n_slots, text, strlen(text))] = text;
		}
	}
	free(t->slots);
	t->slots = slots;
	t->n_slots = n_slots;
	return true;
}

const char *texts_add(struct texts *t, const char *text, size_t n)
{
	size_t slot;
	char *copy;

	n = strnlen(text, n);
	if (!grow(t)) {
		return NULL;
	}
	slot = find_slot(t->slots, t->n_slots, text, n);
	if (t->slots[slot]) {
		return t->slots[slot];
	}
	copy = texts_take(t, n + 1);
	if (!copy) {
		return NULL;
	}
	memcpy(copy, text, n);
	t->slots[slot] = copy;
	t->n++;
	return copy;
}

const char *texts_add_string(struct texts *t, const char *text)
{
	return texts_add(t, text ? text : "", text ? strlen(text) : 0);
}
