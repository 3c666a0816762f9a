/* SPDX-License-Identifier: Apache-2.0 */

/* Where metrics take turns, a stratum that was not met in the turns of one metric was mostly met in
 * those of another, and that says how large it is among those of its kind: a layer whose launches
 * read ten times the bytes executes ten times the instructions, or as many as the others, if that
 * is what it is with the two metrics in other kinds.
 *
 * So for each metric y one other, x, is sought: the one in which the logarithms of the means of
 * strata go most together with those of y, each around its kind's mean, over all kinds and with one
 * slope for all (client/estimate/slope.c). A stratum then has the size (x / centre) to the power of
 * the slope, where the centre is the geometric mean of its kind's strata that have both: errors of
 * the slope count from there, and alike for all strata of a kind. Strata of a kind are compared,
 * and predicted, for each unit of size (pools.c). A metric that is the same in all strata of a
 * kind, whatever the others do, has no size.
 *
 * If no slope is proven, a stratum that differs much from its kind in some other metric may also do
 * so in this one. It has the size 1, and an error as if the slope were as large as it may be; of
 * all metrics that could be x, the one that leaves most doubt decides.
 *
 * In a total over several kinds the errors of their slopes are added as if they were
 * independent. */

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "client/estimate/slope.h"
#include "client/report/groups_internal.h"

/* Limits the logarithm of a size: no stratum is taken for a thousand times the others. */
#define LOG_SIZE_MOST 6.9
/* Limits the error of a size at two errors of the slope: an unbounded one would hide all other
 * errors of a total. */
#define LOG_OFF_MOST 4.0

/* How well one metric predicts another: how many strata lack the one and have the other, and the
 * squared distances of these from the others of their kind. */
struct candidate {
	struct estimate_regression regression;
	double helped, reach;
};

struct workspace {
	const struct groups *g;
	size_t n_figures; /* two a sample */
	/* [member * n_figures + figure], of one kind. */
	double *logs;
	bool *lacking;
	struct candidate *candidates; /* [figure * n_measures + measure] */
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

/* Does the stratum lack the one metric, and have the other? */
static bool is_helped(const struct workspace *w, size_t member, size_t figure, size_t by)
{
	return w->lacking[member * w->n_figures + figure] &&
	       !isnan(w->logs[member * w->n_figures + by]);
}

/* The n members of one kind. */
static void add_members(struct workspace *w, size_t n, size_t figure, size_t measure)
{
	struct candidate *c = &w->candidates[figure * w->g->n_measures + measure];
	size_t by = figure_of(SAMPLE_MEASURES + measure, 1);
	struct estimate_moments kind = { .weight = 0 };

	for (size_t i = 0; i < n; i++) {
		const double *logs = &w->logs[i * w->n_figures];
		const double both[2] = { logs[by], logs[figure] };

		if (!isnan(both[0]) && !isnan(both[1])) {
			estimate_moments_add(&kind, 1, both);
		}
	}
	estimate_regression_add(&c->regression, &kind);
	/* If no stratum of the kind has both, nothing of it can be predicted. */
	for (size_t i = 0; i < n; i++) {
		if (kind.weight > 0 && is_helped(w, i, figure, by)) {
			double far = w->logs[i * w->n_figures + by] - kind.mean[0];

			c->helped++;
			c->reach += far * far;
		}
	}
}

static void read_member(struct workspace *w, size_t i, const struct groups_stratum *s)
{
	for (size_t f = 0; f < w->n_figures; f++) {
		w->logs[i * w->n_figures + f] = log_of(s, f);
		w->lacking[i * w->n_figures + f] =
			f / 2 < s->n_samples && strata_predict(w->g, s, f / 2);
	}
}

/* Sizes come from the values of metrics only: not from divisors, nor from numbers of launches,
 * which are all 1. */
static void add_kind(struct workspace *w, const size_t *numbers, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		read_member(w, i, &w->g->strata[numbers[i]]);
	}
	for (size_t f = figure_of(SAMPLE_DERIVED, 0); f < w->n_figures; f++) {
		bool is_number = f >= figure_of(SAMPLE_MEASURES, 0) && f % 2 == 0;

		for (size_t m = 0; m < w->g->n_measures && !is_number; m++) {
			if (f != figure_of(SAMPLE_MEASURES + m, 1)) {
				add_members(w, n, f, m);
			}
		}
	}
}

/* Chooses the sample that explains most of the variance, among those known for enough strata. If
 * none explains any, takes the one that would matter most. */
static struct size_rule best_rule(const struct workspace *w, size_t figure)
{
	struct size_rule best = { 0, 0, 0 };
	double most = 0, doubt = 0;

	for (size_t m = 0; m < w->g->n_measures; m++) {
		const struct candidate *c = &w->candidates[figure * w->g->n_measures + m];
		struct estimate_slope s = estimate_slope_of(&c->regression);
		double worth = s.slope != 0 ? c->helped * s.explained : 0;
		double doubtful = s.error * s.error * c->reach;

		if (worth > most || (most == 0 && doubtful > doubt)) {
			most = worth;
			doubt = doubtful;
			best = (struct size_rule){ SAMPLE_MEASURES + m, s.slope, s.error };
		}
	}
	return best;
}

static size_t largest_kind(const struct groups *g, const size_t *order, size_t n)
{
	size_t most = 0;

	for (size_t i = 0, end; i < n; i = end) {
		end = strata_end_of_kind(g, order, n, i);
		most = end - i > most ? end - i : most;
	}
	return most;
}

static bool make_rules(struct groups *g, struct workspace *w, const size_t *order, size_t n)
{
	size_t most = largest_kind(g, order, n) * w->n_figures;

	w->logs = calloc(most, sizeof(*w->logs));
	w->lacking = calloc(most, sizeof(*w->lacking));
	w->candidates = calloc(w->n_figures * g->n_measures, sizeof(*w->candidates));
	if (!w->logs || !w->lacking || !w->candidates) {
		return false;
	}
	for (size_t i = 0, end; i < n; i = end) {
		end = strata_end_of_kind(g, order, n, i);
		add_kind(w, order + i, end - i);
	}
	for (size_t f = 0; f < w->n_figures; f++) {
		g->size_rules[f] = best_rule(w, f);
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
		free(w.lacking);
		free(w.candidates);
	}
	return ok ? 0 : -ENOMEM;
}

static double log_of_what_tells(const struct groups *g, const struct groups_stratum *s,
				size_t figure)
{
	return log_of(s, figure_of(g->size_rules[figure].by, 1));
}

void sizes_centre(const struct groups *g, const size_t *members, size_t n, double *centres)
{
	for (size_t f = 0; f < 2 * g->strata[members[0]].n_samples; f++) {
		double sum = 0, count = 0;

		for (size_t i = 0; i < n && g->size_rules[f].by; i++) {
			const struct groups_stratum *s = &g->strata[members[i]];
			double of = log_of_what_tells(g, s, f);

			if (!isnan(of) && s->samples[f / 2].n > 0) {
				sum += of;
				count++;
			}
		}
		centres[f] = count > 0 ? sum / count : 0;
	}
}

/* distance is that of the logarithm of the predicting metric from the centre. The size at two
 * errors of the slope is computed and halved, because it grows faster than the error, and two
 * errors are to hold 95 of 100 cases. */
static void set_size(const struct size_rule *rule, double distance, int i,
		     struct estimate_size *ret)
{
	double exponent = fmin(fmax(rule->slope * distance, -LOG_SIZE_MOST), LOG_SIZE_MOST);
	double off = fmin(2 * rule->error * fabs(distance), LOG_OFF_MOST);

	ret->unit[i] = exp(exponent);
	ret->off[i] = copysign(expm1(off) / 2, distance);
}

bool sizes_of(const struct groups *g, const struct stratum_pool *pool,
	      const struct groups_stratum *s, size_t sample, struct estimate_size *ret)
{
	bool known = false;

	*ret = (struct estimate_size){ { 1, 1 }, { 0, 0 } };
	for (int i = 0; i < 2; i++) {
		size_t figure = figure_of(sample, i);
		const struct size_rule *rule = &g->size_rules[figure];
		double of = rule->by ? log_of_what_tells(g, s, figure) : 0;

		if (isnan(of)) {
			return false;
		}
		if (rule->by) {
			known = true;
			set_size(rule, of - pool->centres[figure], i, ret);
		}
	}
	return known;
}
