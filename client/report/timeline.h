/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sums over time in at most TIMELINE_BINS bins of equal length. The length doubles whenever the
 * bins do not cover the whole time any more, so memory does not grow with time. */

#include <stddef.h>
#include <stdint.h>

enum { TIMELINE_BINS = 512 };

struct timeline {
	size_t n_values;
	double *sums;	  /* TIMELINE_BINS sums of the first value, then as many of the next */
	int64_t begin_ns; /* begin of the first bin */
	uint64_t bin_ns;  /* length of a bin; 0: nothing was added */
	size_t n_bins;	  /* bins in use; the bins behind them are empty */
};

int timeline_init(struct timeline *t, size_t n_values); /* 0 or -ENOMEM */
void timeline_deinit(struct timeline *t);

/* Adds values at a time. Times may come in any order. NaN values are skipped. */
void timeline_add(struct timeline *t, int64_t at_ns, const double *values);
