/* SPDX-License-Identifier: Apache-2.0 */

/* Records are grouped twice: by kernel, and by kernel and place. Each place of a kernel is
 * estimated by itself, so the places together may be more or less than the estimate of the kernel.
 * The latter is better, because strata with one measured launch or none are predicted there
 * (pools.c). If the places are less and some of the kernel's launches have no known place, these
 * get the difference; otherwise all places of the kernel are scaled to the estimate of the kernel.
 */

#include "client/report/places.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/report/estimated.h"

struct places {
	struct groups *kernels, *places;
	bool owns_kernels;
	const struct group **rows; /* of places, sorted */
	const struct group **kernel_rows;
	size_t n_rows, n_kernel_rows;
	double *factors, *rest, *values; /* of one kernel, by measure */
};

enum { LABEL_KERNEL, LABEL_PLACE };

struct places *places_new(struct intake *in, struct groups *kernels)
{
	static const struct keys by_kernel = { .keys = { KEY_KERNEL }, .n = 1, .nested = -1 };
	static const struct keys by_place = {
		.keys = { [LABEL_KERNEL] = KEY_KERNEL, [LABEL_PLACE] = KEY_PLACE },
		.n = 2,
		.nested = -1
	};
	struct places *p = calloc(1, sizeof(*p));

	if (!p) {
		return NULL;
	}
	p->owns_kernels = !kernels;
	p->kernels = kernels ? kernels : intake_add(in, groups_new(&by_kernel));
	p->places = intake_add(in, groups_new(&by_place));
	return p->kernels && p->places ? p : places_free(p);
}

static void free_rows(struct places *p)
{
	free(p->rows);
	free(p->kernel_rows);
	free(p->factors);
	free(p->rest);
	free(p->values);
	p->rows = p->kernel_rows = NULL;
	p->factors = p->rest = p->values = NULL;
}

struct places *places_free(struct places *p)
{
	if (p) {
		free_rows(p);
		if (p->owns_kernels) {
			groups_free(p->kernels);
		}
		groups_free(p->places);
		free(p);
	}
	return NULL;
}

/* --- what comes ------------------------------------------------------------------------------ */

int places_at(struct places *p, const char *place)
{
	return groups_at(p->places, place);
}

int places_at_frame(struct places *p, const struct frame *frame)
{
	char place[24];

	snprintf(place, sizeof(place), "%zu", frame->number);
	return groups_at(p->places, place);
}

struct frame *places_frame(struct frames *f, const struct place *place)
{
	struct frame *nowhere;

	if (*place->place) {
		return f->ends[strtoull(place->place, NULL, 10)];
	}
	nowhere = frames_outermost(f, PLACES_NOWHERE);
	return nowhere ? frames_kernel(f, nowhere, place->kernel) : NULL;
}

struct groups *places_kernels(struct places *p)
{
	return p->kernels;
}

/* --- what is told ---------------------------------------------------------------------------- */

static int compare_rows(const void *a, const void *b, void *n_keys)
{
	const struct group *x = *(const struct group *const *)a,
			   *y = *(const struct group *const *)b;
	int order = strcmp(x->labels[LABEL_KERNEL], y->labels[LABEL_KERNEL]);

	return order || *(const unsigned *)n_keys == 1
		       ? order
		       : strcmp(x->labels[LABEL_PLACE], y->labels[LABEL_PLACE]);
}

static const struct group **sorted_rows(struct groups *g, size_t *ret_n)
{
	struct group **rows;
	size_t n = groups_rows(g, &rows);
	const struct group **sorted = calloc(n + 1, sizeof(*sorted));
	unsigned n_keys = groups_keys(g)->n;

	for (size_t i = 0; sorted && i < n; i++) {
		sorted[i] = rows[i];
	}
	if (sorted && n > 1) {
		qsort_r(sorted, n, sizeof(*sorted), compare_rows, &n_keys);
	}
	*ret_n = n;
	return sorted;
}

int places_finish(struct places *p)
{
	const struct measure *measures;
	size_t n = groups_measures(p->kernels, &measures);

	if ((p->owns_kernels && groups_finish(p->kernels)) || groups_finish(p->places)) {
		return -ENOMEM;
	}
	free_rows(p);
	p->rows = sorted_rows(p->places, &p->n_rows);
	p->kernel_rows = sorted_rows(p->kernels, &p->n_kernel_rows);
	p->factors = calloc(n, sizeof(*p->factors));
	p->rest = calloc(n, sizeof(*p->rest));
	p->values = calloc(n, sizeof(*p->values));
	return p->rows && p->kernel_rows && p->factors && p->rest && p->values ? 0 : -ENOMEM;
}

static double sum_of(const struct group *row, const struct measure *m, size_t i)
{
	struct estimate e;

	if (!m->adds_up) {
		return NAN;
	}
	e = estimated_self(row, m, i);
	return e.kind == ESTIMATE_NONE ? NAN : e.value;
}

static bool is_nowhere(const struct group *row)
{
	return *row->labels[LABEL_PLACE] == '\0';
}

/* Makes places add up to their kernel. */
static void share(struct places *p, const struct group *kernel, const struct group *const *rows,
		  size_t n, const struct measure *measures, size_t n_measures)
{
	for (size_t i = 0; i < n_measures; i++) {
		double all = sum_of(kernel, &measures[i], i), placed = 0;
		bool nowhere = false;

		for (size_t k = 0; k < n; k++) {
			double one = sum_of(rows[k], &measures[i], i);

			nowhere = nowhere || is_nowhere(rows[k]);
			placed += is_nowhere(rows[k]) || isnan(one) ? 0 : one;
		}
		p->factors[i] = 1;
		p->rest[i] = nowhere ? all - placed : 0;
		if (kernel->estimated && placed > 0 && (!nowhere || all < placed)) {
			p->factors[i] = all / placed;
			p->rest[i] = 0;
		}
	}
}

static int tell_row(struct places *p, const struct group *row, const struct measure *measures,
		    size_t n_measures, int (*each)(const struct place *, void *), void *userdata)
{
	struct place place = { .place = row->labels[LABEL_PLACE],
			       .kernel = row->labels[LABEL_KERNEL],
			       .launches = group_launches(row, false),
			       .measured = row->calls,
			       .values = p->values };

	for (size_t i = 0; i < n_measures; i++) {
		p->values[i] = sum_of(row, &measures[i], i) * p->factors[i];
		if (row->estimated && is_nowhere(row)) {
			p->values[i] = measures[i].adds_up ? p->rest[i] : NAN;
		}
	}
	return each(&place, userdata);
}

int places_each(struct places *p, int (*each)(const struct place *place, void *userdata),
		void *userdata)
{
	const struct measure *measures;
	size_t n_measures = groups_measures(p->kernels, &measures), at = 0;
	int r = 0;

	/* A place of the kernel exists, because kernel and place come from the same launches. */
	for (size_t i = 0; i < p->n_kernel_rows && r == 0; i++) {
		const struct group *kernel = p->kernel_rows[i];
		size_t end = at;

		while (end < p->n_rows && strcmp(p->rows[end]->labels[LABEL_KERNEL],
						 kernel->labels[LABEL_KERNEL]) == 0) {
			end++;
		}
		share(p, kernel, p->rows + at, end - at, measures, n_measures);
		for (; at < end && r == 0; at++) {
			r = tell_row(p, p->rows[at], measures, n_measures, each, userdata);
		}
	}
	return r;
}
