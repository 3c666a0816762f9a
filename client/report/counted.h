/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What samples of whole GPUs counted, over time, and which part of each bin's time the samples
 * cover. Where sets of metrics take turns, a value is counted only in the turns of its set. */

#include "client/report/timeline.h"

enum { COUNTED_GPUS_MAX = 64, COUNTED_UUID_BYTES = 64 };

struct counted {
	size_t n_values;
	struct timeline timeline; /* sum of each value; then for each value the ns in which it was
				     counted; then the ns of all samples */
	double *row;		  /* room for one row of these values */
	char gpus[COUNTED_GPUS_MAX][COUNTED_UUID_BYTES];
	size_t n_gpus;
};

int counted_init(struct counted *c, size_t n_values); /* 0 or -ENOMEM */
void counted_deinit(struct counted *c);

/* Adds a sample. A value of NaN was not counted in it. */
void counted_add(struct counted *c, const char *gpu, int64_t start_ns, int64_t end_ns,
		 const double *values);

/* The sums of a value: an array of timeline.n_bins. */
const double *counted_sums(const struct counted *c, size_t value);
/* Which part of the bin's time the sum covers, over all GPUs that were sampled in it; 0: none. */
double counted_part(const struct counted *c, size_t value, size_t bin);
