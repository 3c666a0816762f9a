/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Collects samples and copies into blocks, and writes these to a capture file. Functions return the
 * results of store_write_samples() and store_write_copies(). */

#include <gpuctr/gpuctr.h>

#include "client/store/store.h"

enum { KEPT_GPUS_MAX = 16 };

/* Most times and values of samples, about 2 to 3 bytes each in the file: two hours of two metrics
 * at 10 us. The limit keeps a faulty sampler from filling the disk. */
#define KEPT_NUMBERS_MAX (UINT64_C(1) << 31)

struct kept_sample {
	const char *gpu; /* UUID; lives as long as struct kept */
	uint64_t interval_ns;
	int64_t start_ns, end_ns;
	const double *values; /* one for each metric of the plan; NAN: not sampled then */
};

/* Zero-initialised by the caller, with n_metrics set. */
struct kept {
	size_t n_metrics;
	struct kept_gpu {
		struct store_samples block;
		int64_t (*times)[2];
		double *values;
		int64_t last_ns; /* end of its last sample */
	} gpus[KEPT_GPUS_MAX];
	size_t n_gpus;
	struct gpuctr_copy *copies; /* copies of one process */
	size_t n_copies;
	int64_t until_ns; /* samples that end later are left out; 0: no limit */
	uint64_t numbers; /* times and values received */
	uint64_t unkept;  /* samples beyond KEPT_NUMBERS_MAX */
	uint64_t bad;	  /* samples without a valid time, or of the time of others */
};

int kept_sample(struct kept *k, struct store *store, const struct kept_sample *sample);
int kept_copy(struct kept *k, struct store *store, const struct gpuctr_copy *copy);
int kept_flush(struct kept *k, struct store *store);
/* Drops samples since *since_ns, and leaves out those that come later. *since_ns becomes earlier if
 * earlier samples were dropped as well. */
int kept_discard(struct kept *k, struct store *store, int64_t *since_ns);
void kept_deinit(struct kept *k);
