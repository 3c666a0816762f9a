/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/nvidia/host.h"

/* Explain why sampling fails, and what the user can do. All fill r and return its code, an enum
 * sampler_reason. This one explains a result of CUPTI; h may still be zeroed. */
int refuse_call(const struct host *h, const struct vendor_host *v, CUptiResult result,
		const char *call, uint64_t buffer_bytes, struct refusal *r);

/* For a GPU that MIG divides. says: name of CUPTI's result, or "". */
int refuse_mig(const char *gpu, const char *says, struct refusal *r);

/* For an interval at which the hardware's buffer overflows again and again. */
int refuse_interval(const char *call, struct refusal *r);

/* For samples that cannot be written. why: the error. */
int refuse_output(const char *why, struct refusal *r);
