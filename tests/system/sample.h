/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What an agent sends, made without one: kernels of three metrics. For tests and benchmarks of what
 * lies behind the agent's socket. */

#include "proto/wire/wire.h"

enum { SAMPLE_METRICS = 3, SAMPLE_RECORDS_MAX = 1024 };

extern const char *const sample_metrics[SAMPLE_METRICS];

/* The definitions that the records refer to: to be sent first, once. */
void sample_put_definitions(struct buffer *out, uint32_t capture, uint32_t process);

/* n records from number first on, launched at start_ns and each a moment later. */
void sample_put_records(struct buffer *out, uint32_t capture, uint32_t process, uint64_t first,
			size_t n, int64_t start_ns);
