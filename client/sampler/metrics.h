/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "client/sampler/stream.h"
#include "proto/nvidia/host.h"

enum { METRICS_IN_SET_MAX = 16 }; /* of sets that take turns: as many as one attribution takes */

/* Metrics of one pass. */
struct metrics_set {
	const char *v[SAMPLER_METRICS_MAX]; /* borrowed */
	size_t n;
	struct host_config config; /* owned */
};

/* Makes the configuration of metrics that fit into one pass. 0, or an enum sampler_reason with r
 * filled, which names the metrics that do not fit. */
int metrics_configure(struct host *h, const char *const *metrics, size_t n, struct host_config *ret,
		      struct refusal *r);

/* Splits metrics into at most SAMPLER_SETS_MAX sets of one pass each. numbers: gets the set of each
 * metric. apart: metrics of SMs and others may not share a set. Returns as metrics_configure(), and
 * refuses a metric of several passes. */
int metrics_split(struct host *h, const char *const *metrics, size_t n, bool apart,
		  struct metrics_set *sets, size_t *ret_n, uint8_t *numbers, struct refusal *r);
