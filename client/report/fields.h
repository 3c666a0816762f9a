/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The figures that a report shows for a measure in a row. */

#include "client/report/groups.h"

/* A value with its standard error: the true value is within one error of it in 68 of 100 cases, and
 * within two errors in 95. */
struct figure {
	double value; /* NaN: not known */
	double error; /* 0: the value was counted; NaN: not known, or there is no value */
};

enum field {
	FIELD_TOTAL, /* the sum, with rows nested in this one */
	FIELD_SUM,   /* the sum of the row alone; "self" if rows nest */
	FIELD_MEAN,  /* this field and the fields after it are of the row alone */
	FIELD_SHARE, /* share of the sum of all records */
	FIELD_MIN,
	FIELD_MAX,
	FIELD_STDDEV,
	FIELD_N,      /* launches that had the metric, where metrics took turns */
	FIELD_ERROR,  /* standard error of the total, or of the mean if the measure does not add up
		       */
	FIELD_BEFORE, /* the sum, or mean, in the capture that is compared with */
	FIELD_CHANGE, /* change since that capture, in percent */
	FIELD_CHANGE_ERROR, /* standard error of the change, in percent */
	FIELD_DIFFERS,	    /* 1 if the change exceeds two standard errors, else 0 */
	/* The same fields for the mean, of measures that add up. */
	FIELD_MEAN_BEFORE,
	FIELD_MEAN_CHANGE,
	FIELD_MEAN_CHANGE_ERROR,
	FIELD_MEAN_DIFFERS,
	FIELD_END,
};

/* A set of fields: FIELD_BIT(FIELD_SUM) | ... */
#define FIELD_BIT(field) (1u << (field))
enum {
	FIELDS_ALL = FIELD_BIT(FIELD_BEFORE) - 1,
	FIELDS_USUAL = FIELD_BIT(FIELD_TOTAL) | FIELD_BIT(FIELD_SUM) | FIELD_BIT(FIELD_MEAN) |
		       FIELD_BIT(FIELD_SHARE)
};

/* Parses "sum,mean" or "all". False: why says what is wrong. */
bool fields_parse(const char *list, unsigned *ret, struct buf *why);

const char *fields_name(enum field field, bool nested);
/* The heading of the field in a table. */
const char *fields_head(enum field field, bool nested);
/* The field of a total that corresponds to a field of a mean in a comparison; else the field
 * itself. */
enum field fields_of_total(enum field field);
bool fields_are_of_mean(enum field field);

/* Does the field exist only where values were sampled? */
bool fields_is_of_errors(enum field field);

/* Does the field have a meaning for this measure? A sum of ratios has none, nor has a number of
 * launches where all have the metric. */
bool fields_applies(enum field field, const struct measure *measure);

/* The figure to compare, with its error: the total, or the mean if the measure does not add up. */
struct figure fields_figure(const struct measure *measure, size_t i, const struct group *group);

/* Do the times of a row now and before come from the same clock: all of them from kernels, all from
 * lengths of ranges, or mixed in the same proportion, to a hundredth of the launches? True if there
 * are no times, or no row before. */
bool fields_same_clock(const struct group *group);

/* Does one of the two sums, now and before, lack more than a hundredth of the launches that the
 * other sum has? Then the report shows no change. */
bool fields_is_of_part(const struct measure *measure, size_t i, const struct group *group);

/* A field of a comparison of two figures, now and before. */
double fields_compare(enum field field, const struct figure *now, const struct figure *before);

/* Value of a field. NaN: not known, or not applicable. Shares and changes are in percent. Least and
 * largest value and standard deviation are always those of measured launches. They are not known
 * where launches have the mean value of their place in the program's step, from samples. */
double fields_value(enum field field, const struct measure *measure, size_t i,
		    const struct group *group, const struct group *all);
