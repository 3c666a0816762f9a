/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What samples of whole GPUs counted, over time, and of which part of each bin these are: where
 * sets of metrics take turns, a value is counted in its own turns only. */

#include "client/report/timeline.h"

enum { COUNTED_GPUS_MAX = 64, COUNTED_UUID_BYTES = 64 };

struct counted {
	size_t n_values;
	struct timeline timeline; /* of each value the sum; then of each how long it was counted, in
				     ns; then how long anything was */
	double *row;		  /* one more of these */
	char gpus[COUNTED_GPUS_MAX][COUNTED_UUID_BYTES];
	size_t n_gpus;
};

int counted_init(struct counted *c, size_t n_values); /* 0 or -ENOMEM */
void counted_deinit(struct counted *c);

/* NaN: this value was not counted then. */
void counted_add(struct counted *c, const char *gpu, int64_t start_ns, int64_t end_ns,
		 const double *values);

/* Of a value, bin by bin: timeline.n_bins. */
const double *counted_sums(const struct counted *c, size_t value);
/* For how much of the bin's time its sum stands, of all GPUs that were sampled then; 0: of none. */
double counted_part(const struct counted *c, size_t value, size_t bin);
