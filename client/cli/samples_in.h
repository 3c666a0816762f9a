/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads what samples_out.h writes, JSON lines or CSV, plain or compressed by gzip, sample by
 * sample. The file is not trusted: times are in order, below 2^62 ns, and values are numbers or
 * NAN. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/sampler/stream.h"
#include "proto/base/buf.h"

struct samples_in;

struct samples_in_sample {
	int64_t start_ns, end_ns;
	const double *values; /* one a metric, valid until the next call */
};

/* NULL: why says what is wrong with the file; empty: out of memory. */
struct samples_in *samples_in_open(const char *path, struct buf *why);
struct samples_in *samples_in_close(struct samples_in *s); /* takes NULL, returns NULL */

/* "": CSV does not say it. */
const char *samples_in_gpu(const struct samples_in *s);
uint64_t samples_in_interval_ns(const struct samples_in *s); /* 0: not said */
size_t samples_in_metrics(const struct samples_in *s, const char *const **ret);

/* 1: *ret is the next one; 0: that was the last; -EINVAL with why told, or -ENOMEM. */
int samples_in_next(struct samples_in *s, struct samples_in_sample *ret, struct buf *why);

/* After the last: how many were lost, and whether the file ends as it should. CSV says neither. */
uint64_t samples_in_lost(const struct samples_in *s);
bool samples_in_is_cut(const struct samples_in *s);
