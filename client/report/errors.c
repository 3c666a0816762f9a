/* SPDX-License-Identifier: Apache-2.0 */

/* A leaf adds up the errors of records that are alike, and the squares of the errors of all others.
 * A row adds up its leaves in the same way, because records that are alike may be in several
 * leaves: a kernel of a step is in the leaves of all steps. */

#include "client/report/errors.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "client/report/groups_internal.h"

/* Errors of a leaf's records with one number of likeness. sums has, for each measure known then,
 * the sum of errors, or for number 0 (records like no other) the sum of squares. */
struct alike {
	struct alike *next; /* next of the same leaf */
	const struct leaf *leaf;
	uint64_t capture;
	uint32_t number; /* gpuctr_record.alike */
	size_t n_measures;
	double *sums;
};

static bool is_alike(const void *item, const void *key)
{
	const struct alike *a = item, *b = key;

	return a->leaf == b->leaf && a->capture == b->capture && a->number == b->number;
}

/* NULL: out of memory. */
static struct alike *find_alike(struct groups *g, struct leaf *leaf, uint32_t number)
{
	const struct alike wanted = {
		leaf->errors, leaf, g->n_captures, number, g->n_measures, NULL
	};
	uint64_t hash = map_mix(map_mix((uintptr_t)leaf, g->n_captures), number);
	struct alike *a = map_find(&g->known_alike, hash, is_alike, &wanted);

	if (a) {
		return a;
	}
	a = texts_take(&g->texts, sizeof(*a));
	if (!a) {
		return NULL;
	}
	*a = wanted;
	a->sums = texts_take(&g->texts, g->n_measures * sizeof(*a->sums));
	if (!a->sums || map_add(&g->known_alike, hash, a) < 0) {
		return NULL;
	}
	return leaf->errors = a;
}

int errors_record(struct groups *g, struct leaf *leaf, const struct gpuctr_record *record)
{
	struct alike *a = find_alike(g, leaf, record->alike);

	if (!a) {
		return -ENOMEM;
	}
	g->sampled = true;
	for (size_t i = 0; i < g->n_columns; i++) {
		double error = record->errors[i];

		if (!isnan(error)) {
			a->sums[g->columns[i]] += record->alike ? error : error * error;
		}
	}
	return 0;
}

/* --- rows ------------------------------------------------------------------------------------ */

/* Sorts alike entries next to each other, and entries of records like no other last. */
static int compare_alike(const void *a, const void *b)
{
	const struct alike *x = *(struct alike *const *)a, *y = *(struct alike *const *)b;

	if (!x->number || !y->number) {
		return !x->number - !y->number;
	}
	if (x->capture != y->capture) {
		return x->capture < y->capture ? -1 : 1;
	}
	return x->number < y->number ? -1 : x->number > y->number;
}

static bool are_alike(const struct alike *a, const struct alike *b)
{
	return a->number && a->number == b->number && a->capture == b->capture;
}

/* Collects the entries of all row_leaves or, if marked, of marked rows without their nested rows.
 * Returns the number of entries. If all is NULL, only counts them. */
static size_t gather(const struct row_leaf *row_leaves, size_t n, bool marked, struct alike **all)
{
	size_t found = 0;

	for (size_t i = 0; i < n; i++) {
		const struct row_leaf *l = &row_leaves[i];

		for (struct alike *a = l->leaf->errors; a; a = a->next) {
			if (marked && (!l->self || !l->row->is_marked)) {
				break;
			}
			if (all) {
				all[found] = a;
			}
			found++;
		}
	}
	return found;
}

/* Sets the error of each measure. False: out of memory. */
static bool add_up(const struct groups *g, const struct row_leaf *row_leaves, size_t n, bool marked,
		   double *errors)
{
	size_t n_all = gather(row_leaves, n, marked, NULL);
	struct alike **all = malloc((n_all + 1) * sizeof(struct alike *));

	if (!all) {
		return false;
	}
	gather(row_leaves, n, marked, all);
	if (n_all > 1) {
		qsort(all, n_all, sizeof(struct alike *), compare_alike);
	}
	for (size_t i = 0; i < g->n_measures; i++) {
		double squares = 0, sum = 0;

		for (size_t k = 0; k < n_all; k++) {
			sum += i < all[k]->n_measures ? all[k]->sums[i] : 0;
			if (k + 1 == n_all || !are_alike(all[k], all[k + 1])) {
				squares += all[k]->number ? sum * sum : sum;
				sum = 0;
			}
		}
		errors[i] = sqrt(squares);
	}
	free(all);
	return true;
}

bool errors_finish_row(struct groups *g, const struct row_leaf *row_leaves, size_t n)
{
	double *errors = texts_take(&g->row_texts, g->n_measures * sizeof(*errors));
	struct group *row = row_leaves->row;

	*(row_leaves->self ? &row->self_error : &row->total_error) = errors;
	return errors && add_up(g, row_leaves, n, false, errors);
}

double *errors_of_rows(const struct groups *g, struct group *const *rows, size_t n)
{
	double *errors = calloc(g->n_measures, sizeof(*errors));
	bool ok;

	for (size_t i = 0; i < n; i++) {
		rows[i]->is_marked = true;
	}
	ok = errors && add_up(g, g->row_leaves, g->n_row_leaves, true, errors);
	for (size_t i = 0; i < n; i++) {
		rows[i]->is_marked = false;
	}
	if (!ok) {
		free(errors);
	}
	return ok ? errors : NULL;
}
