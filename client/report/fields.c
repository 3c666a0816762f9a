/* SPDX-License-Identifier: Apache-2.0 */

/* Fields by name and their values. */

#include "client/report/fields.h"

#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"

static const char *const names[] = {
	[FIELD_TOTAL] = "total",   [FIELD_SUM] = "sum",	      [FIELD_MEAN] = "mean",
	[FIELD_SHARE] = "share",   [FIELD_MIN] = "min",	      [FIELD_MAX] = "max",
	[FIELD_STDDEV] = "stddev", [FIELD_BEFORE] = "before", [FIELD_CHANGE] = "change",
	[FIELD_END] = NULL,
};

const char *fields_name(enum field field, bool nested)
{
	return field == FIELD_SUM && nested ? "self" : names[field];
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
	buf_text(why, "'; they are total, sum (or self), mean, share, min, max, stddev, all");
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
	return measure->adds_up ||
	       (field != FIELD_TOTAL && field != FIELD_SUM && field != FIELD_SHARE);
}

static double percent(double part, double whole)
{
	return whole > 0 ? part / whole * 100 : NAN;
}

/* What is compared: totals where they mean something. */
static double compared(const struct measure *measure, size_t i, const struct group *group)
{
	if (!group || group->total_calls == 0) {
		return NAN;
	}
	if (measure->adds_up) {
		return group->total[i].n > 0 ? group->total[i].sum : NAN;
	}
	return group->self[i].n > 0 ? group->self[i].mean : NAN;
}

double fields_value(enum field field, const struct measure *measure, size_t i,
		    const struct group *group, const struct group *all)
{
	const struct sample *self = &group->self[i];
	double before;

	switch (field) {
	case FIELD_TOTAL:
		return group->total[i].n > 0 ? group->total[i].sum : NAN;
	case FIELD_BEFORE:
		return compared(measure, i, group->before);
	case FIELD_CHANGE:
		before = compared(measure, i, group->before);
		return percent(compared(measure, i, group) - before, fabs(before));
	case FIELD_STDDEV:
		return sample_deviation(self);
	default:
		break;
	}
	if (group->calls == 0 && (field == FIELD_SUM || field == FIELD_SHARE)) {
		return 0;
	}
	if (self->n == 0) {
		return NAN;
	}
	return field == FIELD_SUM     ? self->sum
	       : field == FIELD_MEAN  ? self->mean
	       : field == FIELD_SHARE ? percent(self->sum, all->self[i].sum)
	       : field == FIELD_MIN   ? self->min
				      : self->max;
}
