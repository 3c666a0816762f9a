/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* CUPTI's host half for one chip: config images and evaluation. Needs no GPU. One struct may be
 * used by one thread at a time. Linked into the planner, the gpu process, the agent and
 * gpuctr-replay. */

#include "proto/nvidia/vendor.h"

struct host {
	const struct vendor_host *v;
	CUpti_Profiler_Host_Object *object; /* for the catalogue and evaluation */
	char chip[32];
	CUpti_ProfilerType type; /* profiler for which the images are */
};

/* CUPTI's schedule of metrics for the hardware. */
struct host_config {
	uint8_t *image; /* owned */
	size_t size;
	size_t passes;
};

/* 0, or a positive code with r filled. host_init_sampling() is for PM sampling, which has fewer
 * metrics. */
int host_init(struct host *h, const struct vendor_host *v, const char *chip, struct refusal *r);
int host_init_sampling(struct host *h, const struct vendor_host *v, const char *chip,
		       struct refusal *r);
void host_deinit(struct host *h);

/* Concrete names, e.g. dram__bytes_read.sum; borrowed. */
struct host_metrics {
	const char *const *v;
	size_t n;
};

/* 0, or a positive code with r filled. Each set gets separate passes, in the order of the sets:
 * CUPTI shares passes only among metrics that are added together. So sets that need one pass each
 * become as many passes, and set i is measured in pass i. */
int host_config_new(struct host *h, const struct host_metrics *sets, size_t n,
		    struct host_config *ret, struct refusal *r);
void host_config_deinit(struct host_config *c);

/* The number of ranges in the image; 0: not an image. The image must be complete, because CUPTI
 * trusts it. */
size_t host_count_ranges(const struct host *h, const uint8_t *image, size_t size);

/* values has n entries; values that the image does not hold become NaN. 0, or CUPTI's result. */
CUptiResult host_evaluate(const struct host *h, const uint8_t *image, size_t size, size_t range,
			  const char *const *metrics, size_t n, double *values);

/* CUPTI's own name of a result, for messages. */
const char *host_result_name(const struct vendor_host *v, CUptiResult result);
