/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sums of several measures: bytes of the device's memory, and floating-point operations. */

#include "client/report/groups.h"
#include "client/report/peaks.h"

enum { SUM_TERMS = 8 };

/* Measures that are added up, by their indices. */
struct sum {
	size_t terms[SUM_TERMS], n; /* n 0: none was measured */
};

struct sums {
	struct sum bytes; /* to and from the device's memory */
	bool both_ways;	  /* else the bytes are of one direction alone */
	struct sum flops;
	int precisions[SUM_TERMS]; /* of each term of the flops, enum peaks_precision; -1: no peak
				      is known of what it counts */
	bool has_peak;		   /* of one of them */
};

void sums_find(const struct measure *measures, size_t n, struct sums *ret);

/* Does a measure count operations of tensor cores in this precision? */
bool sums_has_precision(const struct sums *s, enum peaks_precision precision);

/* Appends which operations the flops of these measures count, "of the tensor cores bf16 to fp32,
 * fp8"; the flops include no others. False: there are none. */
bool sums_add_flops(const struct measure *measures, size_t n, struct buf *b);

/* Of the row's launches whose time is known; of samples, of those with a value. NaN: not known. */
double sums_value(const struct sum *s, const struct group *group);
/* The time of these, and of each of the terms at least. */
double sums_ns(const struct sum *s, const struct group *group);
