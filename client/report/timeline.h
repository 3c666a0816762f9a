/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_TIMELINE_H
#define CLIENT_REPORT_TIMELINE_H

/* Sums over time in a fixed number of equal bins, whose length doubles whenever time has got longer
 * than they are together. So memory is the same for a second and for a day. */

#include <stddef.h>
#include <stdint.h>

enum { TIMELINE_BINS = 512 };

struct timeline {
	size_t n_values;
	double *sums;	  /* TIMELINE_BINS of the first value, then of the next */
	int64_t begin_ns; /* of the first bin */
	uint64_t bin_ns;  /* 0: nothing was added */
	size_t n_bins;	  /* up to the last that is used */
};

int timeline_init(struct timeline *t, size_t n_values); /* 0 or -ENOMEM */
void timeline_deinit(struct timeline *t);

/* In any order. NaN is skipped. */
void timeline_add(struct timeline *t, int64_t at_ns, const double *values);

#endif
