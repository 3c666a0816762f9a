/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sums over time in at most TIMELINE_BINS bins of equal length. The length doubles whenever the
 * bins together are shorter than the time so far, so that memory does not grow with time. */

#include <stddef.h>
#include <stdint.h>

enum { TIMELINE_BINS = 512 };

struct timeline {
	size_t n_values;
	double *sums;	  /* TIMELINE_BINS sums of the first value, then those of the next */
	int64_t begin_ns; /* of the first bin */
	uint64_t bin_ns;  /* 0: nothing was added */
	size_t n_bins;	  /* in use; those behind are empty */
};

int timeline_init(struct timeline *t, size_t n_values); /* 0 or -ENOMEM */
void timeline_deinit(struct timeline *t);

/* The order of calls does not matter. NaN is skipped. */
void timeline_add(struct timeline *t, int64_t at_ns, const double *values);
