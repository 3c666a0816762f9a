/* SPDX-License-Identifier: Apache-2.0 */

/* A stratum of which too little was measured is predicted from the k strata of its kind, as a new
 * class of the one-way random model (Searle, Casella and McCulloch, Variance Components, 1992,
 * chapter 3): by the mean of their means, and for the N launches that are missing, which are alike,
 * with the variance b (N^2 + N^2 / k) + w (N + N^2 sum(1 / n_h) / k^2). w is the variance within
 * strata, b that among their means, less what w makes of it. Where no stratum had two launches all
 * is taken for b. A few strata that happen to be alike do not show that the next one is: so b is
 * taken together with what it is in other classes, in parts of their mean, as if one stratum more
 * had shown that. The total is added to those of the k strata, with which it shares their means; so
 * there is 2 w N / k sum(M_h / n_h) more, where M_h are the launches that were not measured there.
 * Where strata have sizes, values are divided by those of their stratum, and launches count as much
 * as theirs: each M_h and N, squared as each square is. What tells sizes may be off, in one
 * direction for all strata of the class: the square of what that makes of the total is added. */

#include <math.h>

#include "client/estimate/estimate_internal.h"

/* One stratum in ten that is like no other of its kind has most likely been met by then. */
#define AMONG_LEAST 15

void estimate_class_add(struct estimate_class *c, const struct estimate_sample *stratum,
			uint64_t seen, const struct estimate_size *size)
{
	const struct estimate_moments *m = estimate_values(stratum);
	double degrees = estimate_degrees(stratum), n = degrees + 1, left, means[2];

	if (stratum->n == 0) {
		return;
	}
	left = seen > stratum->n ? (double)(seen - stratum->n) : 0;
	for (int i = 0; i < 2; i++) {
		double unit = size ? size->unit[i] : 1;

		means[i] = m->mean[i] / unit;
		c->within[i] +=
			m->weight > 1 ? m->m2[i] / (unit * unit) * degrees / (m->weight - 1) : 0;
		c->shared[i] += left * unit / n;
	}
	estimate_moments_add(&c->means, 1, means);
	c->degrees += degrees;
	c->inverse += 1 / n;
}

void estimate_lacking_add(struct estimate_lacking *l, const struct estimate_sample *stratum,
			  uint64_t seen, const struct estimate_size *size)
{
	double left = seen > stratum->n ? (double)(seen - stratum->n) : 0;

	estimate_merge(&l->own, stratum);
	l->seen += seen > stratum->n ? seen : stratum->n;
	for (int i = 0; i < 2; i++) {
		double unit = size ? size->unit[i] : 1;

		l->left[i] += left * unit;
		l->left_2[i] += left * unit * unit;
		l->squares[i] += left * unit * left * unit;
		l->off[i] += size ? left * unit * size->off[i] : 0;
	}
}

static double within_of(const struct estimate_class *c, int i)
{
	return c->degrees > 0 ? c->within[i] / c->degrees : 0;
}

/* Among the means of the strata, less what their launches make of it. */
static double among_of(const struct estimate_class *c, int i)
{
	double k = c->means.weight;

	return k < 2 ? 0 : fmax(c->means.m2[i] / (k - 1) - within_of(c, i) * c->inverse / k, 0);
}

/* Relative to the mean; classes with the mean 0 have none. */
static struct estimate_among among_in_class(const struct estimate_class *c)
{
	const struct estimate_moments *m = &c->means;
	struct estimate_among a = { { 0, 0 }, 0 };

	if (m->weight < 2 || m->mean[0] == 0 || m->mean[1] == 0) {
		return a;
	}
	a.degrees = m->weight - 1;
	for (int i = 0; i < 2; i++) {
		a.squares[i] = a.degrees * among_of(c, i) / (m->mean[i] * m->mean[i]);
	}
	return a;
}

void estimate_among_add(struct estimate_among *a, const struct estimate_class *c)
{
	struct estimate_among one = among_in_class(c);

	a->degrees += one.degrees;
	for (int i = 0; i < 2; i++) {
		a->squares[i] += one.squares[i];
	}
}

/* The variance among the class's strata, as if it had one more stratum that differs as those of
 * other classes do. */
static double moderated_among(const struct estimate_class *c, int i,
			      const struct estimate_among *all, double *ret_degrees)
{
	struct estimate_among own = among_in_class(c);
	double among = among_of(c, i), mean = c->means.mean[i], others;

	*ret_degrees = c->means.weight - 1;
	if (!all || all->degrees - own.degrees < ESTIMATE_STRATA_LEAST) {
		return among;
	}
	others = fmax(all->squares[i] - own.squares[i], 0) / (all->degrees - own.degrees);
	among = (*ret_degrees * among + others * mean * mean) / (*ret_degrees + 1);
	*ret_degrees += 1;
	return among;
}

/* The variance of the mean of the strata's means. */
static double variance_of_mean(const struct estimate_class *c, int i,
			       const struct estimate_among *all)
{
	double k = c->means.weight, degrees, among = moderated_among(c, i, all, &degrees);

	return among * estimate_student_factor(degrees) / k +
	       within_of(c, i) * estimate_student_factor(c->degrees) * c->inverse / (k * k);
}

static struct estimate_variance predicted_variance(const struct estimate_class *c,
						   const struct estimate_lacking *l,
						   const struct estimate_among *all)
{
	const struct estimate_moments *m = &c->means;
	double k = m->weight, both = m->m2[0] * m->m2[1], degrees;
	struct estimate_variance v;

	for (int i = 0; i < 2; i++) {
		double within = within_of(c, i) * estimate_student_factor(c->degrees);
		double among = moderated_among(c, i, all, &degrees), u = l->left[i];

		v.of[i] = u * u * variance_of_mean(c, i, all) +
			  among * estimate_student_factor(degrees) * l->squares[i] +
			  within * (l->left_2[i] + 2 * u * c->shared[i] / k) +
			  l->off[i] * l->off[i] * m->mean[i] * m->mean[i];
	}
	v.covariance = both > 0 ? m->cross / sqrt(both) * sqrt(v.of[0] * v.of[1]) : 0;
	return v;
}

/* Two strata that are alike do not show that the next one is too: of three layers that run a
 * kernel, two may have been measured. Several strata show it, or those of all kinds together. Other
 * kinds tell a difference relative to the mean only, so a few strata with the mean 0 cannot be
 * judged by them. */
static bool is_judged(const struct estimate_class *c, const struct estimate_among *all)
{
	const struct estimate_moments *m = &c->means;

	if (!all || m->weight > ESTIMATE_STRATA_LEAST) {
		return m->weight > 1;
	}
	return all->degrees >= AMONG_LEAST && m->weight > 0 && m->mean[0] != 0 && m->mean[1] != 0;
}

struct estimate_pair estimate_pair_like(const struct estimate_class *c,
					const struct estimate_lacking *lacking,
					const struct estimate_among *among)
{
	const struct estimate_sample *own = &lacking->own;
	struct estimate_variance v = { { (double)NAN, (double)NAN }, (double)NAN };
	double strata = c->means.weight;
	bool judged = is_judged(c, among);
	struct estimate_pair p = { .kind = judged	? ESTIMATE_GUESS
					   : strata > 0 ? ESTIMATE_ONCE
							: ESTIMATE_NONE,
				   .seen = lacking->seen,
				   .measured = own->n };

	if (judged) {
		v = predicted_variance(c, lacking, among);
	}
	for (int i = 0; i < 2; i++) {
		p.value[i] = own->sum[i] + own->lost[i] + lacking->left[i] * c->means.mean[i];
		p.value[i] = p.kind == ESTIMATE_NONE ? (double)NAN : p.value[i];
		p.variance[i] = v.of[i];
	}
	p.covariance = v.covariance;
	return p;
}

void estimate_pair_share(struct estimate_pair *p, const struct estimate_like *a,
			 const struct estimate_like *b)
{
	double before = p->variance[0] * p->variance[1];

	for (int i = 0; i < 2; i++) {
		/* As if the errors of both means went together, because they are of the same
		 * strata. */
		p->variance[i] += 2 * a->lacking->left[i] * b->lacking->left[i] *
				  sqrt(variance_of_mean(a->class, i, a->among) *
				       variance_of_mean(b->class, i, b->among));
	}
	p->covariance *= before > 0 ? sqrt(p->variance[0] * p->variance[1] / before) : 0;
}
