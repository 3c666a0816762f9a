/* SPDX-License-Identifier: Apache-2.0 */

/* Records are grouped twice: by kernel, and by kernel and call site. Each call site of a kernel is
 * estimated by itself, so the call sites together may be more or less than the estimate of the
 * kernel. The latter is better, because strata with one measured launch or none are predicted there
 * (pools.c). If the call sites are less and some of the kernel's launches have no known call site,
 * these get the difference; otherwise all call sites of the kernel are scaled to the estimate of
 * the kernel.
 */

#include "client/report/site_sums.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/report/estimated.h"

struct site_sums {
	struct groups *kernels, *sites;
	bool owns_kernels;
	const struct group **rows; /* of call sites, sorted */
	const struct group **kernel_rows;
	size_t n_rows, n_kernel_rows;
	double *factors, *rest, *values; /* of one kernel, by measure */
};

enum { LABEL_KERNEL, LABEL_CALL_SITE };

struct site_sums *site_sums_new(struct intake *in, struct groups *kernels)
{
	static const struct keys by_kernel = { .keys = { KEY_KERNEL }, .n = 1, .nested = -1 };
	static const struct keys by_site = {
		.keys = { [LABEL_KERNEL] = KEY_KERNEL, [LABEL_CALL_SITE] = KEY_CALL_SITE },
		.n = 2,
		.nested = -1
	};
	struct site_sums *p = calloc(1, sizeof(*p));

	if (!p) {
		return NULL;
	}
	p->owns_kernels = !kernels;
	p->kernels = kernels ? kernels : intake_add(in, groups_new(&by_kernel));
	p->sites = intake_add(in, groups_new(&by_site));
	return p->kernels && p->sites ? p : site_sums_free(p);
}

static void free_rows(struct site_sums *p)
{
	free(p->rows);
	free(p->kernel_rows);
	free(p->factors);
	free(p->rest);
	free(p->values);
	p->rows = p->kernel_rows = NULL;
	p->factors = p->rest = p->values = NULL;
}

struct site_sums *site_sums_free(struct site_sums *p)
{
	if (p) {
		free_rows(p);
		if (p->owns_kernels) {
			groups_free(p->kernels);
		}
		groups_free(p->sites);
		free(p);
	}
	return NULL;
}

/* --- what comes ------------------------------------------------------------------------------ */

int site_sums_at(struct site_sums *p, const char *site)
{
	return groups_at(p->sites, site);
}

int site_sums_at_frame(struct site_sums *p, const struct stack_frame *frame)
{
	char site[24];

	snprintf(site, sizeof(site), "%zu", frame->number);
	return groups_at(p->sites, site);
}

struct stack_frame *site_sums_frame(struct stack_frames *f, const struct site_sum *site)
{
	struct stack_frame *nowhere;

	if (*site->site) {
		return f->ends[strtoull(site->site, NULL, 10)];
	}
	nowhere = stack_frames_outermost(f, SITE_SUMS_NOWHERE);
	return nowhere ? stack_frames_kernel(f, nowhere, site->kernel) : NULL;
}

struct groups *site_sums_kernels(struct site_sums *p)
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
		       : strcmp(x->labels[LABEL_CALL_SITE], y->labels[LABEL_CALL_SITE]);
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

int site_sums_finish(struct site_sums *p)
{
	const struct measure *measures;
	size_t n = groups_measures(p->kernels, &measures);

	if ((p->owns_kernels && groups_finish(p->kernels)) || groups_finish(p->sites)) {
		return -ENOMEM;
	}
	free_rows(p);
	p->rows = sorted_rows(p->sites, &p->n_rows);
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
	return *row->labels[LABEL_CALL_SITE] == '\0';
}

/* Makes call sites add up to their kernel. */
static void share(struct site_sums *p, const struct group *kernel, const struct group *const *rows,
		  size_t n, const struct measure *measures, size_t n_measures)
{
	for (size_t i = 0; i < n_measures; i++) {
		double all = sum_of(kernel, &measures[i], i), known = 0;
		bool nowhere = false;

		for (size_t k = 0; k < n; k++) {
			double one = sum_of(rows[k], &measures[i], i);

			nowhere = nowhere || is_nowhere(rows[k]);
			known += is_nowhere(rows[k]) || isnan(one) ? 0 : one;
		}
		p->factors[i] = 1;
		p->rest[i] = nowhere ? all - known : 0;
		if (kernel->estimated && known > 0 && (!nowhere || all < known)) {
			p->factors[i] = all / known;
			p->rest[i] = 0;
		}
	}
}

static int tell_row(struct site_sums *p, const struct group *row, const struct measure *measures,
		    size_t n_measures, int (*each)(const struct site_sum *, void *), void *userdata)
{
	struct site_sum site = { .site = row->labels[LABEL_CALL_SITE],
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
	return each(&site, userdata);
}

int site_sums_each(struct site_sums *p, int (*each)(const struct site_sum *site, void *userdata),
		   void *userdata)
{
	const struct measure *measures;
	size_t n_measures = groups_measures(p->kernels, &measures), at = 0;
	int r = 0;

	/* A call site of the kernel exists, because kernel and call site come from the same
	 * launches. */
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
