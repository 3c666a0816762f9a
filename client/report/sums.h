/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sums of several measures: bytes of the device's memory, and floating-point operations. */

#include "client/report/groups.h"
#include "client/report/peaks.h"

enum { SUM_TERMS = 8 };

/* Indices of measures that are added up. */
struct sum {
	size_t terms[SUM_TERMS], n; /* n 0: no such measure exists */
};

struct sums {
	struct sum bytes; /* to and from the device's memory */
	bool both_ways;	  /* false: the bytes are those of one direction alone */
	struct sum flops;
	int precisions[SUM_TERMS]; /* enum peaks_precision of each flops term; -1: no known peak */
	bool has_peak;		   /* a peak is known for one of the terms */
};

void sums_find(const struct measure *measures, size_t n, struct sums *ret);

/* Does a measure count operations of tensor cores in this precision? */
bool sums_has_precision(const struct sums *s, enum peaks_precision precision);

/* Appends which operations the flops of these measures count, "of the tensor cores bf16 to fp32,
 * fp8"; the flops include no others. False: there are none. */
bool sums_add_flops(const struct measure *measures, size_t n, struct buf *b);

/* The sum over the row's launches whose time is known; of sampled launches, over those that have a
 * value. NaN: not known. */
double sums_value(const struct sum *s, const struct group *group);
/* The time of the launches of sums_value(): the shortest that a term has. */
double sums_ns(const struct sum *s, const struct group *group);
