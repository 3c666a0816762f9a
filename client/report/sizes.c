/* SPDX-License-Identifier: Apache-2.0 */

/* Where metrics take turns, a stratum that was not met in the turns of one metric was mostly met in
 * those of another, and that says how large it is among those of its kind: a layer whose launches
 * read ten times the bytes executes ten times the instructions, or as many as the others, if that
 * is what it is with the two metrics in other kinds.
 *
 * So for each metric y one other, x, is sought: the one in which the logarithms of the means of
 * strata go most together with those of y, each around its kind's mean, over all kinds (the
 * regression within classes, with one slope for all: Cochran, Sampling Techniques, 3rd ed., section
 * 7.10; Snedecor and Cochran, Statistical Methods, 8th ed., section 18.2). A stratum then has the
 * size x to the power of the slope. Strata of a kind are compared, and predicted, for each unit of
 * size (pools.c); a metric that is the same in all strata of a kind whatever the others do has the
 * slope 0. */

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "client/report/groups_internal.h"

/* Fewer pairs, beyond the kinds' means, say nothing of how two metrics go together. */
#define DEGREES_LEAST 8.0

/* Of logarithms around the means of their kinds; and how many strata have x and lack y. */
struct products {
	double xx, xy, yy, degrees, helped;
};

struct workspace {
	const struct groups *g;
	size_t n_figures;	   /* two a sample */
	double *logs;		   /* [member * n_figures + figure], of one kind */
	struct products *products; /* [y * n_figures + x] */
};

static size_t figure_of(size_t sample, int i)
{
	return 2 * sample + (size_t)i;
}

static double log_of(const struct groups_stratum *s, size_t figure)
{
	size_t sample = figure / 2;
	double mean = sample < s->n_samples ? estimate_mean(&s->samples[sample], figure % 2)
					    : (double)NAN;

	return mean > 0 ? log(mean) : (double)NAN;
}

/* Sums of one kind: those of its strata that have both. */
static void add_products(struct workspace *w, size_t n, size_t y, size_t x)
{
	struct products *p = &w->products[y * w->n_figures + x];
	double count = 0, mean[2] = { 0, 0 };

	for (size_t i = 0; i < n; i++) {
		double of_x = w->logs[i * w->n_figures + x], of_y = w->logs[i * w->n_figures + y];
		double before[2] = { of_x - mean[0], of_y - mean[1] };

		if (isnan(of_x) || isnan(of_y)) {
			p->helped += !isnan(of_x);
			continue;
		}
		count++;
		mean[0] += before[0] / count;
		mean[1] += before[1] / count;
		p->xx += before[0] * (of_x - mean[0]);
		p->xy += before[0] * (of_y - mean[1]);
		p->yy += before[1] * (of_y - mean[1]);
	}
	p->degrees += count > 1 ? count - 1 : 0;
}

static bool is_number_of_launches(size_t figure)
{
	return figure % 2 == 0 && (figure / 2 == SAMPLE_LAUNCHES || figure / 2 >= SAMPLE_MEASURES);
}

/* A metric's values, and not what of two of them is divided. */
static bool is_size(size_t figure)
{
	return figure % 2 == 1 && figure / 2 >= SAMPLE_MEASURES;
}

static void add_kind(struct workspace *w, const size_t *numbers, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		for (size_t f = 0; f < w->n_figures; f++) {
			w->logs[i * w->n_figures + f] = log_of(&w->g->strata[numbers[i]], f);
		}
	}
	for (size_t y = figure_of(SAMPLE_DERIVED, 0); y < w->n_figures; y++) {
		for (size_t x = 0; x < w->n_figures; x++) {
			if (x != y && is_size(x) && !is_number_of_launches(y)) {
				add_products(w, n, y, x);
			}
		}
	}
}

/* The part of y's squares that x explains, for as many strata as it can be asked. */
static double worth(const struct products *p)
{
	bool tells = p->degrees >= DEGREES_LEAST && p->xx > 0 && p->yy > 0;

	return tells ? p->helped * p->xy * p->xy / (p->xx * p->yy) : 0;
}

static struct size_rule best_rule(const struct workspace *w, size_t y)
{
	struct size_rule best = { 0, 0 };
	double most = 0;

	for (size_t x = 0; x < w->n_figures; x++) {
		const struct products *p = &w->products[y * w->n_figures + x];
		double part = worth(p);

		if (part > most) {
			most = part;
			best = (struct size_rule){ x / 2, p->xy / p->xx };
		}
	}
	return best;
}

static size_t largest_kind(const struct groups *g, const size_t *order, size_t n)
{
	size_t most = 0;

	for (size_t i = 0, end; i < n; i = end) {
		end = pools_end_of_kind(g, order, n, i);
		most = end - i > most ? end - i : most;
	}
	return most;
}

static bool make_rules(struct groups *g, struct workspace *w, const size_t *order, size_t n)
{
	w->logs = calloc(largest_kind(g, order, n) * w->n_figures, sizeof(*w->logs));
	w->products = calloc(w->n_figures * w->n_figures, sizeof(*w->products));
	if (!w->logs || !w->products) {
		return false;
	}
	for (size_t i = 0, end; i < n; i = end) {
		end = pools_end_of_kind(g, order, n, i);
		add_kind(w, order + i, end - i);
	}
	for (size_t y = 0; y < w->n_figures; y++) {
		g->size_rules[y] = best_rule(w, y);
	}
	return true;
}

int sizes_make(struct groups *g, const size_t *order, size_t n)
{
	struct workspace w = { .g = g, .n_figures = 2 * groups_n_samples(g) };
	bool ok;

	free(g->size_rules);
	g->size_rules = calloc(w.n_figures, sizeof(*g->size_rules));
	ok = g->size_rules != NULL;
	if (ok && g->turns && n > 0) {
		ok = make_rules(g, &w, order, n);
		free(w.logs);
		free(w.products);
	}
	return ok ? 0 : -ENOMEM;
}

bool sizes_of(const struct groups *g, const struct groups_stratum *s, size_t sample, double ret[2])
{
	bool known = false;

	for (int i = 0; i < 2; i++) {
		const struct size_rule *size = &g->size_rules[figure_of(sample, i)];
		double of = size->by ? log_of(s, figure_of(size->by, 1)) : 0;

		if (isnan(of)) {
			return false;
		}
		known = known || size->by;
		ret[i] = exp(size->slope * of);
	}
	return known;
}
