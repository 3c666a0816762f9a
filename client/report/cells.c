/* SPDX-License-Identifier: Apache-2.0 */

/* What samples are kept for: strata, cells, and the turns of contexts. Each is found by hash: a
 * table of numbers beside the array. */

#include <stdlib.h>
#include <string.h>

#include "client/report/groups_internal.h"
#include "proto/base/array.h"

size_t groups_n_samples(const struct groups *g)
{
	return SAMPLE_MEASURES + g->n_measures;
}

/* How to find an item of an array. */
struct lookup {
	size_t size;
	uint64_t (*hash)(const void *item);
	bool (*same)(const void *a, const void *b);
};

struct wanted {
	const char *items;
	const struct lookup *lookup;
	const void *item;
};

static bool is_wanted(const void *number, const void *key)
{
	const struct wanted *w = key;

	return w->lookup->same(w->items + ((uintptr_t)number - 1) * w->lookup->size, w->item);
}

/* The number of the item like this one, which is added if it is not there. SIZE_MAX: out of memory.
 */
static size_t find(struct cells_index *x, void *items, const struct lookup *lookup,
		   const void *item)
{
	struct wanted wanted = { .lookup = lookup, .item = item };
	uint64_t hash = lookup->hash(item);
	void *number;

	if (!array_make_room(items, lookup->size, x->n, &x->max)) {
		return SIZE_MAX;
	}
	memcpy(&wanted.items, items, sizeof(wanted.items));
	number = map_find(&x->numbers, hash, is_wanted, &wanted);
	if (number) {
		return (uintptr_t)number - 1;
	}
	if (map_add(&x->numbers, hash, (void *)(uintptr_t)(x->n + 1))) {
		return SIZE_MAX;
	}
	memcpy((char *)(uintptr_t)wanted.items + x->n * lookup->size, item, lookup->size);
	return x->n++;
}

/* --- strata --- */

static uint64_t hash_stratum(const void *item)
{
	const struct groups_stratum *s = item;

	return map_mix(map_mix(map_mix(1, s->capture), s->process), s->id);
}

static bool same_stratum(const void *item, const void *wanted)
{
	const struct groups_stratum *a = item, *b = wanted;

	return a->capture == b->capture && a->process == b->process && a->id == b->id;
}

struct groups_stratum *cells_stratum(struct groups *g, unsigned process, unsigned id)
{
	static const struct lookup lookup = { sizeof(*g->strata), hash_stratum, same_stratum };
	const struct groups_stratum wanted = { .capture = g->n_captures,
					       .process = process,
					       .id = id,
					       .n_samples = groups_n_samples(g) };
	size_t i = find(&g->strata_index, &g->strata, &lookup, &wanted);
	struct groups_stratum *s = i != SIZE_MAX ? &g->strata[i] : NULL;

	if (s && !s->samples) {
		s->samples = calloc(s->n_samples, sizeof(*s->samples));
	}
	return s && s->samples ? s : NULL;
}

/* --- cells --- */

static uint64_t hash_cell(const void *item)
{
	const struct cell *c = item;

	return map_mix(map_mix(2, (uintptr_t)c->leaf), c->stratum);
}

static bool same_cell(const void *item, const void *wanted)
{
	const struct cell *a = item, *b = wanted;

	return a->leaf == b->leaf && a->stratum == b->stratum;
}

struct cell *cells_find(struct groups *g, struct leaf *leaf, size_t stratum)
{
	static const struct lookup lookup = { sizeof(*g->cells), hash_cell, same_cell };
	const struct cell wanted = { .leaf = leaf, .stratum = stratum };
	size_t i = find(&g->cells_index, &g->cells, &lookup, &wanted);
	struct cell *c = i != SIZE_MAX ? &g->cells[i] : NULL;

	if (c && !c->samples) {
		c->samples = calloc(g->strata[stratum].n_samples, sizeof(*c->samples));
	}
	return c && c->samples ? c : NULL;
}

/* --- turns --- */

static uint64_t hash_context(const void *item)
{
	const struct groups_context *c = item;

	return map_mix(map_mix(map_mix(3, c->capture), c->process), c->context);
}

static bool same_context(const void *item, const void *wanted)
{
	const struct groups_context *a = item, *b = wanted;

	return a->capture == b->capture && a->process == b->process && a->context == b->context;
}

uint64_t cells_turn(struct groups *g, const struct gpuctr_record *record)
{
	static const struct lookup lookup = { sizeof(*g->contexts), hash_context, same_context };
	const struct groups_context wanted = { .capture = g->n_captures,
					       .process = record->process,
					       .context = record->context };
	size_t i = find(&g->contexts_index, &g->contexts, &lookup, &wanted);
	struct groups_context *c = i != SIZE_MAX ? &g->contexts[i] : NULL;

	if (c && (c->turn == 0 || record->group != c->group)) {
		c->turn = ++g->n_turns;
		c->group = record->group;
	}
	return c ? c->turn : 0;
}

void cells_free(struct groups *g)
{
	strata_free_pools(g);
	for (size_t i = 0; i < g->strata_index.n; i++) {
		free(g->strata[i].samples);
	}
	for (size_t i = 0; i < g->cells_index.n; i++) {
		free(g->cells[i].samples);
	}
	free(g->strata);
	free(g->cells);
	free(g->contexts);
	map_deinit(&g->strata_index.numbers);
	map_deinit(&g->cells_index.numbers);
	map_deinit(&g->contexts_index.numbers);
	free(g->row_leaves);
	free(g->priors);
}
