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

const char *texts_find(const struct texts *t, const char *text, size_t n)
{
	const struct wanted wanted = { text, strnlen(text, n) };

	return map_find(&t->known, map_hash(text, wanted.n), is_text, &wanted);
}

const char *texts_add(struct texts *t, const char *text, size_t n)
{
	const char *known = texts_find(t, text, n);
	char *copy;

	if (known) {
		return known;
	}
	n = strnlen(text, n);
	copy = arena_text(arena_of(t), text, n);
	return copy && map_add(&t->known, map_hash(text, n), copy) == 0 ? copy : NULL;
}

const char *texts_add_string(struct texts *t, const char *text)
{
	return texts_add(t, text ? text : "", text ? strlen(text) : 0);
}
