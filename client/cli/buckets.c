/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/buckets.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"

static const double ns_per_s = 1e9;

/* --- metrics --- */

static bool ends_with(const char *name, const char *ending)
{
	size_t n = strlen(name), m = strlen(ending);

	return n >= m && strcmp(name + n - m, ending) == 0;
}

/* Counts of an instance (.avg, .min, .max), or of all instances (.sum), add up over time. */
static bool is_counted(const char *name)
{
	static const char *const endings[] = { ".sum", ".avg", ".min", ".max" };

	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		if (ends_with(name, endings[i])) {
			return true;
		}
	}
	return false;
}

struct bucket_metric bucket_metric(const char *name)
{
	bool counted = is_counted(name), rate = ends_with(name, ".per_second");
	struct bucket_metric m = { counted ? BUCKET_RATE : BUCKET_LEVEL, "", "" };

	if (strstr(name, ".pct")) {
		m.unit = "percent";
	} else if ((counted || rate) && strstr(name, "bytes")) {
		m.unit = "byte/second";
	} else if ((counted || rate) && strstr(name, "cycles")) {
		m.unit = "cycle/second";
	} else if (counted || rate) {
		m.suffix = "/s";
	}
	return m;
}

/* The value of a sample as the table shows it. */
static double bucket_shown(const struct bucket_metric *m, double value, double length_ns)
{
	return m->kind == BUCKET_RATE ? value * ns_per_s / length_ns : value;
}

void bucket_text(const struct bucket_metric *m, double shown, struct buf *b)
{
	text_scaled(b, shown, m->unit);
	if (!isnan(shown)) {
		buf_text(b, m->suffix);
	}
}

/* --- buckets --- */

static size_t bucket_size(const struct buckets *b)
{
	return sizeof(struct bucket) + b->n_metrics * sizeof(struct bucket_value);
}

static struct bucket *item(const struct buckets *b, size_t i)
{
	return (struct bucket *)(void *)(b->items + i * bucket_size(b));
}

const struct bucket *buckets_at(const struct buckets *b, size_t i)
{
	return item(b, i);
}

int buckets_init(struct buckets *b, const char *const *metrics, size_t n, int64_t start_ns,
		 int64_t end_ns)
{
	uint64_t whole_ns = (uint64_t)(end_ns - start_ns);

	*b = (struct buckets){ .n_metrics = n, .start_ns = start_ns, .length_ns = 1000000 };
	while (whole_ns / b->length_ns >= BUCKETS_MAX) {
		b->length_ns *= 2;
	}
	b->n = (size_t)((whole_ns + b->length_ns / 2) / b->length_ns);
	b->n = b->n > 0 ? b->n : 1;
	b->metrics = calloc(n, sizeof(*b->metrics));
	b->items = calloc(b->n, bucket_size(b));
	if (!b->metrics || !b->items) {
		buckets_deinit(b);
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++) {
		b->metrics[i] = bucket_metric(metrics[i]);
	}
	return 0;
}

void buckets_deinit(struct buckets *b)
{
	free(b->metrics);
	free(b->items);
	*b = (struct buckets){ 0 };
}

void buckets_add(struct buckets *b, int64_t start_ns, int64_t end_ns, const double *values)
{
	size_t at = (size_t)((uint64_t)(start_ns - b->start_ns) / b->length_ns);
	struct bucket *bucket = item(b, at < b->n ? at : b->n - 1);
	double length_ns = (double)(end_ns - start_ns);

	for (size_t i = 0; i < b->n_metrics; i++) {
		struct bucket_value *v = &bucket->values[i];
		double shown = bucket_shown(&b->metrics[i], values[i], length_ns);
		bool is_first = bucket->samples == 0;

		v->min = is_first || isnan(v->min) || shown < v->min ? shown : v->min;
		v->max = is_first || isnan(v->max) || shown > v->max ? shown : v->max;
		v->sum += b->metrics[i].kind == BUCKET_RATE ? values[i] : values[i] * length_ns;
	}
	bucket->samples++;
	bucket->time_ns += length_ns;
}

double bucket_mean(const struct buckets *b, const struct bucket *bucket, size_t metric)
{
	double scale = b->metrics[metric].kind == BUCKET_RATE ? ns_per_s : 1;

	return bucket->samples > 0 ? bucket->values[metric].sum * scale / bucket->time_ns : NAN;
}
