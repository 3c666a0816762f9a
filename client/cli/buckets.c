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

/* A sample's value as shown. */
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

int buckets_init(struct buckets *b, const char *const *metrics, size_t n, uint64_t length_ns)
{
	*b = (struct buckets){ .n_metrics = n, .length_ns = length_ns ? length_ns : 1000000 };
	b->metrics = calloc(n, sizeof(*b->metrics));
	b->items = calloc(BUCKETS_MAX, bucket_size(b));
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

static void widen(struct bucket_value *to, double min, double max)
{
	to->min = isnan(to->min) || min < to->min ? min : to->min;
	to->max = isnan(to->max) || max > to->max ? max : to->max;
}

static void merge(const struct buckets *b, struct bucket *to, const struct bucket *from)
{
	if (from->samples > 0 && to->samples == 0) {
		uint64_t lost = to->lost;

		memcpy(to, from, bucket_size(b));
		to->lost += lost;
		return;
	}
	for (size_t i = 0; from->samples > 0 && i < b->n_metrics; i++) {
		to->values[i].sum += from->values[i].sum;
		widen(&to->values[i], from->values[i].min, from->values[i].max);
	}
	to->samples += from->samples;
	to->lost += from->lost;
	to->time_ns += from->time_ns;
}

/* Two become one. */
static void halve(struct buckets *b)
{
	for (size_t i = 0; i < BUCKETS_MAX; i++) {
		if (i % 2 != 0) {
			merge(b, item(b, i / 2), item(b, i));
		} else if (i > 0) {
			memcpy(item(b, i / 2), item(b, i), bucket_size(b));
		}
	}
	memset(item(b, BUCKETS_MAX / 2), 0, BUCKETS_MAX / 2 * bucket_size(b));
	b->n = (b->n + 1) / 2;
	b->length_ns *= 2;
}

/* The bucket of this time; NULL: none. */
static struct bucket *find(struct buckets *b, int64_t at_ns)
{
	uint64_t i;

	if (b->start_ns == 0) {
		b->start_ns = at_ns;
	}
	if (at_ns < b->start_ns) {
		return NULL;
	}
	while ((uint64_t)(at_ns - b->start_ns) / b->length_ns >= BUCKETS_MAX) {
		halve(b);
	}
	i = (uint64_t)(at_ns - b->start_ns) / b->length_ns;
	b->n = i >= b->n ? i + 1 : b->n;
	return item(b, i);
}

int buckets_add(struct buckets *b, int64_t start_ns, int64_t end_ns, const double *values)
{
	struct bucket *bucket = find(b, start_ns);
	double length_ns = (double)(end_ns - start_ns);

	if (!bucket) {
		return -EINVAL;
	}
	for (size_t i = 0; i < b->n_metrics; i++) {
		struct bucket_value *v = &bucket->values[i];
		double shown = bucket_shown(&b->metrics[i], values[i], length_ns);

		if (bucket->samples == 0) {
			v->min = v->max = shown;
		}
		widen(v, shown, shown);
		v->sum += b->metrics[i].kind == BUCKET_RATE ? values[i] : values[i] * length_ns;
	}
	bucket->samples++;
	bucket->time_ns += length_ns;
	b->end_ns = end_ns;
	return 0;
}

void buckets_lost(struct buckets *b, int64_t start_ns, uint64_t n)
{
	struct bucket *bucket = find(b, start_ns);

	if (bucket) {
		bucket->lost += n;
	}
}

void buckets_finish(struct buckets *b)
{
	if (b->n > 1 && item(b, b->n - 1)->time_ns < (double)b->length_ns / 2) {
		merge(b, item(b, b->n - 2), item(b, b->n - 1));
		b->n--;
	}
}

double bucket_mean(const struct buckets *b, const struct bucket *bucket, size_t metric)
{
	double scale = b->metrics[metric].kind == BUCKET_RATE ? ns_per_s : 1;

	return bucket->samples > 0 ? bucket->values[metric].sum * scale / bucket->time_ns : NAN;
}
