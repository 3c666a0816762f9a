/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Samples and copies on their way into a capture file that keeps them, collected to blocks.
 * Functions return what store_write_samples() and store_write_copies() do. */

#include <gpuctr/gpuctr.h>

#include "client/store/store.h"

enum {
	KEPT_GPUS_MAX = 16,
	/* Times and values of samples, about 2 to 3 bytes each in the file: 32 million samples of
	 * two metrics, 330 s at 10 us. */
	KEPT_NUMBERS_MAX = 96 << 20,
	/* Beyond it no samples are kept either: what copies did in them would be given to kernels.
	 */
	KEPT_COPIES_MAX = 16 << 20,
};

struct kept_sample {
	const char *gpu; /* UUID; lives as long as struct kept */
	uint64_t interval_ns;
	int64_t start_ns, end_ns;
	const double *values; /* one a metric of the plan; NAN: it was not sampled then */
};

/* Zero-initialised by the caller, with n_metrics set. */
struct kept {
	size_t n_metrics;
	struct kept_gpu {
		struct store_samples block;
		int64_t (*times)[2];
		double *values;
	} gpus[KEPT_GPUS_MAX];
	size_t n_gpus;
	struct gpuctr_copy *copies; /* of one process */
	size_t n_copies;
	uint64_t numbers, all_copies; /* that came */
	uint64_t unkept;	      /* samples and copies beyond the bounds */
};

int kept_sample(struct kept *k, struct store *store, const struct kept_sample *sample);
int kept_copy(struct kept *k, struct store *store, const struct gpuctr_copy *copy);
int kept_flush(struct kept *k, struct store *store);
void kept_deinit(struct kept *k);
