/* SPDX-License-Identifier: Apache-2.0 */

/* Puts rows of two captures with the same labels side by side, and brings the values of the other
 * capture into the order of our measures. Times are only compared if they come from the same clock,
 * because a range is longer than its kernel, by about the length of a short kernel. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/report/view.h"

/* Hashes the texts, because equal labels of two captures are different pointers. */
static uint64_t hash_row(const struct group *row, unsigned n)
{
	uint64_t hash = n;

	for (unsigned i = 0; i < n; i++) {
		hash = map_mix(hash, map_hash(row->labels[i], strlen(row->labels[i])));
	}
	return hash;
}

struct wanted {
	const struct group *row;
	unsigned n;
};

static bool is_row(const void *item, const void *key)
{
	const struct group *row = item;
	const struct wanted *w = key;

	for (unsigned i = 0; i < w->n; i++) {
		if (strcmp(row->labels[i], w->row->labels[i]) != 0) {
			return false;
		}
	}
	return true;
}

static bool same_measure(const struct measure *a, const struct measure *b)
{
	return strcmp(a->name, b->name) == 0 && strcmp(a->unit, b->unit) == 0;
}

/* The other capture: its measures, and whether it counts the same operations. */
struct other {
	const struct measure *measures;
	size_t n_measures;
	size_t *number; /* for each measure of ours its index in measures; SIZE_MAX: none */
	bool same_flops;
};

/* Is each counter of a one of b's? */
static bool are_among(const struct sum *a, const struct measure *of_a, const struct sum *b,
		      const struct measure *of_b)
{
	for (size_t i = 0; i < a->n; i++) {
		bool found = false;

		for (size_t k = 0; k < b->n; k++) {
			found = found || same_measure(&of_a[a->terms[i]], &of_b[b->terms[k]]);
		}
		if (!found) {
			return false;
		}
	}
	return true;
}

static struct other open_other(struct view *v, struct groups *against)
{
	const struct sum *flops = &v->derived.sums->flops;
	struct other o = { 0 };
	struct sums others;

	o.n_measures = groups_measures(against, &o.measures);
	o.number = texts_take(&v->own, v->n_measures * sizeof(*o.number));
	for (size_t i = 0; o.number && i < v->n_measures; i++) {
		o.number[i] = SIZE_MAX;
		for (size_t k = 0; k < o.n_measures; k++) {
			o.number[i] =
				same_measure(&v->measures[i], &o.measures[k]) ? k : o.number[i];
		}
	}
	sums_find(o.measures, o.n_measures, &others);
	o.same_flops = are_among(flops, v->measures, &others.flops, o.measures) &&
		       are_among(&others.flops, o.measures, flops, v->measures);
	return o;
}

/* Replaces *errors, unless NULL, by a copy in the order of our measures. False: out of memory. */
static bool translate_errors(struct view *v, const struct other *o, const double **errors)
{
	double *copy = *errors ? texts_take(&v->own, v->n_measures * sizeof(*copy)) : NULL;

	for (size_t i = 0; copy && i < v->n_measures; i++) {
		if (o->number[i] != SIZE_MAX) {
			copy[i] = (*errors)[o->number[i]];
		}
	}
	if (*errors && !copy) {
		return false;
	}
	*errors = copy;
	return true;
}

/* Copies a row of the other capture, with the values in the order of our measures. */
static const struct group *translate(struct view *v, const struct group *row, const struct other *o)
{
	struct group *copy = group_new(&v->own, v->n_measures), fresh;

	if (!copy) {
		return NULL;
	}
	fresh = *copy;
	*copy = *row;
	copy->origin = row;
	copy->self = fresh.self;
	copy->own = fresh.own;
	copy->total = fresh.total;
	copy->timed = fresh.timed;
	if (!o->same_flops) {
		copy->peak_ns = NAN;
		copy->total_peak_ns = NAN;
	}
	if (!translate_errors(v, o, &copy->self_error) ||
	    !translate_errors(v, o, &copy->total_error)) {
		return NULL;
	}
	for (size_t i = 0; i < v->n_measures; i++) {
		if (o->number[i] != SIZE_MAX) {
			copy->self[i] = row->self[o->number[i]];
			copy->own[i] = row->own[o->number[i]];
			copy->total[i] = row->total[o->number[i]];
			copy->timed[i] = row->timed[o->number[i]];
		}
	}
	return copy;
}

/* Makes a row for one that only the other capture has. The new row's own figures are zero. */
static struct group *gone_row(struct view *v, const struct group *before)
{
	struct group *row = group_new(&v->own, v->n_measures);

	if (row) {
		row->labels = before->labels;
	}
	return row;
}

static int join(struct view *v, struct groups *against, const struct other *o)
{
	struct group **others, **rows;
	size_t n_others = groups_rows(against, &others);
	struct map ours = { 0 };
	int result;

	rows = realloc(v->rows, (v->n_rows + n_others + 1) * sizeof(struct group *));
	v->rows = rows ? rows : v->rows;
	result = rows ? 0 : -ENOMEM;
	for (size_t i = 0; i < v->n_rows && result == 0; i++) {
		result = map_add(&ours, hash_row(rows[i], v->keys->n), rows[i]);
	}
	for (size_t i = 0; i < n_others && result == 0; i++) {
		const struct wanted wanted = { others[i], v->keys->n };
		struct group *row =
			map_find(&ours, hash_row(others[i], v->keys->n), is_row, &wanted);

		if (!row) {
			row = gone_row(v, others[i]);
			rows[v->n_rows] = row;
			v->n_rows += row != NULL;
		}
		if (row) {
			row->before = translate(v, others[i], o);
		}
		result = row && row->before ? 0 : -ENOMEM;
		v->clocks_differ |= result == 0 && !fields_same_clock(row);
	}
	map_deinit(&ours);
	return result;
}

/* Compares totals, unless `figures` asks for means, which are per launch. */
static bool choose_fields(struct view *v, bool chosen, struct buf *why)
{
	unsigned fields = chosen ? v->fields : FIELD_BIT(FIELD_TOTAL);

	if (!v->nested && (fields & FIELD_BIT(FIELD_SUM))) {
		fields = (fields & ~FIELD_BIT(FIELD_SUM)) | FIELD_BIT(FIELD_TOTAL);
	}
	if (!(fields & (FIELD_BIT(FIELD_TOTAL) | FIELD_BIT(FIELD_MEAN)))) {
		buf_text(why, "--against compares totals and means: --columns has neither of them");
		return false;
	}
	if (fields & FIELD_BIT(FIELD_TOTAL)) {
		fields |= FIELD_BIT(FIELD_BEFORE) | FIELD_BIT(FIELD_CHANGE);
	}
	if (fields & FIELD_BIT(FIELD_MEAN)) {
		fields |= FIELD_BIT(FIELD_MEAN_BEFORE) | FIELD_BIT(FIELD_MEAN_CHANGE);
	}
	if (v->sampled && (fields & FIELD_BIT(FIELD_TOTAL))) {
		fields |= FIELD_BIT(FIELD_CHANGE_ERROR) | FIELD_BIT(FIELD_DIFFERS);
	}
	if (v->sampled && (fields & FIELD_BIT(FIELD_MEAN))) {
		fields |= FIELD_BIT(FIELD_MEAN_CHANGE_ERROR) | FIELD_BIT(FIELD_MEAN_DIFFERS);
	}
	v->fields = fields & ~FIELD_BIT(FIELD_ERROR);
	return true;
}

int view_compare(struct view *v, const struct view_options *o, struct buf *why)
{
	const struct other other = open_other(v, o->against);
	struct group *all = texts_take(&v->own, sizeof(*all));

	if (!all || !other.number) {
		return -ENOMEM;
	}
	v->against = o->against;
	v->of_against = other.number;
	*all = *v->all;
	all->before = translate(v, groups_all(o->against), &other);
	if (!all->before) {
		return -ENOMEM;
	}
	v->all = all;
	v->clocks_differ = !fields_same_clock(all);
	v->sampled = v->sampled || all->before->total_error;
	return choose_fields(v, o->figures != NULL, why) ? join(v, o->against, &other) : -EINVAL;
}
