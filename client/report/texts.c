/* SPDX-License-Identifier: Apache-2.0 */

#include "client/report/texts.h"

#include <stdbool.h>
#include <string.h>

void texts_deinit(struct texts *t)
{
	arena_deinit(&t->arena);
	map_deinit(&t->known);
}

static struct arena *arena_of(struct texts *t)
{
	t->arena.limit = ARENA_NO_LIMIT;
	return &t->arena;
}

void *texts_take(struct texts *t, size_t bytes)
{
	return arena_zalloc(arena_of(t), bytes);
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
	copy = arena_text(arena_of(t), text, wanted.n);
	return copy && map_add(&t->known, hash, copy) == 0 ? copy : NULL;
}

const char *texts_add_string(struct texts *t, const char *text)
{
	return texts_add(t, text ? text : "", text ? strlen(text) : 0);
}
