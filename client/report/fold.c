/* SPDX-License-Identifier: Apache-2.0 */

/* Makes rows of leaves. A leaf is merged into its row, and its sums go to the totals of that row
 * and all rows around it: once to each, even if a scope lies within a scope of the same name. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/report/groups_internal.h"
#include "proto/base/array.h"

enum { MAX_AROUND = 1 << 12 };

static void forget_rows(struct groups *g)
{
	texts_deinit(&g->row_texts);
	free(g->rows);
	map_deinit(&g->known_rows);
	g->rows = NULL;
	g->n_rows = g->max_rows = 0;
	g->all = NULL;
}

struct group *group_new(struct texts *owner, size_t n)
{
	struct group *group = texts_take(owner, sizeof(*group));

	if (!group) {
		return NULL;
	}
	group->self = texts_take(owner, n * sizeof(*group->self));
	group->own = texts_take(owner, n * sizeof(*group->own));
	group->total = texts_take(owner, n * sizeof(*group->total));
	group->timed = texts_take(owner, n * sizeof(*group->timed));
	return group->self && group->own && group->total && group->timed ? group : NULL;
}

/* --- rows by labels -------------------------------------------------------------------------- */

struct wanted_row {
	const char *const *labels;
	unsigned n;
};

static bool is_row(const void *item, const void *key)
{
	const struct wanted_row *w = key;

	return memcmp(((const struct group *)item)->labels, w->labels, w->n * sizeof(*w->labels)) ==
	       0;
}

/* The labels are interned in row_texts. */
static struct group *find_row(struct groups *g, const char *const *labels)
{
	const struct wanted_row wanted = { labels, g->keys.n };
	uint64_t hash = groups_hash((const void *const *)labels, g->keys.n);
	struct group *row = map_find(&g->known_rows, hash, is_row, &wanted);
	const char **copy;

	if (row) {
		return row;
	}
	row = group_new(&g->row_texts, g->n_measures);
	copy = texts_take(&g->row_texts, KEYS_MAX * sizeof(*copy));
	if (!row || !copy ||
	    !array_make_room(&g->rows, sizeof(*g->rows), g->n_rows, &g->max_rows) ||
	    map_add(&g->known_rows, hash, row)) {
		return NULL;
	}
	memcpy(copy, labels, g->keys.n * sizeof(*copy));
	row->labels = copy;
	g->rows[g->n_rows++] = row;
	return row;
}

/* --- what a leaf is in ----------------------------------------------------------------------- */

static enum key nesting_key(const struct groups *g)
{
	return g->keys.nested < 0 ? KEY_END : g->keys.keys[g->keys.nested];
}

static const char *scope_label(enum key key, const struct scope *scope)
{
	if (!scope) {
		return "";
	}
	return key == KEY_NVTX ? scope->path : key == KEY_OP ? scope->name : scope->layer;
}

/* Returns the scope at which the path is cut, if the key has a depth, else the scope itself. */
static const struct scope *cut_scope(const struct groups *g, const struct scope *scope)
{
	unsigned depth = g->keys.nvtx_depth;

	while (scope && nesting_key(g) == KEY_NVTX && depth > 0 && scope->depth >= depth) {
		scope = scope->parent;
	}
	return scope;
}

/* The nearest scope around this one that has a row. */
static const struct scope *outer_scope(enum key key, const struct scope *scope)
{
	scope = scope->parent;
	if (key == KEY_OP) {
		return scope ? scope->op : NULL;
	}
	return scope && key == KEY_LAYER && *scope->layer == '\0' ? NULL : scope;
}

/* Finds the row for a leaf, or for a scope around the leaf. */
static struct group *row_of(struct groups *g, const struct leaf *leaf, const struct scope *scope)
{
	const char *labels[KEYS_MAX];

	for (unsigned i = 0; i < g->keys.n; i++) {
		const char *label = leaf->dims[i];

		if ((int)i == g->keys.nested) {
			label = scope_label(g->keys.keys[i], scope);
		} else if (g->keys.keys[i] == KEY_SHAPE && nesting_key(g) == KEY_OP && scope) {
			label = scope->sizes;
		}
		labels[i] = texts_add_string(&g->row_texts, label);
		if (!labels[i]) {
			return NULL;
		}
	}
	return find_row(g, labels);
}

/* --- adding up ------------------------------------------------------------------------------- */

/* kinds.c adds the sums of leaves whose metrics took turns later. */
static void add_self(const struct groups *g, struct group *row, const struct leaf *leaf)
{
	for (size_t i = 0; i < g->n_measures; i++) {
		sample_merge(&row->self[i], &leaf->stats[i]);
	}
	row->calls += leaf->calls;
	row->small += leaf->small;
	row->graphs += leaf->graphs;
	row->alike += leaf->alike;
	row->peak_ns += leaf->peak_ns;
	row->op = row->op ? row->op : leaf->op;
	for (size_t i = 0; !leaf->kind && i < g->n_measures; i++) {
		part_add(&row->own[i], (struct part){ leaf->stats[i].n, leaf->stats[i].sum, 0 });
	}
	if (!leaf->kind) {
		row->ranged += leaf->ranged;
		row->peak_bytes += leaf->peak_bytes;
	}
}

static void add_total(const struct groups *g, struct group *row, const struct leaf *leaf)
{
	row->total_calls += leaf->calls;
	row->total_peak_ns += leaf->peak_ns;
	for (size_t i = 0; !leaf->kind && i < g->n_measures; i++) {
		part_add(&row->total[i], (struct part){ leaf->stats[i].n, leaf->stats[i].sum, 0 });
		part_add(&row->timed[i], leaf->timed[i]);
	}
	if (!leaf->kind) {
		row->total_ranged += leaf->ranged;
		row->total_peak_bytes += leaf->peak_bytes;
	}
}

/* Notes a leaf of a row: errors and sums of metrics in turns need all leaves of the row. */
static bool add_row_leaf(struct groups *g, struct group *row, const struct leaf *leaf, bool self)
{
	if (!g->sampled && !g->turns) {
		return true;
	}
	if (!array_make_room(&g->row_leaves, sizeof(*g->row_leaves), g->n_row_leaves,
			     &g->max_row_leaves)) {
		return false;
	}
	g->row_leaves[g->n_row_leaves++] = (struct row_leaf){ row, leaf, self };
	return true;
}

static bool add_total_once(struct groups *g, const struct leaf *leaf, struct group *row,
			   struct group **seen, size_t *n_seen)
{
	for (size_t i = 0; i < *n_seen; i++) {
		if (seen[i] == row) {
			return true;
		}
	}
	if (*n_seen < MAX_AROUND) {
		seen[(*n_seen)++] = row;
	}
	add_total(g, row, leaf);
	return add_row_leaf(g, row, leaf, false);
}

static bool fold(struct groups *g, const struct leaf *leaf, struct group **seen)
{
	enum key key = nesting_key(g);
	const struct scope *scope = key == KEY_END ? NULL : leaf->dims[g->keys.nested];
	struct group *row;
	size_t n_seen = 0;

	scope = cut_scope(g, scope);
	row = row_of(g, leaf, scope);
	if (!row) {
		return false;
	}
	add_self(g, row, leaf);
	if (!add_row_leaf(g, row, leaf, true) || !add_total_once(g, leaf, row, seen, &n_seen)) {
		return false;
	}
	while (scope && (scope = outer_scope(key, scope))) {
		row = row_of(g, leaf, scope);
		if (!row || !add_total_once(g, leaf, row, seen, &n_seen)) {
			return false;
		}
	}
	add_self(g, g->all, leaf);
	add_total(g, g->all, leaf);
	return add_row_leaf(g, g->all, leaf, true) && add_row_leaf(g, g->all, leaf, false);
}

/* Sorts by row, self and kind, so that kinds are added up in the order of their first records. */
static int compare(const void *a, const void *b)
{
	const struct row_leaf *x = a, *y = b;
	const struct kind *k = x->leaf->kind, *l = y->leaf->kind;
	uintptr_t left[] = { (uintptr_t)x->row, x->self, k ? k->number + 1 : 0 };
	uintptr_t right[] = { (uintptr_t)y->row, y->self, l ? l->number + 1 : 0 };

	for (int i = 0; i < 3; i++) {
		if (left[i] != right[i]) {
			return left[i] < right[i] ? -1 : 1;
		}
	}
	return 0;
}

static bool finish_rows(struct groups *g, bool with_errors)
{
	const struct row_leaf *leaves = g->row_leaves;
	bool ok = true;

	if (g->n_row_leaves > 0) {
		qsort(g->row_leaves, g->n_row_leaves, sizeof(*leaves), compare);
	}
	for (size_t i = 0, next; ok && i < g->n_row_leaves; i = next) {
		for (next = i + 1; next < g->n_row_leaves && leaves[next].row == leaves[i].row &&
				   leaves[next].self == leaves[i].self;
		     next++) {
		}
		kinds_finish_row(g, leaves + i, next - i);
		ok = !with_errors || !g->sampled || errors_finish_row(g, leaves + i, next - i);
	}
	return ok;
}

static bool begin_rows(struct groups *g)
{
	forget_rows(g);
	g->n_row_leaves = 0;
	g->all = group_new(&g->row_texts, g->n_measures);
	return g->all != NULL;
}

int groups_finish_by(struct groups *g,
		     struct group *(*choose)(struct groups *g, const struct leaf *leaf,
					     void *userdata),
		     void *userdata)
{
	bool ok = begin_rows(g);

	for (size_t i = 0; i < g->n_leaves && ok; i++) {
		struct group *row = choose(g, g->leaves[i], userdata);

		ok = row && add_row_leaf(g, row, g->leaves[i], true);
		if (ok) {
			add_self(g, row, g->leaves[i]);
		}
	}
	return ok && finish_rows(g, false) ? 0 : -ENOMEM;
}

int groups_finish(struct groups *g)
{
	struct group **seen = calloc(MAX_AROUND, sizeof(struct group *));
	bool ok = seen && begin_rows(g);

	for (size_t i = 0; i < g->n_leaves && ok; i++) {
		ok = fold(g, g->leaves[i], seen);
	}
	free(seen);
	return ok && finish_rows(g, true) ? 0 : -ENOMEM;
}
