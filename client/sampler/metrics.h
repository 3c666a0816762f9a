/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_SAMPLER_METRICS_H
#define GPUCTR_SAMPLER_METRICS_H

#include "proto/nvidia/host.h"

/* Makes the configuration of metrics that fit into one pass. 0, or an enum sampler_reason with r
 * filled, which names the metrics that do not. */
int metrics_configure(struct host *h, const char *const *metrics, size_t n, struct host_config *ret,
		      struct refusal *r);

#endif
