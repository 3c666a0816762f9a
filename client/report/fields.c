/* SPDX-License-Identifier: Apache-2.0 */

/* Fields by name and their values. */

#include "client/report/fields.h"

#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"

static const char *const names[] = {
	[FIELD_TOTAL] = "total",
	[FIELD_SUM] = "sum",
	[FIELD_MEAN] = "mean",
	[FIELD_SHARE] = "share",
	[FIELD_MIN] = "min",
	[FIELD_MAX] = "max",
	[FIELD_STDDEV] = "stddev",
	[FIELD_N] = "n",
	[FIELD_BEFORE] = "before",
	[FIELD_CHANGE] = "change",
	[FIELD_ERROR] = "error",
	[FIELD_DIFFERS] = "differs",
	[FIELD_CHANGE_ERROR] = "change_error",
	[FIELD_MEAN_BEFORE] = "mean_before",
	[FIELD_MEAN_CHANGE] = "mean_change",
	[FIELD_MEAN_CHANGE_ERROR] = "mean_change_error",
	[FIELD_MEAN_DIFFERS] = "mean_differs",
	[FIELD_END] = NULL,
};

const char *fields_name(enum field field, bool nested)
{
	return field == FIELD_SUM && nested ? "self" : names[field];
}

const char *fields_head(enum field field, bool nested)
{
	enum field of_total = fields_of_total(field);

	return of_total == FIELD_CHANGE_ERROR ? "error" : fields_name(of_total, nested);
}

bool fields_are_of_mean(enum field field)
{
	return field >= FIELD_MEAN_BEFORE && field <= FIELD_MEAN_DIFFERS;
}

enum field fields_of_total(enum field field)
{
	return fields_are_of_mean(field)
		       ? (enum field)(FIELD_BEFORE + (int)(field - FIELD_MEAN_BEFORE))
		       : field;
}

static bool parse_one(const char *word, unsigned *fields, struct buf *why)
{
	if (strcmp(word, "all") == 0) {
		*fields |= FIELDS_ALL;
		return true;
	}
	if (strcmp(word, "self") == 0) {
		word = names[FIELD_SUM];
	}
	for (unsigned i = 0; i < FIELD_BEFORE; i++) {
		if (strcmp(word, names[i]) == 0) {
			*fields |= FIELD_BIT(i);
			return true;
		}
	}
	buf_text(why, "there is no figure '");
	text_terminal(why, word);
	buf_text(
		why,
		"'; the figures are total, sum (or self), mean, share, min, max, stddev, n, error, "
		"all");
	return false;
}

bool fields_parse(const char *list, unsigned *ret, struct buf *why)
{
	char *copy = strdup(list), *rest = copy, *word;
	unsigned fields = 0;
	bool ok = copy != NULL;

	while (ok && (word = strsep(&rest, ","))) {
		ok = parse_one(word, &fields, why);
	}
	free(copy);
	if (ok) {
		*ret = fields;
	}
	return ok;
}

bool fields_applies(enum field field, const struct measure *measure)
{
	if (field == FIELD_N) {
		return measure->turn > 0;
	}
	return measure->adds_up || (field != FIELD_TOTAL && field != FIELD_SUM &&
				    field != FIELD_SHARE && !fields_are_of_mean(field));
}

static double percent(double part, double whole)
{
	return whole > 0 ? part / whole * 100 : NAN;
}

bool fields_is_of_errors(enum field field)
{
	field = fields_of_total(field);
	return field == FIELD_ERROR || field == FIELD_CHANGE_ERROR || field == FIELD_DIFFERS;
}

static const struct figure not_known = { .value = NAN, .error = NAN };

/* errors: error of the sum of each measure; NULL: sums have no errors. */
static struct figure figure_of(const struct part *sum, const double *errors, size_t i)
{
	return sum->n == 0 ? not_known : (struct figure){ sum->sum, errors ? errors[i] : 0 };
}

static struct figure mean_of(const struct group *group, size_t i)
{
	struct figure f = figure_of(&group->own[i], group->self_error, i);
	double n = (double)group->own[i].n;

	return (struct figure){ f.value / n, f.error / n };
}

static struct figure sum_of(const struct measure *measure, size_t i, const struct group *group)
{
	return measure->adds_up ? figure_of(&group->own[i], group->self_error, i)
				: mean_of(group, i);
}

static struct figure total_of(const struct measure *measure, size_t i, const struct group *group)
{
	return measure->adds_up ? figure_of(&group->total[i], group->total_error, i)
				: mean_of(group, i);
}

struct figure fields_figure(const struct measure *measure, size_t i, const struct group *group)
{
	return group && group->total_calls > 0 ? total_of(measure, i, group) : not_known;
}

/* Is the part of times that are lengths of ranges the same now and before? */
static bool same_part(uint64_t ranged, uint64_t n, uint64_t ranged_before, uint64_t n_before)
{
	return n == 0 || n_before == 0 ||
	       fabs((double)ranged / (double)n - (double)ranged_before / (double)n_before) <= 0.01;
}

bool fields_same_clock(const struct group *group)
{
	const struct group *before = group->before;

	return !before || (same_part(group->total_ranged, group->total[MEASURE_TIME].n,
				     before->total_ranged, before->total[MEASURE_TIME].n) &&
			   same_part(group->ranged, group->own[MEASURE_TIME].n, before->ranged,
				     before->own[MEASURE_TIME].n));
}

/* The change in percent, and its standard error, also in percent of the value before. The errors of
 * the two captures are independent. */
static struct figure change_of(const struct figure *now, const struct figure *before)
{
	double x = before->value, ratio = now->value / x;
	double variance = now->error * now->error + ratio * ratio * (before->error * before->error);

	return x == 0 ? not_known
		      : (struct figure){ (now->value - x) / fabs(x) * 100,
					 sqrt(variance / (x * x)) * 100 };
}

/* The difference of two figures in standard errors of the difference. Chance alone makes it larger
 * than 2 in 5 of 100 cases. */
static double distance_of(const struct figure *now, const struct figure *before)
{
	double apart = fabs(now->value - before->value), error = hypot(now->error, before->error);

	return apart > 0 ? apart / error : isnan(error) ? NAN : 0;
}

double fields_compare(enum field field, const struct figure *now, const struct figure *before)
{
	struct figure change = change_of(now, before);
	double distance = distance_of(now, before);

	switch (fields_of_total(field)) {
	case FIELD_BEFORE:
		return before->value;
	case FIELD_DIFFERS:
		return isnan(distance) ? NAN : distance > 2;
	case FIELD_CHANGE:
		return change.value;
	default:
		return change.error;
	}
}

/* The part of the launches that the sum lacks, because their value is not known. */
static double lacking_part(const struct group *group, size_t i)
{
	double known = (double)group->total[i].n;

	return known > 0 ? 1 - known / (double)group->total_calls : 0;
}

bool fields_is_of_part(const struct measure *measure, size_t i, const struct group *group)
{
	const struct group *before = group->before;

	return before && measure->adds_up && group->total_calls > 0 && before->total_calls > 0 &&
	       fabs(lacking_part(group, i) - lacking_part(before, i)) > 0.01;
}

static struct figure mean_of_calls(const struct group *group, size_t i)
{
	return group && group->calls > 0 ? mean_of(group, i) : not_known;
}

/* Are values sampled? Then a mean is that of launches with a value, the long ones. */
static bool is_sampled(const struct group *group)
{
	return group->total_error || (group->before && group->before->total_error);
}

static double compare(enum field field, const struct measure *measure, size_t i,
		      const struct group *group)
{
	bool of_mean = fields_are_of_mean(field);
	struct figure now = of_mean ? mean_of_calls(group, i) : fields_figure(measure, i, group);
	struct figure before = of_mean ? mean_of_calls(group->before, i)
				       : fields_figure(measure, i, group->before);

	if (i == MEASURE_TIME && fields_of_total(field) != FIELD_BEFORE &&
	    !fields_same_clock(group)) {
		return NAN;
	}
	if (fields_of_total(field) != FIELD_BEFORE && (!of_mean || is_sampled(group)) &&
	    fields_is_of_part(measure, i, group)) {
		return NAN;
	}
	return fields_compare(field, &now, &before);
}

static double self_value(enum field field, const struct measure *measure, size_t i,
			 const struct group *group, const struct group *all)
{
	double self = sum_of(measure, i, group).value;

	return field == FIELD_SUM ? self : percent(self, sum_of(measure, i, all).value);
}

/* Are values means of several launches? Then nobody knows how far each launch is from the mean. */
static bool is_of_means(size_t i, const struct group *group)
{
	return i != MEASURE_TIME && group->alike > 0;
}

double fields_value(enum field field, const struct measure *measure, size_t i,
		    const struct group *group, const struct group *all)
{
	const struct sample *self = &group->self[i];

	switch (field) {
	case FIELD_TOTAL:
		return total_of(measure, i, group).value;
	case FIELD_ERROR:
		return fields_figure(measure, i, group).error;
	case FIELD_BEFORE:
	case FIELD_CHANGE:
	case FIELD_CHANGE_ERROR:
	case FIELD_DIFFERS:
	case FIELD_MEAN_BEFORE:
	case FIELD_MEAN_CHANGE:
	case FIELD_MEAN_CHANGE_ERROR:
	case FIELD_MEAN_DIFFERS:
		return compare(field, measure, i, group);
	case FIELD_STDDEV:
		return is_of_means(i, group) ? NAN : sample_deviation(self);
	case FIELD_N:
		return (double)self->n;
	case FIELD_SUM:
	case FIELD_SHARE:
		return group->calls == 0 ? 0 : self_value(field, measure, i, group, all);
	case FIELD_MEAN:
		return mean_of(group, i).value;
	case FIELD_MIN:
		return self->n > 0 && !is_of_means(i, group) ? self->min : NAN;
	case FIELD_MAX:
		return self->n > 0 && !is_of_means(i, group) ? self->max : NAN;
	case FIELD_END:
		break;
	}
	return NAN;
}
