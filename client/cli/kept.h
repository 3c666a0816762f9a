/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_KEPT_H
#define CLIENT_CLI_KEPT_H

/* Samples and copies on their way into a capture file that keeps them (--raw with --mode sample),
 * collected to blocks. Functions return what store_write_samples() and store_write_copies() do. */

#include <gpuctr/gpuctr.h>

#include "client/store/store.h"

enum { KEPT_GPUS_MAX = 16 };

struct kept_sample {
	const char *gpu; /* UUID; lives as long as struct kept */
	uint64_t interval_ns;
	int64_t start_ns, end_ns;
	const double *values; /* one a metric of the plan */
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
};

int kept_sample(struct kept *k, struct store *store, const struct kept_sample *sample);
int kept_copy(struct kept *k, struct store *store, const struct gpuctr_copy *copy);
int kept_flush(struct kept *k, struct store *store);
void kept_deinit(struct kept *k);

#endif
