/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "client/sampler/stream.h"
#include "proto/nvidia/host.h"

enum { METRICS_IN_SET_MAX = 16 }; /* of sets that take turns: what is attributed at a time */

/* Metrics of one pass. */
struct metrics_set {
	const char *v[SAMPLER_METRICS_MAX]; /* borrowed */
	size_t n;
	struct host_config config; /* owned */
};

/* Makes the configuration of metrics that fit into one pass. 0, or an enum sampler_reason with r
 * filled, which names the metrics that do not. */
int metrics_configure(struct host *h, const char *const *metrics, size_t n, struct host_config *ret,
		      struct refusal *r);

/* Splits metrics into sets, SAMPLER_SETS_MAX at most; numbers: of each metric, its set; apart:
 * those of SMs from others. As above, but refuses only what needs several passes by itself. */
int metrics_split(struct host *h, const char *const *metrics, size_t n, bool apart,
		  struct metrics_set *sets, size_t *ret_n, uint8_t *numbers, struct refusal *r);
