/* SPDX-License-Identifier: Apache-2.0 */
#include "client/estimate/total.h"

#include <math.h>

/* A total knows its strata only as sums, so that any number of them costs nothing. */

void estimate_total_add(struct estimate_total *t, const struct estimate_pair *stratum)
{
	t->seen += stratum->seen;
	t->measured += stratum->measured;
	if (stratum->kind == ESTIMATE_NONE) {
		t->unknown += stratum->seen;
		return;
	}
	t->value[0] += stratum->value[0];
	t->value[1] += stratum->value[1];
	if (stratum->kind == ESTIMATE_ONCE) {
		t->once += stratum->seen;
		return;
	}
	t->exact += stratum->kind == ESTIMATE_EXACT ? stratum->seen : 0;
	t->variance[0] += stratum->variance[0];
	t->variance[1] += stratum->variance[1];
	t->covariance += stratum->covariance;
}

void estimate_total_merge(struct estimate_total *t, const struct estimate_total *more)
{
	for (int i = 0; i < 2; i++) {
		t->value[i] += more->value[i];
		t->variance[i] += more->variance[i];
	}
	t->covariance += more->covariance;
	t->seen += more->seen;
	t->measured += more->measured;
	t->once += more->once;
	t->unknown += more->unknown;
	t->exact += more->exact;
}

static enum estimate_kind kind_of(const struct estimate_total *t)
{
	if (t->measured == 0) {
		return ESTIMATE_NONE;
	}
	if (t->measured == t->seen) {
		return ESTIMATE_EXACT;
	}
	return t->once + t->unknown + t->exact == t->seen ? ESTIMATE_ONCE : ESTIMATE_GUESS;
}

static struct estimate make(const struct estimate_total *t, double value, double variance)
{
	struct estimate e = { .kind = kind_of(t), .seen = t->seen, .measured = t->measured };

	e.value = e.kind == ESTIMATE_NONE ? (double)NAN : value;
	e.error = e.kind == ESTIMATE_NONE || e.kind == ESTIMATE_ONCE ? (double)NAN : sqrt(variance);
	return e;
}

struct estimate estimate_total_of(const struct estimate_total *t, int metric)
{
	return make(t, t->value[metric], t->variance[metric]);
}

struct estimate estimate_total_mean(const struct estimate_total *t, int metric)
{
	double n = (double)(t->seen - t->unknown);

	return make(t, t->value[metric] / n, t->variance[metric] / (n * n));
}

static struct estimate none(struct estimate e)
{
	e.kind = ESTIMATE_NONE;
	e.value = (double)NAN;
	e.error = (double)NAN;
	return e;
}

/* Rounding may leave a difference of equals a little below 0. */
static double ratio_variance(double r, double x, double vy, double c, double vx)
{
	double v = (vy - 2 * r * c + r * r * vx) / (x * x);

	return v > 0 ? v : 0;
}

struct estimate estimate_total_ratio(const struct estimate_total *t)
{
	double x = t->value[0], r = t->value[1] / x;
	struct estimate e =
		make(t, r, ratio_variance(r, x, t->variance[1], t->covariance, t->variance[0]));

	return x != 0 ? e : none(e);
}

struct estimate estimate_ratio(const struct estimate *y, const struct estimate *x)
{
	enum estimate_kind kind = y->kind < x->kind ? y->kind : x->kind;
	struct estimate e = { .kind = kind, .seen = y->seen, .measured = y->measured };

	if (kind == ESTIMATE_NONE || x->value == 0) {
		return none(e);
	}
	e.value = y->value / x->value;
	e.error = sqrt(
		ratio_variance(e.value, x->value, y->error * y->error, 0, x->error * x->error));
	return e;
}

/* The kind of several figures together is the least certain one; if only some are known, it is
 * ESTIMATE_GUESS. */
static enum estimate_kind together(enum estimate_kind a, enum estimate_kind b)
{
	if (a == b) {
		return a;
	}
	return a == ESTIMATE_NONE || b == ESTIMATE_NONE ? ESTIMATE_NONE : ESTIMATE_GUESS;
}

void estimate_add_up(struct estimate *sum, const struct estimate *part)
{
	double known = isnan(sum->error) ? 0 : sum->error;
	double more = isnan(part->error) ? 0 : part->error;

	if (part->kind == ESTIMATE_NONE) {
		return;
	}
	if (sum->kind == ESTIMATE_NONE) {
		*sum = *part;
		return;
	}
	sum->kind = together(sum->kind, part->kind);
	sum->value += part->value;
	sum->error = sum->kind == ESTIMATE_ONCE ? (double)NAN : hypot(known, more);
	sum->seen += part->seen;
	sum->measured += part->measured;
}

struct estimate estimate_change(const struct estimate *x, const struct estimate *y)
{
	struct estimate e = estimate_ratio(x, y);

	e.value = y->value != 0 ? (x->value - y->value) / fabs(y->value) * 100 : (double)NAN;
	e.error *= 100;
	return e;
}

double estimate_distance(const struct estimate *x, const struct estimate *y)
{
	double apart = fabs(x->value - y->value), error = hypot(x->error, y->error);

	return apart > 0 ? apart / error : isnan(error) ? (double)NAN : 0;
}
