/* SPDX-License-Identifier: Apache-2.0 */

/* Values of derived columns: the sums of a row, put into the column's expression. */

#include <math.h>
#include <sqlite3.h>

#include "client/report/derived.h"

/* --- operands -------------------------------------------------------------------------------- */

/* The sums that the column uses: of launches whose time is known, or of all launches. */
static const struct part *parts_of(const struct derived *d, const struct group *group)
{
	return d->timed ? group->timed : group->total;
}

static uint64_t launches_of(const struct derived *d, const struct group *group)
{
	return d->timed ? group->timed[MEASURE_TIME].n : group->total_calls;
}

/* The sum of a measure. Where values are sampled, the shortest kernels have none: the rate of the
 * launches with a value then stands for all launches. NaN: no launch has a value, or, where values
 * are counted, some launch has none. */
static double sum_of(const struct derived *d, size_t measure, const struct group *group)
{
	const struct part *part = &parts_of(d, group)[measure], *timed = &group->timed[measure];
	uint64_t launches = launches_of(d, group);

	if (launches > 0 && part->n == launches) {
		return part->sum;
	}
	if (launches == 0 || !group->total_error) {
		return NAN;
	}
	if (d->of_counted) {
		return part->n > 0 ? part->sum : NAN;
	}
	return timed->ns > 0 ? timed->sum / timed->ns * group->timed[MEASURE_TIME].sum : NAN;
}

/* The sum, or the mean if the measure does not add up. Times are in seconds. */
static double value_of_measure(const struct derived *d, size_t i, const struct group *group)
{
	double sum = sum_of(d, i, group);

	return !d->measures[i].adds_up ? sum / (double)launches_of(d, group)
	       : i == MEASURE_TIME     ? sum * 1e-9
				       : sum;
}

/* Not known if some of the launches with a time lack a counter: the time would include those
 * launches, the operations would not. */
static double flop_time(const struct derived *d, const struct group *group)
{
	const struct sum *flops = &d->sums->flops;

	for (size_t i = 0; i < flops->n; i++) {
		if (isnan(sum_of(d, flops->terms[i], group))) {
			return NAN;
		}
	}
	return group->timed[flops->terms[0]].ns * 1e-9;
}

static double operand(const struct derived *d, const struct derived_operand *o,
		      const struct group *group)
{
	switch (o->quantity) {
	case DERIVED_SUM:
		return value_of_measure(d, o->measure, group);
	case DERIVED_LAUNCHES:
		return (double)launches_of(d, group);
	case DERIVED_PEAK_BYTES:
		return group->total_peak_bytes;
	case DERIVED_PEAK_TIME:
		return group->total_peak_ns * 1e-9;
	case DERIVED_FLOP_TIME:
		break;
	}
	return flop_time(d, group);
}

static void take_operands(const struct derived *d, const struct group *group, double *ret)
{
	for (size_t i = 0; i < d->n_operands; i++) {
		ret[i] = operand(d, &d->operands[i], group);
	}
}

static double evaluate(const struct derived *d, const double *operands)
{
	double value = NAN;

	for (size_t i = 0; i < d->n_operands; i++) {
		if (isnan(operands[i])) {
			sqlite3_bind_null(d->statement, (int)i + 1);
		} else {
			sqlite3_bind_double(d->statement, (int)i + 1, operands[i]);
		}
	}
	if (sqlite3_step(d->statement) == SQLITE_ROW) {
		int type = sqlite3_column_type(d->statement, 0);

		if (type == SQLITE_FLOAT || type == SQLITE_INTEGER) {
			value = sqlite3_column_double(d->statement, 0);
		}
	}
	sqlite3_reset(d->statement);
	return isfinite(value) ? value : NAN;
}

double derived_value(const struct derived *d, const struct group *group)
{
	double operands[DERIVED_OPERANDS];

	take_operands(d, group, operands);
	return evaluate(d, operands);
}

/* --- errors ---------------------------------------------------------------------------------- */

/* The standard error of an operand, divided by its value. A time is exact. The errors of means, and
 * of times at the peaks of several precisions, are not known. */
static double relative_error(const struct derived *d, const struct derived_operand *o,
			     const struct group *group)
{
	double error;

	if (o->quantity == DERIVED_LAUNCHES || o->quantity == DERIVED_PEAK_BYTES) {
		return 0;
	}
	if (o->quantity != DERIVED_SUM || !d->measures[o->measure].adds_up) {
		return NAN;
	}
	error = group->total_error[o->measure];
	return error > 0 ? error / fabs(group->total[o->measure].sum) : 0;
}

/* The errors of operands are independent. So the error of the value is the root of a sum of
 * squares, one for each operand: its error times the slope of the value over the operand. */
struct figure derived_figure(const struct derived *d, const struct group *group)
{
	static const double step = 1e-5;
	double operands[DERIVED_OPERANDS], error = 0, value;

	take_operands(d, group, operands);
	value = evaluate(d, operands);
	for (size_t i = 0; i < d->n_operands && group->total_error && !isnan(value); i++) {
		double relative = relative_error(d, &d->operands[i], group), at = operands[i];
		double above, below;

		if (relative == 0) {
			continue;
		}
		operands[i] = at * (1 + step);
		above = evaluate(d, operands);
		operands[i] = at * (1 - step);
		below = evaluate(d, operands);
		operands[i] = at;
		error = hypot(error, (above - below) / (2 * step) * relative);
	}
	return (struct figure){ .value = value, .error = isnan(value) ? NAN : error };
}

/* The number of launches whose measure was not sampled; 0 if that is all launches. */
static uint64_t lacking(const struct derived *d, size_t measure, const struct group *group)
{
	uint64_t n = parts_of(d, group)[measure].n, launches = launches_of(d, group);

	return n > 0 && n < launches ? launches - n : 0;
}

uint64_t derived_unsampled(const struct derived *d, const struct group *group)
{
	const struct sum *flops = &d->sums->flops;
	uint64_t most = 0;

	for (size_t i = 0; i < d->n_operands && group->total_error; i++) {
		const struct derived_operand *o = &d->operands[i];
		size_t n = o->quantity == DERIVED_SUM	      ? 1
			   : o->quantity == DERIVED_FLOP_TIME ? flops->n
							      : 0;

		for (size_t k = 0; k < n; k++) {
			uint64_t lacks =
				lacking(d,
					o->quantity == DERIVED_SUM ? o->measure : flops->terms[k],
					group);

			most = lacks > most ? lacks : most;
		}
	}
	return most;
}

/* --- comparison ------------------------------------------------------------------------------ */

static struct figure figure_of(const struct derived *d, const struct group *group)
{
	return group && group->total_calls > 0 ? derived_figure(d, group)
					       : (struct figure){ .value = NAN, .error = NAN };
}

bool derived_is_of_part(const struct derived *d, const struct group *group)
{
	const struct group *before = group->before;
	double launches = (double)group->total_calls;
	double launches_before = before ? (double)before->total_calls : 0;

	return launches > 0 && launches_before > 0 &&
	       fabs((double)derived_unsampled(d, group) / launches -
		    (double)derived_unsampled(d, before) / launches_before) > 0.01;
}

double derived_compare(const struct derived *d, enum field field, const struct group *group)
{
	struct figure now = figure_of(d, group), before = figure_of(d, group->before);

	if (field != FIELD_BEFORE && d->timed && !fields_same_clock(group)) {
		return NAN;
	}
	if (field != FIELD_BEFORE && derived_is_of_part(d, group)) {
		return NAN;
	}
	return fields_compare(field, &now, &before);
}
