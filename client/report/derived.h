/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Derived columns are computed from measured ones, if the capture has those. A derived column is
 * computed from a row's totals and never averaged: the bandwidth of ten kernels is all their bytes
 * divided by all their time. Rates leave out launches whose time is not known; if another value of
 * a launch is not known, the derived value is not known either. */

#include "client/report/fields.h"
#include "client/report/peaks.h"

/* derived.c defines them. */
enum derived_kind {
	DERIVED_BANDWIDTH,
	DERIVED_PEAK,
	DERIVED_FLOP,
	DERIVED_RATE,
	DERIVED_FLOP_PEAK,
	DERIVED_INTENSITY,
	DERIVED_DEFINED, /* a column of the user's; define.h */
};

enum {
	DERIVED_BUILT_IN = DERIVED_DEFINED, /* number of built-in kinds; a report has at most one
					       column of each */
	DERIVED_MAX = DERIVED_BUILT_IN + 16,
	DERIVED_TERMS = 8,
};

/* Measures that are added up, by their indices. */
struct derived_sum {
	size_t terms[DERIVED_TERMS], n;
};

struct derived {
	enum derived_kind kind;
	const char *name, *unit;
	struct derived_sum part, whole;
	int precisions[DERIVED_TERMS]; /* of each term of the part, enum peaks_precision; -1: no
					  peak is known of what it counts */
	const struct define *define;
};

/* Finds the derived columns that these measures allow. */
size_t derived_find(const struct measure *measures, size_t n, struct derived ret[DERIVED_MAX]);

/* Does a measure count operations of tensor cores in this precision? */
bool derived_has_precision(const struct measure *measures, size_t n,
			   enum peaks_precision precision);

/* Is the column computed from floating-point operations? */
bool derived_counts_operations(enum derived_kind kind);

/* Appends which operations the flops of these measures count, "of the tensor cores bf16 to fp32,
 * fp8"; the flops include no others. False: there are none. */
bool derived_add_flops(const struct measure *measures, size_t n, struct buf *b);

/* What a launch adds to the two totals, part and whole. False: not known for this launch. values
 * are by measure; an unknown time or peak is NaN. */
bool derived_terms(const struct derived *d, const double *values, double time_ns, double peak_bytes,
		   double *ret_part, double *ret_whole);

/* The value of a row of which only some launches were measured, and its standard error by the delta
 * method (total.h), with the covariance of values measured in the same launches; or of one whose
 * values are of samples, and have errors. */
struct estimate derived_estimate(const struct derived *d, const struct group *group);

/* Are the column's totals from different launches, so that no launch is known to all of its terms
 * though each term has some? That is the case if its metrics were measured in turns. */
bool derived_is_joined(const struct derived *d, const struct group *group);

/* The number of launches that a sum (DERIVED_FLOP) lacks, or, of samples, that have no value: what
 * the others did in their time stands for them. */
uint64_t derived_unknown(const struct derived *d, const struct group *group);
/* As fields_is_of_part(). */
bool derived_is_of_part(const struct derived *d, const struct group *group);

/* FIELD_BEFORE, FIELD_CHANGE and the fields after it, for a comparison of captures; NaN if the
 * times are from different clocks, or the sums cover different parts of the launches. */
double derived_compare(const struct derived *d, enum field field, const struct group *group);

/* What the column divides, of the launches whose time is known: of samples, of those with a value.
 * NaN: not known. */
double derived_part(const struct derived *d, const struct group *group);
/* The time of these, and of each of the terms at least. */
double derived_part_ns(const struct derived *d, const struct group *group);

/* NaN: not known. */
double derived_value(const struct derived *d, const struct group *group);
