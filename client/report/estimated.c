/* SPDX-License-Identifier: Apache-2.0 */

/* Computes the figures of a row from launches that were chosen at random.
 *
 * A record is added to the samples of its stratum and to those of a cell, which holds what a
 * stratum and a leaf have in common. Most strata have one cell, because a kernel is in one row.
 * Where a stratum has several (rows by operator, step or stream), only its measured launches tell
 * which row they are in. A row's part of the stratum is then estimated with the launches of other
 * rows as zeros (estimate_widen()), and so is the number of its launches: the parts of a stratum
 * add up to the estimate of the whole stratum, whose launches are counted.
 *
 * Where metrics take turns, a turn ends at the next record of the context with another group; two
 * turns of one group that follow each other count as one.
 *
 * How much the launches of a stratum differ is judged with all other strata (estimate_spread), and
 * from whole strata only: a part contains zeros and says nothing about other strata.
 *
 * A row adds up its strata, which were chosen independently of each other. If a row has whole
 * kernels, strata with too few measured launches are predicted from others of their kind (pools.c).
 * Strata that still have no measured launch are counted as launches without a value, in the row of
 * their kernel, or in the row of unknown origin. A capture without strata gets no estimates; its
 * rows show what was measured. Captures with and without a budget are never added up: the caller
 * refuses that.
 *
 * A process that died has not reported its last second. A stratum whose count is unknown had more
 * launches than were measured, so no figure of it is exact. */

#include "client/report/estimated.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/report/groups_internal.h"
#include "proto/base/array.h"

/* --- strata ---------------------------------------------------------------------------------- */

static struct stratum_kind kind_of(struct groups *g, const struct gpuctr_stratum *s)
{
	struct stratum_kind k = {
		.kernel = s->kernel ? texts_add_string(&g->texts, s->kernel->name) : NULL,
		.dynamic_shared_bytes = s->dynamic_shared_bytes,
		.device = s->device,
	};

	memcpy(k.grid, s->grid, sizeof(k.grid));
	memcpy(k.block, s->block, sizeof(k.block));
	return k;
}

int groups_stratum(struct groups *g, const struct gpuctr_stratum *stratum)
{
	struct groups_stratum *s = cells_stratum(g, stratum->process, stratum->id);

	if (!s) {
		return -ENOMEM;
	}
	if (!s->told) {
		groups_dims_of_stratum(g, stratum, s->dims);
		s->kind = kind_of(g, stratum);
	}
	s->seen = stratum->seen > s->seen ? stratum->seen : s->seen;
	s->several = !stratum->kernel;
	s->told = true;
	g->chosen = true;
	return 0;
}

bool groups_are_estimated(const struct groups *g)
{
	return g->chosen;
}

uint64_t groups_launches_of_strata(const struct groups *g)
{
	uint64_t n = 0;

	for (size_t i = 0; i < g->strata_index.n; i++) {
		n += strata_seen(&g->strata[i]);
	}
	return n;
}

/* --- records --------------------------------------------------------------------------------- */

static void add_sample(struct estimate_sample *samples, const struct groups *g, double chance,
		       uint64_t turn, double time_ns, double peak_bytes)
{
	double part, whole;

	estimate_add_in_turn(&samples[SAMPLE_LAUNCHES], 1, 1, chance, turn);
	for (size_t i = 0; i < g->n_derived; i++) {
		const struct derived *d = &g->derived[i];

		if (derived_terms(d, g->values, time_ns, peak_bytes, &part, &whole)) {
			estimate_add_in_turn(&samples[SAMPLE_DERIVED + d->kind], whole, part,
					     chance, turn);
		}
	}
	for (size_t i = 0; i < g->n_measures; i++) {
		if (isfinite(g->values[i])) {
			estimate_add_in_turn(&samples[SAMPLE_MEASURES + i], 1, g->values[i], chance,
					     turn);
		}
	}
}

int estimated_record(struct groups *g, struct leaf *leaf, const struct gpuctr_record *record,
		     double bytes_a_ns)
{
	struct groups_stratum *s = cells_stratum(g, record->process, record->stratum);
	struct cell *cell = s ? cells_find(g, leaf, (size_t)(s - g->strata)) : NULL;
	double time_ns = record->clock != GPUCTR_CLOCK_NONE ? (double)record->duration_ns : NAN;
	double peak_bytes = bytes_a_ns > 0 ? time_ns * bytes_a_ns : NAN;
	uint64_t turn = 0;

	if (!cell) {
		return -ENOMEM;
	}
	s->met = true;
	if (g->takes_turns && (turn = cells_turn(g, record)) == 0) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < g->n_measures; i++) {
		g->values[i] = NAN;
	}
	g->values[MEASURE_TIME] = time_ns;
	for (size_t i = 0; i < g->n_columns; i++) {
		g->values[g->columns[i]] = record->values[i];
	}
	add_sample(s->samples, g, record->chance, turn, time_ns, peak_bytes);
	add_sample(cell->samples, g, record->chance, turn, time_ns, peak_bytes);
	return 0;
}

/* --- rows ------------------------------------------------------------------------------------ */

/* A cell in a row. Cells of the same unit, which is a stratum or a pool of unmeasured ones, are put
 * together before anything is estimated. */
struct entry {
	struct group *row;
	bool self;
	size_t unit; /* a stratum's number, or n_strata and more: a pool's */
	const struct cell *cell;
};

int estimated_begin_rows(struct groups *g)
{
	g->n_row_leaves = 0;
	for (size_t i = 0; i < g->strata_index.n; i++) {
		const struct groups_stratum *s = &g->strata[i];
		struct leaf *leaf;

		if (s->met || s->seen == 0) {
			continue;
		}
		leaf = groups_find_leaf(g, s->dims);
		if (!leaf || !cells_find(g, leaf, i)) {
			return -ENOMEM;
		}
	}
	return 0;
}

bool estimated_add_leaf(struct groups *g, struct group *row, const struct leaf *leaf, bool self)
{
	if (!g->chosen && !g->sampled) {
		return true;
	}
	if (!array_make_room(&g->row_leaves, sizeof(*g->row_leaves), g->n_row_leaves,
			     &g->max_row_leaves)) {
		return false;
	}
	g->row_leaves[g->n_row_leaves++] = (struct row_leaf){ row, leaf, self };
	return true;
}

/* --- figures of a row --- */

/* Returns one prior for each sample, made of all strata. NULL: out of memory. */
static struct estimate_prior *new_priors(const struct groups *g)
{
	struct estimate_prior *priors = calloc(groups_n_samples(g), sizeof(*priors));

	for (size_t sample = 0; priors && sample < groups_n_samples(g); sample++) {
		struct estimate_spread spread = { 0 };

		for (size_t i = 0; i < g->strata_index.n; i++) {
			if (sample < g->strata[i].n_samples) {
				estimate_spread_add(&spread, &g->strata[i].samples[sample]);
			}
		}
		priors[sample] = estimate_spread_prior(&spread);
	}
	return priors;
}

/* Is a launch in the same row as the others of its stratum, whether it was measured or not? */
static bool is_of_one_row(const struct groups *g, const struct groups_stratum *s,
			  const struct group *row)
{
	for (unsigned i = 0; row != g->all && i < g->keys.n; i++) {
		enum key key = g->keys.keys[i];

		if (!((key == KEY_KERNEL && !s->several) || key == KEY_PROCESS ||
		      key == KEY_CAPTURE || (key == KEY_DEVICE && !s->several))) {
			return false;
		}
	}
	return true;
}

static size_t number_of_unit(const struct groups *g, const struct group *row, const struct cell *c)
{
	const struct groups_stratum *s = &g->strata[c->stratum];

	return s->pool && is_of_one_row(g, s, row) ? g->strata_index.n + s->pool - 1 : c->stratum;
}

/* NULL: the entry's unit is a stratum. */
static const struct stratum_pool *pool_of(const struct groups *g, const struct entry *e)
{
	return e->unit == e->cell->stratum ? NULL : &g->pools[e->unit - g->strata_index.n];
}

/* Merges the samples of all these cells, which belong to one stratum. */
static struct estimate_pair pair_of(const struct groups *g, const struct entry *entries, size_t n,
				    size_t sample)
{
	const struct groups_stratum *s = &g->strata[entries[0].cell->stratum];
	struct estimate_sample sum = { 0 };
	bool whole;

	for (size_t i = 0; sample < s->n_samples && i < n; i++) {
		estimate_merge(&sum, &entries[i].cell->samples[sample]);
	}
	whole = sample < s->n_samples && sum.n == s->samples[sample].n;
	if (whole) {
		sum = s->samples[sample]; /* the stratum's own sample knows turns that several of
					     its cells share */
	}
	/* Perhaps this row has the only measured launch, or turn, of the stratum. */
	whole = whole &&
		(is_of_one_row(g, s, entries[0].row) || !estimate_lacks(&sum, strata_seen(s)));
	if (sample < s->n_samples) {
		estimate_widen(&sum, &s->samples[sample]);
	}
	return estimate_pair_among(&sum, strata_seen(s), whole ? &g->priors[sample] : NULL);
}

static void add_sample_of(const struct groups *g, const struct entry *entries, size_t n,
			  size_t sample, struct estimate_total *total)
{
	const struct stratum_pool *pool = pool_of(g, entries);
	struct estimate_pair p;

	if (pool) {
		pools_add(g, pool, sample, total);
	} else {
		p = pair_of(g, entries, n, sample);
		estimate_total_add(total, &p);
	}
}

static void add_launches(const struct groups *g, const struct entry *entries, size_t n,
			 struct estimate *launches, uint64_t *measured)
{
	const struct groups_stratum *s = &g->strata[entries[0].cell->stratum];
	const struct stratum_pool *pool = pool_of(g, entries);
	double seen = (double)(pool ? pool->seen : strata_seen(s));
	struct estimate one = { .kind = ESTIMATE_EXACT, .value = seen };

	if (!is_of_one_row(g, s, entries[0].row)) {
		struct estimate_pair p = pair_of(g, entries, n, SAMPLE_LAUNCHES);
		struct estimate_total t = { { 0 } };

		/* Even if one launch or none was measured in other rows, more of them may belong
		 * there: the count is a guess. */
		estimate_total_add(&t, &p);
		one = estimate_total_of(&t, 0);
		one.kind = one.kind == ESTIMATE_EXACT ? ESTIMATE_EXACT : ESTIMATE_GUESS;
		one.value = p.kind == ESTIMATE_NONE ? seen : one.value;
	}
	if (launches->kind == ESTIMATE_NONE) {
		launches->error = 0;
	}
	for (size_t i = 0; i < n; i++) {
		*measured += entries[i].cell->samples[SAMPLE_LAUNCHES].n;
	}
	estimate_add_up(launches, &one);
}

/* One unit of a row. */
static void add_unit(const struct groups *g, struct estimated *e, const struct entry *entries,
		     size_t n)
{
	bool self = entries[0].self;
	struct estimate_total *totals = self ? e->self : e->total;

	add_launches(g, entries, n, self ? &e->launches : &e->total_launches,
		     self ? &e->measured : &e->total_measured);
	for (size_t i = 0; i < g->n_measures; i++) {
		add_sample_of(g, entries, n, SAMPLE_MEASURES + i, &totals[i]);
	}
	for (size_t i = 0; !self && i < DERIVED_BUILT_IN; i++) {
		add_sample_of(g, entries, n, SAMPLE_DERIVED + i, &e->derived[i]);
	}
}

struct estimated *estimated_new(struct texts *owner, size_t n)
{
	struct estimated *e = texts_take(owner, sizeof(*e));

	if (!e) {
		return NULL;
	}
	e->self = texts_take(owner, n * sizeof(*e->self));
	e->total = texts_take(owner, n * sizeof(*e->total));
	e->derived = texts_take(owner, DERIVED_BUILT_IN * sizeof(*e->derived));
	return e->self && e->total && e->derived ? e : NULL;
}

/* By row, then by self and total, then by unit; a unit's cells as they came. */
static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->row != y->row) {
		return (uintptr_t)x->row < (uintptr_t)y->row ? -1 : 1;
	}
	if (x->self != y->self) {
		return x->self ? -1 : 1;
	}
	if (x->unit != y->unit) {
		return x->unit < y->unit ? -1 : 1;
	}
	return (x->cell > y->cell) - (x->cell < y->cell);
}

static bool add_up(struct groups *g, const struct entry *entries, size_t n)
{
	struct estimated *e = NULL;

	for (size_t i = 0, next; i < n; i = next) {
		for (next = i + 1;
		     next < n && entries[next].row == entries[i].row &&
		     entries[next].self == entries[i].self && entries[next].unit == entries[i].unit;
		     next++) {
		}
		if (i == 0 || entries[i].row != entries[i - 1].row) {
			e = estimated_new(&g->row_texts, g->n_measures);
			entries[i].row->estimated = e;
		}
		if (!e) {
			return false;
		}
		add_unit(g, e, entries + i, next - i);
	}
	return true;
}

static int compare_row_leaves(const void *a, const void *b)
{
	const struct row_leaf *x = a, *y = b;

	return ((uintptr_t)x->leaf > (uintptr_t)y->leaf) -
	       ((uintptr_t)x->leaf < (uintptr_t)y->leaf);
}

/* The first row of a leaf among those sorted. */
static size_t find_row_leaf(const struct groups *g, const struct leaf *leaf)
{
	return ARRAY_FIND_INDEX(g->row_leaves, g->n_row_leaves, leaf, leaf);
}

int estimated_finish_rows(struct groups *g)
{
	struct entry *entries = NULL;
	size_t n = 0, max = 0;
	bool ok = true;

	if (!g->chosen) {
		return 0;
	}
	free(g->priors);
	g->priors = new_priors(g);
	ok = g->priors != NULL && pools_make(g) == 0;
	if (g->n_row_leaves > 0) {
		qsort(g->row_leaves, g->n_row_leaves, sizeof(*g->row_leaves), compare_row_leaves);
	}
	for (size_t i = 0; i < g->cells_index.n && ok; i++) {
		const struct leaf *leaf = g->cells[i].leaf;

		for (size_t k = find_row_leaf(g, leaf);
		     ok && k < g->n_row_leaves && g->row_leaves[k].leaf == leaf; k++) {
			ok = array_make_room(&entries, sizeof(*entries), n, &max);
			if (ok) {
				struct group *row = g->row_leaves[k].row;

				entries[n++] = (struct entry){ row, g->row_leaves[k].self,
							       number_of_unit(g, row, &g->cells[i]),
							       &g->cells[i] };
			}
		}
	}
	if (ok && n > 0) {
		qsort(entries, n, sizeof(*entries), compare_entries);
		ok = add_up(g, entries, n);
	}
	free(entries);
	return ok ? 0 : -ENOMEM;
}

/* --- what is told ---------------------------------------------------------------------------- */

double group_launches(const struct group *group, bool total)
{
	const struct estimated *e = group->estimated;

	if (!e) {
		return (double)(total ? group->total_calls : group->calls);
	}
	return total ? e->total_launches.value : e->launches.value;
}

double group_launches_error(const struct group *group, bool total)
{
	const struct estimated *e = group->estimated;

	return !e ? 0 : total ? e->total_launches.error : e->launches.error;
}

static struct estimate of(const struct estimate_total *t, bool adds_up)
{
	return adds_up ? estimate_total_of(t, 1) : estimate_total_ratio(t);
}

/* errors: of sums by measure; NULL: they have none. */
static struct estimate counted(uint64_t n, double value, const double *errors, size_t i)
{
	double error = errors ? errors[i] : 0;

	return (struct estimate){ .kind = n == 0      ? ESTIMATE_NONE
					  : error > 0 ? ESTIMATE_GUESS
						      : ESTIMATE_EXACT,
				  .value = n > 0 ? value : NAN,
				  .error = n > 0 ? error : NAN,
				  .seen = n,
				  .measured = n };
}

struct estimate estimated_mean(const struct group *group, size_t i)
{
	struct estimate e;

	if (group->estimated) {
		return of(&group->estimated->self[i], false);
	}
	e = counted(group->self[i].n, sample_mean(&group->self[i]), group->self_error, i);
	e.error /= group->self[i].n > 0 ? (double)group->self[i].n : 1;
	return e;
}

struct estimate estimated_self(const struct group *group, const struct measure *m, size_t i)
{
	if (!m->adds_up) {
		return estimated_mean(group, i);
	}
	return group->estimated
		       ? of(&group->estimated->self[i], true)
		       : counted(group->self[i].n, group->self[i].sum, group->self_error, i);
}

struct estimate estimated_total(const struct group *group, const struct measure *m, size_t i)
{
	if (!m->adds_up) {
		return estimated_mean(group, i);
	}
	return group->estimated
		       ? of(&group->estimated->total[i], true)
		       : counted(group->total[i].n, group->total[i].sum, group->total_error, i);
}

uint64_t estimated_unknown(const struct group *group, size_t i)
{
	return group->estimated ? group->estimated->total[i].unknown
				: group->total_calls - group->total[i].n;
}

void estimated_add(struct estimated *sum, const struct estimated *row, size_t n)
{
	sum->measured += row->measured;
	sum->total_measured += row->measured;
	estimate_add_up(&sum->launches, &row->launches);
	sum->total_launches = sum->launches;
	for (size_t i = 0; i < n; i++) {
		estimate_total_merge(&sum->self[i], &row->self[i]);
		estimate_total_merge(&sum->total[i], &row->self[i]);
	}
	for (size_t i = 0; i < DERIVED_BUILT_IN; i++) {
		estimate_total_merge(&sum->derived[i], &row->derived[i]);
	}
}

const char *estimated_kind_name(enum estimate_kind kind)
{
	static const char *const names[] = {
		[ESTIMATE_NONE] = "none",
		[ESTIMATE_ONCE] = "once",
		[ESTIMATE_GUESS] = "estimate",
		[ESTIMATE_EXACT] = "exact",
	};

	return names[kind];
}
