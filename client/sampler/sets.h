/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds which metrics were sampled together, from samples, which have NAN for other metrics. */

#include <stddef.h>
#include <stdint.h>

#include "client/sampler/stream.h"

struct sampler_sets {
	size_t n_metrics; /* if more than SAMPLER_METRICS_MAX, all are in one set */
	size_t n;	  /* sets */
	uint8_t of[SAMPLER_METRICS_MAX];
};

/* Starts with each metric in a set of its own. */
void sampler_sets_init(struct sampler_sets *s, size_t n_metrics);
/* Joins the sets of metrics that have values in this sample. */
void sampler_sets_add(struct sampler_sets *s, const double *values);
/* Numbers sets in the order of their first metrics. More than SAMPLER_SETS_MAX become one set. */
void sampler_sets_finish(struct sampler_sets *s);
