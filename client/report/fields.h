/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_FIELDS_H
#define CLIENT_REPORT_FIELDS_H

/* What a report tells of a measure in a row. */

#include "client/report/groups.h"

enum field {
	FIELD_TOTAL, /* with what is nested in the row */
	FIELD_SUM,   /* of the row alone; "self" where rows nest */
	FIELD_MEAN,  /* this and the following are of the row alone */
	FIELD_SHARE, /* of the sum of all records */
	FIELD_MIN,
	FIELD_MAX,
	FIELD_STDDEV,
	FIELD_ERROR,  /* standard error of the total, or of the mean where a sum means nothing */
	FIELD_BEFORE, /* the sum, or mean, of the capture that is compared with */
	FIELD_CHANGE, /* from there, in percent */
	FIELD_CHANGE_ERROR, /* standard error of the change, in percent */
	FIELD_DIFFERS,	    /* by more than two standard errors: 1, else 0 */
	/* The same of the mean, for what adds up. */
	FIELD_MEAN_BEFORE,
	FIELD_MEAN_CHANGE,
	FIELD_MEAN_CHANGE_ERROR,
	FIELD_MEAN_DIFFERS,
	FIELD_END,
};

/* A set of them: FIELD_BIT(FIELD_SUM) | ... */
#define FIELD_BIT(field) (1u << (field))
enum {
	FIELDS_ALL = FIELD_BIT(FIELD_BEFORE) - 1,
	FIELDS_USUAL = FIELD_BIT(FIELD_TOTAL) | FIELD_BIT(FIELD_SUM) | FIELD_BIT(FIELD_MEAN) |
		       FIELD_BIT(FIELD_SHARE)
};

/* "sum,mean" or "all"; false: why says what is wrong. */
bool fields_parse(const char *list, unsigned *ret, struct buf *why);

const char *fields_name(enum field field, bool nested);
/* In a table, where a figure stands beside what it is of. */
const char *fields_head(enum field field, bool nested);
/* Of a comparison: the one of a total that is the same of a mean, or the field itself. */
enum field fields_of_total(enum field field);
bool fields_are_of_mean(enum field field);

/* Those that only captures have of which some launches were measured, and others not. */
bool fields_is_of_errors(enum field field);

/* A sum of ratios means nothing. */
bool fields_applies(enum field field, const struct measure *measure);

/* The total, or the mean where a sum means nothing, with its error: what is compared. */
struct estimate fields_estimate(const struct measure *measure, size_t i, const struct group *group);

/* Is it a sum from which launches are missing, because nothing of their kind was measured? */
bool fields_is_of_some(const struct measure *measure, size_t i, const struct group *group);
/* The estimate as it is told: the error of such a sum is NaN, because one of the others would say
 * that the sum is known. */
struct estimate fields_told(const struct measure *measure, size_t i, const struct group *group);

/* Are the times of a row, and of what it was before, told by one clock: all by the kernels' own,
 * all as lengths of ranges, or both mixed alike, to a hundredth of the launches? So is a row
 * without times, or without a before. */
bool fields_same_clock(const struct group *group);

/* Is a sum without launches that the one before has, or the other way round: more than a hundredth
 * of them? Then it has no change. */
bool fields_is_of_part(const struct measure *measure, size_t i, const struct group *group);

/* A figure of a comparison, made of what it is now and what it was before. */
double fields_compare(enum field field, const struct estimate *now, const struct estimate *before);

/* NaN: not known, or nothing to tell. Shares and changes are in percent. Least, largest and
 * standard deviation are always those of launches that were measured. */
double fields_value(enum field field, const struct measure *measure, size_t i,
		    const struct group *group, const struct group *all);

#endif
