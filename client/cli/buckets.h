/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Samples over time, gathered in buckets of equal length. */

#include <stddef.h>
#include <stdint.h>

#include "proto/base/buf.h"

enum { BUCKETS_MAX = 48, BUCKETS_METRICS_MAX = 64 };

/* What a metric's values are shown as. */
enum bucket_kind {
	BUCKET_RATE,  /* counted: a second */
	BUCKET_LEVEL, /* a ratio, or a rate already */
};

/* Derived from the metric's name, as CUPTI forms names. unit: for text_scaled(), and the text
 * behind it. */
struct bucket_metric {
	enum bucket_kind kind;
	const char *unit, *suffix;
};
struct bucket_metric bucket_metric(const char *name);

struct bucket {
	uint64_t samples;
	double time_ns; /* that samples cover */
	struct bucket_value {
		double sum;	 /* of values; of levels each times its length in ns */
		double min, max; /* as shown */
	} values[];
};

/* Zero-initialised by the caller. */
struct buckets {
	size_t n_metrics;
	struct bucket_metric *metrics;
	int64_t start_ns;
	uint64_t length_ns; /* of a bucket: a millisecond, doubled until all are enough */
	size_t n;
	uint8_t *items; /* n of bucket_size() */
};

/* For samples of this time. A last bucket that would be too short is a part of the one before it.
 * -ENOMEM. */
int buckets_init(struct buckets *b, const char *const *metrics, size_t n, int64_t start_ns,
		 int64_t end_ns);
void buckets_deinit(struct buckets *b);

/* A sample counts where it begins. */
void buckets_add(struct buckets *b, int64_t start_ns, int64_t end_ns, const double *values);

const struct bucket *buckets_at(const struct buckets *b, size_t i);
/* The value that is shown: the sum divided by the time; NAN without a sample. */
double bucket_mean(const struct buckets *b, const struct bucket *bucket, size_t metric);

/* "1.53 TB/s", "99.1 %", "1.2 M/s". */
void bucket_text(const struct bucket_metric *m, double shown, struct buf *b);
