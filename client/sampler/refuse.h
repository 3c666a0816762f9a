/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/nvidia/host.h"

/* What a result of CUPTI's means for who samples, and what to do. Fill r and return its code, an
 * enum sampler_reason. h may be zeros yet. */
int refuse_call(const struct host *h, const struct vendor_host *v, CUptiResult result,
		const char *call, uint64_t buffer_bytes, struct refusal *r);

/* Of a GPU that MIG divides. says: "" or what CUPTI does. */
int refuse_mig(const char *gpu, const char *says, struct refusal *r);

/* The hardware's buffer runs over again and again. */
int refuse_interval(const char *call, struct refusal *r);

/* Samples cannot be written. */
int refuse_output(const char *why, struct refusal *r);
