/* SPDX-License-Identifier: Apache-2.0 */

/* Values of derived columns, from a row's totals: those that are always there, and those that the
 * user defines, whose steps are computed on a stack. */

#include <math.h>

#include "client/report/define.h"
#include "client/report/estimated.h"

/* Of samples the shortest kernels have no value: where some have one, what these did in their time
 * stands for all. NaN: no launch has one, or, of counted values, some have none. */
static double sum_of(const struct group *group, const struct part *parts, size_t term,
		     uint64_t launches)
{
	const struct part *timed = &group->timed[term];

	if (parts[term].n == launches) {
		return parts[term].sum;
	}
	return group->total_error && timed->ns > 0
		       ? timed->sum / timed->ns * group->timed[MEASURE_TIME].sum
		       : NAN;
}

/* --- definitions ----------------------------------------------------------------------------- */

static double measure_value(const struct define *d, const struct step *s, const struct group *group)
{
	const struct part *parts = d->timed ? group->timed : group->total;
	uint64_t launches = d->timed ? parts[MEASURE_TIME].n : group->total_calls;
	double sum = launches > 0 ? sum_of(group, parts, s->measure, launches) : NAN;

	return (s->kind == STEP_MEAN ? sum / (double)launches : sum) * s->number;
}

static double estimated_operand(const struct step *s, const struct group *group)
{
	const struct estimate_total *total = &group->estimated->total[s->measure];
	struct estimate e;

	switch (s->kind) {
	case STEP_SUM:
	case STEP_MEAN:
		e = s->kind == STEP_SUM ? estimate_total_of(total, 1)
					: estimate_total_mean(total, 1);
		return total->unknown == 0 ? e.value * s->number : NAN;
	case STEP_LAUNCHES:
		return group_launches(group, true);
	case STEP_PEAK_BYTES:
		return NAN;
	case STEP_DERIVED:
		return derived_value(s->derived, group);
	default:
		return s->number;
	}
}

static double operand(const struct define *d, const struct step *s, const struct group *group)
{
	if (group->estimated) {
		return estimated_operand(s, group);
	}
	switch (s->kind) {
	case STEP_SUM:
	case STEP_MEAN:
		return measure_value(d, s, group);
	case STEP_LAUNCHES:
		return (double)(d->timed ? group->timed[MEASURE_TIME].n : group->total_calls);
	case STEP_PEAK_BYTES:
		return group->total_peak_bytes > 0 ? group->total_peak_bytes : NAN;
	case STEP_DERIVED:
		return derived_value(s->derived, group);
	default:
		return s->number;
	}
}

static double combine(enum step_kind kind, double left, double right)
{
	switch (kind) {
	case STEP_ADD:
		return left + right;
	case STEP_SUBTRACT:
		return left - right;
	case STEP_MULTIPLY:
		return left * right;
	default:
		return right != 0 ? left / right : NAN;
	}
}

static bool uses_time(const struct derived *d);

/* Does the definition, or a column that it uses, use the time? */
static bool definition_uses_time(const struct define *d)
{
	bool uses = d->timed;

	for (size_t i = 0; i < d->n && !uses; i++) {
		uses = d->steps[i].kind == STEP_DERIVED && uses_time(d->steps[i].derived);
	}
	return uses;
}

double define_value(const struct define *d, const struct group *group)
{
	double stack[STEPS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < d->n; i++) {
		if (d->steps[i].kind < STEP_ADD) {
			stack[n++] = operand(d, &d->steps[i], group);
		} else {
			n--;
			stack[n - 1] = combine(d->steps[i].kind, stack[n - 1], stack[n]);
		}
	}
	return isfinite(stack[0]) ? stack[0] : NAN;
}

/* --- what is always there -------------------------------------------------------------------- */

/* NaN unless each term is known of all these launches. */
static double add_up(const struct group *group, const struct part *parts,
		     const struct derived_sum *s, uint64_t launches)
{
	double sum = 0;

	for (size_t i = 0; i < s->n; i++) {
		sum += sum_of(group, parts, s->terms[i], launches);
	}
	return sum;
}

/* As those of metrics, of what is told alone. */
static double add_told(const struct part *parts, const struct derived_sum *s)
{
	double sum = 0;

	for (size_t i = 0; i < s->n; i++) {
		const struct part *term = &parts[s->terms[i]];

		sum += term->n > 0 ? term->sum : NAN;
	}
	return sum;
}

static double divide(double part, double whole)
{
	return whole > 0 ? part / whole : NAN;
}

/* Of columns that were not measured in the same launches. */
static struct estimate add_estimates(const struct group *group, const struct derived_sum *s)
{
	struct estimate sum = { .kind = ESTIMATE_NONE, .value = NAN, .error = NAN };

	for (size_t i = 0; i < s->n; i++) {
		struct estimate one = estimate_total_of(&group->estimated->total[s->terms[i]], 1);

		if (one.kind == ESTIMATE_NONE) {
			return one;
		}
		estimate_add_up(&sum, &one);
	}
	return sum;
}

static struct estimate apart(const struct derived *d, const struct group *group)
{
	struct estimate part = add_estimates(group, &d->part);
	struct estimate whole = add_estimates(group, &d->whole);
	double scale = d->kind == DERIVED_INTENSITY ? 1 : 1e-9;

	whole.value *= scale;
	whole.error *= scale;
	return estimate_ratio(&part, &whole);
}

/* The most launches of which one of the terms is not known. */
static uint64_t most_unknown(const struct estimate_total *totals, const struct derived_sum *s)
{
	uint64_t most = 0;

	for (size_t i = 0; i < s->n; i++) {
		most = totals[s->terms[i]].unknown > most ? totals[s->terms[i]].unknown : most;
	}
	return most;
}

/* The memory's peak and the tensor cores' are added up launch by launch, so their columns are never
 * joined. */
bool derived_is_joined(const struct derived *d, const struct group *group)
{
	const struct estimate_total *totals = group->estimated ? group->estimated->total : NULL;
	uint64_t of_part, of_whole;

	if (!totals || d->kind == DERIVED_DEFINED || d->kind == DERIVED_PEAK ||
	    d->kind == DERIVED_FLOP_PEAK) {
		return false;
	}
	of_part = most_unknown(totals, &d->part);
	of_whole = most_unknown(totals, &d->whole);
	return group->estimated->derived[d->kind].unknown >
	       (of_part > of_whole ? of_part : of_whole);
}

/* The most launches of which one of the terms was not sampled, though some were. */
static uint64_t most_unsampled(const struct part *parts, const struct derived_sum *s,
			       uint64_t launches)
{
	uint64_t most = 0;

	for (size_t i = 0; i < s->n; i++) {
		uint64_t n = parts[s->terms[i]].n;

		most = n > 0 && n < launches && launches - n > most ? launches - n : most;
	}
	return most;
}

static uint64_t unsampled(const struct derived *d, const struct group *group);

static uint64_t unsampled_of_definition(const struct define *d, const struct group *group)
{
	const struct part *parts = d->timed ? group->timed : group->total;
	uint64_t launches = d->timed ? parts[MEASURE_TIME].n : group->total_calls, most = 0;

	for (size_t i = 0; i < d->n; i++) {
		const struct step *s = &d->steps[i];
		const struct derived_sum one = { .terms = { s->measure }, .n = 1 };
		uint64_t n = s->kind == STEP_SUM || s->kind == STEP_MEAN
				     ? most_unsampled(parts, &one, launches)
			     : s->kind == STEP_DERIVED ? unsampled(s->derived, group)
						       : 0;

		most = n > most ? n : most;
	}
	return most;
}

/* Rates leave out launches whose time is not known. */
static bool is_timed(const struct derived *d)
{
	return d->kind != DERIVED_FLOP && d->kind != DERIVED_INTENSITY;
}

static uint64_t unsampled(const struct derived *d, const struct group *group)
{
	const struct part *parts = is_timed(d) ? group->timed : group->total;
	uint64_t launches = is_timed(d) ? parts[MEASURE_TIME].n : group->total_calls;
	uint64_t of_part, of_whole;

	if (d->kind == DERIVED_DEFINED) {
		return unsampled_of_definition(d->define, group);
	}
	of_part = most_unsampled(parts, &d->part, launches);
	of_whole = most_unsampled(parts, &d->whole, launches);
	return of_part > of_whole ? of_part : of_whole;
}

uint64_t derived_unknown(const struct derived *d, const struct group *group)
{
	if (group->estimated) {
		return d->kind == DERIVED_FLOP ? most_unknown(group->estimated->total, &d->part)
					       : 0;
	}
	return group->total_error ? unsampled(d, group) : 0;
}

/* Counters of one launch rise and fall together, so the error of their sum is larger than that of
 * independent counters. */
static struct estimate estimate_flop(const struct derived *d, const struct group *group)
{
	return derived_is_joined(d, group)
		       ? add_estimates(group, &d->part)
		       : estimate_total_of(&group->estimated->derived[DERIVED_FLOP], 1);
}

/* The relative error of the terms' sum; the terms' errors are independent. */
static double part_of_error(const struct group *group, const struct derived_sum *s)
{
	double error = 0, sum = 0;

	for (size_t i = 0; i < s->n; i++) {
		error = hypot(error, group->total_error[s->terms[i]]);
		sum += group->total[s->terms[i]].sum;
	}
	return error > 0 ? error / fabs(sum) : 0;
}

/* For values made of samples. A divisor is a time, which is exact, or has errors of its own. */
static struct estimate of_samples(const struct derived *d, const struct group *group)
{
	double value = derived_value(d, group), part = part_of_error(group, &d->part);
	double error = d->kind == DERIVED_FLOP_PEAK /* precisions have peaks of their own */
			       ? NAN
			       : fabs(value) * hypot(part, part_of_error(group, &d->whole));

	return (struct estimate){ .kind = isnan(value) ? ESTIMATE_NONE
					  : error == 0 ? ESTIMATE_EXACT
						       : ESTIMATE_GUESS,
				  .value = value,
				  .error = error };
}

struct estimate derived_estimate(const struct derived *d, const struct group *group)
{
	const struct estimate_total *together;

	/* A definition may take sums and means of anything: its error is not known. */
	if (d->kind == DERIVED_DEFINED) {
		double value = define_value(d->define, group);

		return (struct estimate){ .kind = isnan(value) ? ESTIMATE_NONE : ESTIMATE_GUESS,
					  .value = value,
					  .error = NAN };
	}
	if (!group->estimated) {
		return of_samples(d, group);
	}
	if (d->kind == DERIVED_FLOP) {
		return estimate_flop(d, group);
	}
	if (d->kind == DERIVED_FLOP_PEAK) {
		return (struct estimate){ .kind = ESTIMATE_NONE, .value = NAN, .error = NAN };
	}
	together = &group->estimated->derived[d->kind];
	return derived_is_joined(d, group) ? apart(d, group) : estimate_total_ratio(together);
}

double derived_part(const struct derived *d, const struct group *group)
{
	return group->total_error
		       ? add_told(group->timed, &d->part)
		       : add_up(group, group->timed, &d->part, group->timed[MEASURE_TIME].n);
}

double derived_part_ns(const struct derived *d, const struct group *group)
{
	double least = group->timed[MEASURE_TIME].ns;

	for (size_t i = 0; i < d->part.n; i++) {
		least = fmin(least, group->timed[d->part.terms[i]].ns);
	}
	return least;
}

double derived_value(const struct derived *d, const struct group *group)
{
	bool timed = is_timed(d);
	const struct part *parts = timed ? group->timed : group->total;
	uint64_t launches = timed ? parts[MEASURE_TIME].n : group->total_calls;
	double part, whole;

	if (group->estimated) {
		return derived_estimate(d, group).value;
	}
	if (d->kind == DERIVED_DEFINED) {
		return define_value(d->define, group);
	}
	part = add_up(group, parts, &d->part, launches);
	whole = add_up(group, parts, &d->whole, launches);
	switch (d->kind) {
	case DERIVED_PEAK:
		return divide(part, group->total_peak_bytes) * 100;
	case DERIVED_FLOP:
		/* A row that the second capture lacks has no value there, although its other
		 * figures are 0. */
		return group->total_calls == 0 ? NAN
		       : group->total_error    ? add_told(group->total, &d->part)
					       : part;
	case DERIVED_FLOP_PEAK:
		/* Not known if some of the launches with a time lack a counter: the time would
		 * include those launches, the operations would not. */
		return isnan(part)
			       ? NAN
			       : divide(group->total_peak_ns, group->timed[d->part.terms[0]].ns) *
					 100;
	default:
		return divide(part, whole) * (timed ? 1e9 : 1);
	}
}

/* --- comparison ------------------------------------------------------------------------------ */

static struct estimate value_of(const struct derived *d, const struct group *group)
{
	double value;

	if (group &&
	    (group->estimated || (group->total_error && group_launches(group, true) > 0))) {
		return derived_estimate(d, group);
	}
	value = group && group_launches(group, true) > 0 ? derived_value(d, group) : NAN;
	return (struct estimate){ .kind = isnan(value) ? ESTIMATE_NONE : ESTIMATE_EXACT,
				  .value = value,
				  .error = isnan(value) ? NAN : 0 };
}

static bool uses_time(const struct derived *d)
{
	return d->kind == DERIVED_DEFINED ? definition_uses_time(d->define)
					  : d->kind != DERIVED_INTENSITY && d->kind != DERIVED_FLOP;
}

bool derived_is_of_part(const struct derived *d, const struct group *group)
{
	const struct group *before = group->before;
	double launches = group_launches(group, true);
	double launches_before = before ? group_launches(before, true) : 0;

	return launches > 0 && launches_before > 0 &&
	       fabs((double)derived_unknown(d, group) / launches -
		    (double)derived_unknown(d, before) / launches_before) > 0.01;
}

double derived_compare(const struct derived *d, enum field field, const struct group *group)
{
	struct estimate now = value_of(d, group), before = value_of(d, group->before);

	if (field != FIELD_BEFORE && uses_time(d) && !fields_same_clock(group)) {
		return NAN;
	}
	if (field != FIELD_BEFORE && derived_is_of_part(d, group)) {
		return NAN;
	}
	return fields_compare(field, &now, &before);
}
