/* SPDX-License-Identifier: Apache-2.0 */

/* What samples are kept for: strata, cells, and the turns of contexts. Each is found by hash: an
 * index of numbers beside the array, with open addressing, twice as large as the array. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/report/groups_internal.h"

enum { FIRST_SLOTS = 256 };

size_t groups_n_samples(const struct groups *g)
{
	return SAMPLE_MEASURES + g->n_measures;
}

bool cells_make_room(void **items, size_t size, size_t n, size_t *max)
{
	size_t more = *max ? *max * 2 : FIRST_SLOTS / 2;
	void *grown;

	if (n < *max) {
		return true;
	}
	grown = realloc(*items, more * size);
	if (!grown) {
		return false;
	}
	*items = grown;
	*max = more;
	return true;
}

/* What an array's items are found by. */
struct lookup {
	size_t size;
	uint64_t (*hash)(const void *item);
	bool (*same)(const void *a, const void *b);
};

static size_t *slot_of(const struct cells_index *x, const void *items, const struct lookup *lookup,
		       const void *wanted)
{
	size_t i = lookup->hash(wanted) & (x->n_slots - 1);

	while (x->slots[i] &&
	       !lookup->same((const char *)items + (x->slots[i] - 1) * lookup->size, wanted)) {
		i = (i + 1) & (x->n_slots - 1);
	}
	return &x->slots[i];
}

static bool index_again(struct cells_index *x, const void *items, const struct lookup *lookup)
{
	size_t *slots = calloc(x->max * 2, sizeof(*slots));

	if (!slots) {
		return false;
	}
	free(x->slots);
	x->slots = slots;
	x->n_slots = x->max * 2;
	for (size_t i = 0; i < x->n; i++) {
		*slot_of(x, items, lookup, (const char *)items + i * lookup->size) = i + 1;
	}
	return true;
}

/* The number of the item like this one, which is added if it is not there. SIZE_MAX: out of memory.
 */
static size_t find(struct cells_index *x, void **items, const struct lookup *lookup,
		   const void *wanted)
{
	size_t *slot, max = x->max;

	if (!cells_make_room(items, lookup->size, x->n, &x->max)) {
		return SIZE_MAX;
	}
	if (x->max != max && !index_again(x, *items, lookup)) {
		x->max = max;
		return SIZE_MAX;
	}
	slot = slot_of(x, *items, lookup, wanted);
	if (*slot == 0) {
		memcpy((char *)*items + x->n * lookup->size, wanted, lookup->size);
		*slot = ++x->n;
	}
	return *slot - 1;
}

/* --- strata --- */

static uint64_t hash_stratum(const void *item)
{
	const struct groups_stratum *s = item;

	return texts_mix(texts_mix(texts_mix(1, s->capture), s->process), s->id);
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
	size_t i = find(&g->strata_index, (void **)&g->strata, &lookup, &wanted);
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

	return texts_mix(texts_mix(2, (uintptr_t)c->leaf), c->stratum);
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
	size_t i = find(&g->cells_index, (void **)&g->cells, &lookup, &wanted);
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

	return texts_mix(texts_mix(texts_mix(3, c->capture), c->process), c->context);
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
	size_t i = find(&g->contexts_index, (void **)&g->contexts, &lookup, &wanted);
	struct groups_context *c = i != SIZE_MAX ? &g->contexts[i] : NULL;

	if (c && (c->turn == 0 || record->group != c->group)) {
		c->turn = ++g->n_turns;
		c->group = record->group;
	}
	return c ? c->turn : 0;
}

void cells_free(struct groups *g)
{
	for (size_t i = 0; i < g->strata_index.n; i++) {
		free(g->strata[i].samples);
	}
	for (size_t i = 0; i < g->cells_index.n; i++) {
		free(g->cells[i].samples);
	}
	free(g->strata);
	free(g->cells);
	free(g->contexts);
	free(g->strata_index.slots);
	free(g->cells_index.slots);
	free(g->contexts_index.slots);
}
