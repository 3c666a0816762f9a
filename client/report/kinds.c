/* SPDX-License-Identifier: Apache-2.0 */

/* Kinds: launches of the same kernel and launch shape. Where metrics take turns, a launch has
 * metrics of one group only. What it would have had of the other metrics is estimated from launches
 * of its kind in the same row or, if none of these had the metric, from all launches of the kind.
 * So the sum of a metric in a row is, for each kind, the mean of the launches that had the metric
 * times the number of the kind's launches in the row. Kinds without the metric are left out of the
 * sum. The same holds for the time, which may be one of the metrics (the length of a range).
 *
 * All launches together are a row as well, and its sums do not depend on the keys. The sums of
 * other rows add up to these exactly if no kind is in several rows, and nearly otherwise, because
 * each row is computed from its own launches.
 *
 * A leaf has one kind. fold.c notes the rows of each leaf; sums follow when all leaves have rows.
 * */

#include <stdlib.h>
#include <string.h>

#include "client/report/groups_internal.h"

static bool is_kind(const void *item, const void *key)
{
	return memcmp(&((const struct kind *)item)->key, key, sizeof(struct kind_key)) == 0;
}

static uint64_t hash_of(const struct kind_key *k)
{
	uint64_t hash = map_mix(map_mix(k->capture, k->process), (uintptr_t)k->kernel);

	for (int i = 0; i < 3; i++) {
		hash = map_mix(map_mix(hash, k->grid[i]), k->block[i]);
	}
	return map_mix(map_mix(hash, k->dynamic_shared_bytes), k->graph);
}

static struct kind *new_kind(struct groups *g, const struct kind_key *key)
{
	struct kind *kind = texts_take(&g->texts, sizeof(*kind));

	if (!kind) {
		return NULL;
	}
	memcpy(&kind->key, key, sizeof(*key)); /* is_kind() compares the padding too */
	kind->number = g->n_kinds++;
	kind->n_measures = g->n_measures;
	kind->sums = texts_take(&g->texts, g->n_measures * sizeof(*kind->sums));
	return kind->sums ? kind : NULL;
}

struct kind *kinds_find(struct groups *g, const struct gpuctr_record *record, const char *kernel)
{
	struct kind_key key;
	struct kind *kind;
	uint64_t hash;

	memset(&key, 0, sizeof(key)); /* clears the padding too */
	key.kernel = kernel;
	key.capture = g->n_captures;
	key.process = record->process;
	key.graph = record->graph;
	memcpy(key.grid, record->grid, sizeof(key.grid));
	memcpy(key.block, record->block, sizeof(key.block));
	key.dynamic_shared_bytes = record->dynamic_shared_bytes;
	hash = hash_of(&key);
	kind = map_find(&g->known_kinds, hash, is_kind, &key);
	if (kind) {
		return kind;
	}
	kind = new_kind(g, &key);
	return kind && map_add(&g->known_kinds, hash, kind) == 0 ? kind : NULL;
}

/* --- rows ------------------------------------------------------------------------------------ */

/* Scales a sum of n launches up to all launches. */
static double scale(double value, uint64_t n, uint64_t all)
{
	return value / (double)n * (double)all;
}

static struct part sum_of(const struct row_leaf *leaves, size_t n, size_t measure, uint64_t calls)
{
	const struct kind *kind = leaves[0].leaf->kind;
	struct part had = { .n = 0 };

	for (size_t i = 0; i < n; i++) {
		had.n += leaves[i].leaf->stats[measure].n;
		had.sum += leaves[i].leaf->stats[measure].sum;
	}
	if (had.n == 0 && measure < kind->n_measures) {
		had = kind->sums[measure];
	}
	return had.n == 0 ? had : (struct part){ calls, scale(had.sum, had.n, calls), 0 };
}

static void add_sums(const struct groups *g, const struct row_leaf *leaves, size_t n,
		     uint64_t calls)
{
	const struct part time = sum_of(leaves, n, MEASURE_TIME, calls);
	struct group *row = leaves[0].row;

	for (size_t i = 0; i < g->n_measures; i++) {
		struct part sum = sum_of(leaves, n, i, calls);

		part_add(leaves[0].self ? &row->own[i] : &row->total[i], sum);
		sum.ns = time.sum;
		if (!leaves[0].self && time.n > 0 && sum.n > 0) {
			part_add(&row->timed[i], sum);
		}
	}
}

/* Adds the launches of one kind to their row. */
static void add_kind(const struct groups *g, const struct row_leaf *leaves, size_t n)
{
	const struct kind *kind = leaves[0].leaf->kind;
	struct group *row = leaves[0].row;
	uint64_t calls = 0, timed = 0, ranged = 0;
	double peak_bytes = 0;

	for (size_t i = 0; i < n; i++) {
		calls += leaves[i].leaf->calls;
		timed += leaves[i].leaf->stats[MEASURE_TIME].n;
		ranged += leaves[i].leaf->ranged;
		peak_bytes += leaves[i].leaf->peak_bytes;
	}
	add_sums(g, leaves, n, calls);
	if (timed == 0) {
		timed = kind->sums[MEASURE_TIME].n;
		ranged = kind->ranged;
		peak_bytes = kind->peak_bytes;
	}
	if (timed > 0) {
		ranged = (uint64_t)(scale((double)ranged, timed, calls) + 0.5);
		peak_bytes = scale(peak_bytes, timed, calls);
	}
	*(leaves[0].self ? &row->ranged : &row->total_ranged) += ranged;
	*(leaves[0].self ? &row->peak_bytes : &row->total_peak_bytes) += peak_bytes;
}

void kinds_finish_row(const struct groups *g, const struct row_leaf *leaves, size_t n)
{
	for (size_t i = 0, next; i < n; i = next) {
		const struct kind *kind = leaves[i].leaf->kind;

		for (next = i + 1; next < n && leaves[next].leaf->kind == kind; next++) {
		}
		if (kind) {
			add_kind(g, leaves + i, next - i);
		}
	}
}
