/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Samples over time, gathered in buckets of equal length. */

#include <stddef.h>
#include <stdint.h>

#include "proto/base/buf.h"

enum { BUCKETS_MAX = 48, BUCKETS_METRICS_MAX = 64 };

/* How a metric's values are shown. */
enum bucket_kind {
	BUCKET_RATE,  /* counts: shown per second */
	BUCKET_LEVEL, /* ratios and rates: shown as they are */
};

/* Derived from the metric's name by CUPTI's rules for names. unit: for text_scaled(); suffix: the
 * text behind it. */
struct bucket_metric {
	enum bucket_kind kind;
	const char *unit, *suffix;
};
struct bucket_metric bucket_metric(const char *name);

struct bucket {
	uint64_t samples;
	double time_ns; /* time that samples cover */
	struct bucket_value {
		double sum;	 /* of counts; of levels, each times its sample's ns */
		double min, max; /* of values as shown */
	} values[];
};

/* Zero-initialised by the caller. */
struct buckets {
	size_t n_metrics;
	struct bucket_metric *metrics;
	int64_t start_ns;
	uint64_t length_ns; /* length of a bucket: 1 ms, doubled until the buckets suffice */
	size_t n;
	uint8_t *items; /* n buckets, bucket_size() bytes each */
};

/* Makes buckets for samples of this time. If the last bucket would be too short, the one before it
 * includes its time. 0 or -ENOMEM. */
int buckets_init(struct buckets *b, const char *const *metrics, size_t n, int64_t start_ns,
		 int64_t end_ns);
void buckets_deinit(struct buckets *b);

/* Adds a sample to the bucket in which it begins. */
void buckets_add(struct buckets *b, int64_t start_ns, int64_t end_ns, const double *values);

const struct bucket *buckets_at(const struct buckets *b, size_t i);
/* The mean as shown: the sum divided by the time; NAN without a sample. */
double bucket_mean(const struct buckets *b, const struct bucket *bucket, size_t metric);

/* "1.53 TB/s", "99.1 %", "1.2 M/s". */
void bucket_text(const struct bucket_metric *m, double shown, struct buf *b);
