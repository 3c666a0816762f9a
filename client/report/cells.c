/* SPDX-License-Identifier: Apache-2.0 */

/* What samples are kept for: strata, cells, and the turns in which they came. Strata and cells are
 * found by hash: a table of numbers beside each array, with open addressing, twice as large as the
 * array. */

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

static uint64_t hash_stratum(const struct groups_stratum *s)
{
	return texts_mix(texts_mix(texts_mix(1, s->capture), s->process), s->id);
}

static bool same_stratum(const struct groups_stratum *a, const struct groups_stratum *b)
{
	return a->capture == b->capture && a->process == b->process && a->id == b->id;
}

static uint64_t hash_cell(const struct cell *c)
{
	return texts_mix(texts_mix(2, (uintptr_t)c->leaf), c->stratum);
}

static size_t stratum_slot(const struct groups *g, const struct groups_stratum *s)
{
	size_t i = hash_stratum(s) & (g->n_stratum_slots - 1);

	while (g->stratum_slots[i] && !same_stratum(&g->strata[g->stratum_slots[i] - 1], s)) {
		i = (i + 1) & (g->n_stratum_slots - 1);
	}
	return i;
}

static size_t cell_slot(const struct groups *g, const struct cell *c)
{
	size_t i = hash_cell(c) & (g->n_cell_slots - 1);

	while (g->cell_slots[i]) {
		const struct cell *found = &g->cells[g->cell_slots[i] - 1];

		if (found->leaf == c->leaf && found->stratum == c->stratum) {
			break;
		}
		i = (i + 1) & (g->n_cell_slots - 1);
	}
	return i;
}

static bool grow_strata(struct groups *g)
{
	size_t max = g->max_strata, *slots;

	if (!cells_make_room((void **)&g->strata, sizeof(*g->strata), g->n_strata,
			     &g->max_strata)) {
		return false;
	}
	if (g->max_strata == max) {
		return true;
	}
	slots = calloc(g->max_strata * 2, sizeof(*slots));
	if (!slots) {
		g->max_strata = max;
		return false;
	}
	free(g->stratum_slots);
	g->stratum_slots = slots;
	g->n_stratum_slots = g->max_strata * 2;
	for (size_t i = 0; i < g->n_strata; i++) {
		slots[stratum_slot(g, &g->strata[i])] = i + 1;
	}
	return true;
}

static bool grow_cells(struct groups *g)
{
	size_t max = g->max_cells, *slots;

	if (!cells_make_room((void **)&g->cells, sizeof(*g->cells), g->n_cells, &g->max_cells)) {
		return false;
	}
	if (g->max_cells == max) {
		return true;
	}
	slots = calloc(g->max_cells * 2, sizeof(*slots));
	if (!slots) {
		g->max_cells = max;
		return false;
	}
	free(g->cell_slots);
	g->cell_slots = slots;
	g->n_cell_slots = g->max_cells * 2;
	for (size_t i = 0; i < g->n_cells; i++) {
		slots[cell_slot(g, &g->cells[i])] = i + 1;
	}
	return true;
}

struct groups_stratum *cells_stratum(struct groups *g, unsigned process, unsigned id)
{
	struct groups_stratum fresh = { .capture = g->n_captures, .process = process, .id = id };
	size_t slot;

	if (!grow_strata(g)) {
		return NULL;
	}
	slot = stratum_slot(g, &fresh);
	if (g->stratum_slots[slot]) {
		return &g->strata[g->stratum_slots[slot] - 1];
	}
	fresh.n_samples = groups_n_samples(g);
	fresh.samples = calloc(fresh.n_samples, sizeof(*fresh.samples));
	if (!fresh.samples) {
		return NULL;
	}
	g->strata[g->n_strata++] = fresh;
	g->stratum_slots[slot] = g->n_strata;
	return &g->strata[g->n_strata - 1];
}

struct cell *cells_find(struct groups *g, struct leaf *leaf, size_t stratum)
{
	struct cell fresh = { .leaf = leaf, .stratum = stratum };
	size_t slot;

	if (!grow_cells(g)) {
		return NULL;
	}
	slot = cell_slot(g, &fresh);
	if (g->cell_slots[slot]) {
		return &g->cells[g->cell_slots[slot] - 1];
	}
	fresh.samples = calloc(g->strata[stratum].n_samples, sizeof(*fresh.samples));
	if (!fresh.samples) {
		return NULL;
	}
	g->cells[g->n_cells++] = fresh;
	g->cell_slots[slot] = g->n_cells;
	return &g->cells[g->n_cells - 1];
}

/* Most captures have one context. */
uint64_t cells_turn(struct groups *g, const struct gpuctr_record *record)
{
	struct groups_context *c = NULL;

	for (size_t i = g->n_contexts; !c && i > 0; i--) {
		c = &g->contexts[i - 1];
		if (c->capture != g->n_captures || c->process != record->process ||
		    c->context != record->context) {
			c = NULL;
		}
	}
	if (!c) {
		if (!cells_make_room((void **)&g->contexts, sizeof(*g->contexts), g->n_contexts,
				     &g->max_contexts)) {
			return 0;
		}
		c = &g->contexts[g->n_contexts++];
		*c = (struct groups_context){ .capture = g->n_captures,
					      .process = record->process,
					      .context = record->context };
	}
	if (c->turn == 0 || record->group != c->group) {
		c->turn = ++g->n_turns;
		c->group = record->group;
	}
	return c->turn;
}

void cells_free(struct groups *g)
{
	for (size_t i = 0; i < g->n_strata; i++) {
		free(g->strata[i].samples);
	}
	for (size_t i = 0; i < g->n_cells; i++) {
		free(g->cells[i].samples);
	}
	free(g->strata);
	free(g->contexts);
	free(g->stratum_slots);
	free(g->cells);
	free(g->cell_slots);
}
