/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Which metrics were sampled together, from samples that have NAN for those that were not. */

#include <stddef.h>
#include <stdint.h>

#include "client/sampler/stream.h"

struct sampler_sets {
	size_t n_metrics; /* SAMPLER_METRICS_MAX at most; beyond it all are in one */
	size_t n;	  /* sets */
	uint8_t of[SAMPLER_METRICS_MAX];
};

/* All metrics are apart. */
void sampler_sets_init(struct sampler_sets *s, size_t n_metrics);
/* Metrics that have values in one sample are of one set. */
void sampler_sets_add(struct sampler_sets *s, const double *values);
/* Numbers them as their metrics come. More than SAMPLER_SETS_MAX, they become one. */
void sampler_sets_finish(struct sampler_sets *s);
