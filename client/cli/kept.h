/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Samples and copies on their way into a capture file, collected to blocks. Functions return what
 * store_write_samples() and store_write_copies() do. */

#include <gpuctr/gpuctr.h>

#include "client/store/store.h"

enum { KEPT_GPUS_MAX = 16 };

/* Times and values of samples, about 2 to 3 bytes each in the file: two hours of two metrics at
 * 10 us. A sampler that tells more in a shorter time fills no disk. */
#define KEPT_NUMBERS_MAX (UINT64_C(1) << 31)

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
		int64_t last_ns; /* the end of its last sample */
	} gpus[KEPT_GPUS_MAX];
	size_t n_gpus;
	struct gpuctr_copy *copies; /* of one process */
	size_t n_copies;
	int64_t until_ns; /* samples that end later are left out; 0: none are */
	uint64_t numbers; /* that came */
	uint64_t unkept;  /* samples beyond the bound */
	uint64_t bad;	  /* of no time, or of one that others are of */
};

int kept_sample(struct kept *k, struct store *store, const struct kept_sample *sample);
int kept_copy(struct kept *k, struct store *store, const struct gpuctr_copy *copy);
int kept_flush(struct kept *k, struct store *store);
/* What was sampled since then is of no use, and what comes is left out; *since_ns becomes earlier,
 * if more is gone. */
int kept_discard(struct kept *k, struct store *store, int64_t *since_ns);
void kept_deinit(struct kept *k);
