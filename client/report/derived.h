/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_DERIVED_H
#define CLIENT_REPORT_DERIVED_H

/* Columns that follow from measured ones, where what they need was measured. They are computed from
 * a row's totals, never averaged: the bandwidth of ten kernels is their bytes by their time. A
 * launch whose time is not known has no part in a rate; where another value of a launch is not
 * known, neither is what follows from it. */

#include "client/report/fields.h"
#include "client/report/peaks.h"

enum derived_kind {
	DERIVED_BANDWIDTH, /* bytes between device and memory, by time */
	DERIVED_PEAK,	   /* the same, of what the memory could move at its peak */
	DERIVED_FLOP, /* floating-point operations, where several counters have a part of them */
	DERIVED_RATE, /* the same by time */
	DERIVED_FLOP_PEAK, /* the same, of what tensor cores could do in each precision */
	DERIVED_INTENSITY, /* floating-point operations a byte */
	DERIVED_DEFINED,   /* by the user; define.h */
};

enum {
	DERIVED_BUILT_IN = DERIVED_DEFINED, /* kinds, each of which a report has once at most */
	DERIVED_MAX = DERIVED_BUILT_IN + 16,
	DERIVED_TERMS = 8,
};

struct derived {
	enum derived_kind kind;
	const char *name, *unit;
	size_t bytes[DERIVED_TERMS], flops[DERIVED_TERMS]; /* measures whose sum it is */
	int precisions[DERIVED_TERMS]; /* of flops: enum peaks_precision, -1: none of these */
	size_t n_bytes, n_flops;
	const struct define *define;
};

/* Those that are there. */
size_t derived_find(const struct measure *measures, size_t n, struct derived ret[DERIVED_MAX]);

/* Does a measure count operations of tensor cores in this precision? */
bool derived_has_precision(const struct measure *measures, size_t n,
			   enum peaks_precision precision);

/* Is it made of floating-point operations? */
bool derived_counts_operations(enum derived_kind kind);

/* Appends which operations the flops of these are, "of the tensor cores bf16 to fp32, fp8"; others
 * are in none. False: there are none. */
bool derived_add_flops(const struct measure *measures, size_t n, struct buf *b);

/* What a launch adds: part of whole. False: not known of it. values are by measure; a time that is
 * not known is NaN, as is the peak. */
bool derived_terms(const struct derived *d, const double *values, double time_ns, double peak_bytes,
		   double *ret_part, double *ret_whole);

/* Where only some launches were measured: the value, and its standard error by the delta method
 * (total.h), with the covariance of what was measured in the same launches. */
struct estimate derived_estimate(const struct derived *d, const struct group *group);

/* Is it made of totals that are from different launches, where some launches are known to each of
 * its terms and to none of them together? So it is where its metrics were measured in turns. */
bool derived_is_joined(const struct derived *d, const struct group *group);

/* Of a sum (DERIVED_FLOP): launches that it is without. */
uint64_t derived_unknown(const struct derived *d, const struct group *group);
/* As fields_is_of_part(). */
bool derived_is_of_part(const struct derived *d, const struct group *group);

bool derived_uses_time(const struct derived *d);
/* Before, change and what follows it, of captures that are compared; NaN where it is made of times
 * by different clocks, or a sum of other parts of the launches. */
double derived_compare(const struct derived *d, enum field field, const struct group *group);

/* NaN: not known. */
double derived_value(const struct derived *d, const struct group *group);

#endif
