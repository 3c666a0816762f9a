/* SPDX-License-Identifier: Apache-2.0 */
#include "client/report/errors.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/report/groups_internal.h"
#include "proto/base/array.h"
#include "proto/base/map.h"

/* A leaf adds up the errors of records that are alike, and the squares of the errors of all others.
 * A row adds up its leaves in the same way, because records that are alike may be in several
 * leaves: a kernel of a step is in the leaves of all steps. */

struct leaf_errors {
	struct map known;
	struct alike **items;
	size_t n, max;
	struct alike *others; /* the sums of squares, of records that are like no other */
};

/* One error for each measure that was known when this was made. */
struct alike {
	uint64_t id; /* of the capture and, within it, gpuctr_record.alike */
	size_t n_measures;
	double sums[];
};

static struct alike *new_alike(uint64_t id, size_t n_measures)
{
	struct alike *a = calloc(1, sizeof(*a) + n_measures * sizeof(*a->sums));

	if (a) {
		a->id = id;
		a->n_measures = n_measures;
	}
	return a;
}

static bool has_id(const void *item, const void *key)
{
	return ((const struct alike *)item)->id == *(const uint64_t *)key;
}

/* NULL: out of memory. */
static struct alike *find_alike(const struct groups *g, struct leaf_errors *e, uint64_t id)
{
	uint64_t hash = map_mix(0, id);
	struct alike *a = map_find(&e->known, hash, has_id, &id);

	if (a) {
		return a;
	}
	a = new_alike(id, g->n_measures);
	if (!a || !array_make_room(&e->items, sizeof(struct alike *), e->n, &e->max) ||
	    map_add(&e->known, hash, a) < 0) {
		free(a);
		return NULL;
	}
	e->items[e->n++] = a;
	return a;
}

/* A leaf may be met again by a capture with more measures. */
static struct alike *find_others(const struct groups *g, struct leaf_errors *e)
{
	struct alike *more;

	if (e->others && e->others->n_measures >= g->n_measures) {
		return e->others;
	}
	more = new_alike(0, g->n_measures);
	if (more && e->others) {
		memcpy(more->sums, e->others->sums, e->others->n_measures * sizeof(*more->sums));
	}
	if (more) {
		free(e->others);
		e->others = more;
	}
	return more;
}

int errors_record(struct groups *g, struct leaf *leaf, const struct gpuctr_record *record)
{
	uint64_t id = (uint64_t)g->n_captures << 32 | record->alike;
	struct alike *a;

	leaf->errors = leaf->errors ? leaf->errors : calloc(1, sizeof(*leaf->errors));
	a = !leaf->errors   ? NULL
	    : record->alike ? find_alike(g, leaf->errors, id)
			    : find_others(g, leaf->errors);
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

void errors_free(struct leaf *leaf)
{
	struct leaf_errors *e = leaf->errors;

	if (e) {
		for (size_t i = 0; i < e->n; i++) {
			free(e->items[i]);
		}
		free(e->items);
		free(e->others);
		map_deinit(&e->known);
		free(e);
	}
}

/* --- rows ------------------------------------------------------------------------------------ */

static int compare_row_leaves(const void *a, const void *b)
{
	const struct row_leaf *x = a, *y = b;

	if (x->row != y->row) {
		return (uintptr_t)x->row < (uintptr_t)y->row ? -1 : 1;
	}
	return x->self != y->self ? (x->self ? -1 : 1) : 0;
}

static int compare_alike(const void *a, const void *b)
{
	const struct alike *x = *(struct alike *const *)a, *y = *(struct alike *const *)b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/* The errors, over all these leaves, of records that are alike; free with free(). NULL: out of
 * memory. */
static struct alike **gather(const struct row_leaf *row_leaves, size_t n, size_t *ret_n)
{
	struct alike **all;
	size_t found = 0;

	*ret_n = 0;
	for (size_t i = 0; i < n; i++) {
		found += row_leaves[i].leaf->errors ? row_leaves[i].leaf->errors->n : 0;
	}
	all = malloc((found + 1) * sizeof(struct alike *));
	for (size_t i = 0; all && i < n; i++) {
		const struct leaf_errors *e = row_leaves[i].leaf->errors;

		if (e && e->n > 0) {
			memcpy(all + *ret_n, e->items, e->n * sizeof(struct alike *));
			*ret_n += e->n;
		}
	}
	if (all && *ret_n > 1) {
		qsort(all, *ret_n, sizeof(struct alike *), compare_alike);
	}
	return all;
}

static double sum_of(const struct alike *a, size_t i)
{
	return a && i < a->n_measures ? a->sums[i] : 0;
}

static void add_up(const struct groups *g, const struct row_leaf *row_leaves, size_t n,
		   struct alike *const *all, size_t n_all, double *errors)
{
	for (size_t i = 0; i < g->n_measures; i++) {
		double squares = 0;

		for (size_t k = 0, next; k < n_all; k = next) {
			double sum = 0;

			for (next = k; next < n_all && all[next]->id == all[k]->id; next++) {
				sum += sum_of(all[next], i);
			}
			squares += sum * sum;
		}
		for (size_t k = 0; k < n; k++) {
			squares += row_leaves[k].leaf->errors
					   ? sum_of(row_leaves[k].leaf->errors->others, i)
					   : 0;
		}
		errors[i] = sqrt(squares);
	}
}

static bool finish_row(struct groups *g, const struct row_leaf *row_leaves, size_t n)
{
	double *errors = texts_take(&g->row_texts, g->n_measures * sizeof(*errors));
	size_t n_all;
	struct alike **all = gather(row_leaves, n, &n_all);

	if (errors && all) {
		add_up(g, row_leaves, n, all, n_all, errors);
		*(row_leaves->self ? &row_leaves->row->self_error : &row_leaves->row->total_error) =
			errors;
	}
	free(all);
	return errors && all;
}

int errors_finish_rows(struct groups *g)
{
	bool ok = true;

	if (!g->sampled || g->n_row_leaves == 0) {
		return 0;
	}
	qsort(g->row_leaves, g->n_row_leaves, sizeof(*g->row_leaves), compare_row_leaves);
	for (size_t i = 0, next; ok && i < g->n_row_leaves; i = next) {
		for (next = i + 1; next < g->n_row_leaves &&
				   compare_row_leaves(&g->row_leaves[i], &g->row_leaves[next]) == 0;
		     next++) {
		}
		ok = finish_row(g, g->row_leaves + i, next - i);
	}
	return ok ? 0 : -ENOMEM;
}

static int compare_rows(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t) * (struct group *const *)a,
		  y = (uintptr_t) * (struct group *const *)b;

	return x < y ? -1 : x > y;
}

/* The errors of records in these rows themselves, without nested rows; rows are in order. NULL: out
 * of memory. */
static struct row_leaf *row_leaves_in(const struct groups *g, struct group *const *rows, size_t n,
				      size_t *ret_n)
{
	struct row_leaf *found = malloc((g->n_row_leaves + 1) * sizeof(*found));

	*ret_n = 0;
	for (size_t i = 0; found && i < g->n_row_leaves; i++) {
		if (g->row_leaves[i].self &&
		    bsearch(&g->row_leaves[i].row, rows, n, sizeof(struct group *), compare_rows)) {
			found[(*ret_n)++] = g->row_leaves[i];
		}
	}
	return found;
}

double *errors_of_rows(const struct groups *g, struct group *const *rows, size_t n)
{
	struct group **sorted = malloc((n + 1) * sizeof(struct group *));
	double *errors = calloc(g->n_measures, sizeof(*errors));
	struct row_leaf *row_leaves = NULL;
	struct alike **all = NULL;
	size_t n_row_leaves, n_all;

	if (sorted && n > 0) {
		memcpy(sorted, rows, n * sizeof(struct group *));
		qsort(sorted, n, sizeof(struct group *), compare_rows);
	}
	row_leaves = sorted ? row_leaves_in(g, sorted, n, &n_row_leaves) : NULL;
	all = row_leaves ? gather(row_leaves, n_row_leaves, &n_all) : NULL;
	if (all && errors) {
		add_up(g, row_leaves, n_row_leaves, all, n_all, errors);
	} else {
		free(errors);
		errors = NULL;
	}
	free(all);
	free(row_leaves);
	free(sorted);
	return errors;
}
