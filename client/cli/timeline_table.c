/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/timeline_table.h"

#include <math.h>
#include <stdio.h>

#include "client/cli/buckets.h"
#include "client/cli/terminal.h"
#include "client/cli/text.h"
#include "proto/base/json.h"

enum { TIME_WIDTH = 9, VALUE_WIDTH = 11 };

static const char *const value_titles[] = { "min", "mean", "max" };

/* The samples of a GPU. */
struct timeline {
	const struct gpuctr_plan *plan;
	char gpu[64];
	int64_t first_ns, last_ns, end_ns;
	struct buckets buckets;
	uint64_t interval_ns, samples, lost, gaps;
	size_t width;
	bool styled;
};

bool timeline_is(const struct store_info *info)
{
	return info->sampled && info->plan.n_columns == 0;
}

/* --- the table ------------------------------------------------------------------------------- */

static void add_cell(struct buf *line, const struct bucket_metric *m, double shown)
{
	CLEAN_BUF struct buf b = { 0 };

	bucket_text(m, shown, &b);
	text_pad(line, buf_string(&b), VALUE_WIDTH, true);
}

static void add_row(const struct timeline *t, size_t i, size_t from, size_t to, struct buf *b)
{
	const struct bucket *bucket = buckets_at(&t->buckets, i);
	CLEAN_BUF struct buf time = { 0 };

	text_time(&time, (double)(i * t->buckets.length_ns));
	text_pad(b, i == 0 ? "0" : buf_string(&time), TIME_WIDTH, true);
	for (size_t k = from; k < to; k++) {
		const struct bucket_metric *m = &t->buckets.metrics[k];
		bool known = bucket->samples > 0;

		add_cell(b, m, known ? bucket->values[k].min : NAN);
		add_cell(b, m, bucket_mean(&t->buckets, bucket, k));
		add_cell(b, m, known ? bucket->values[k].max : NAN);
	}
	buf_char(b, '\n');
}

static void add_title(const char *metric, struct buf *line)
{
	CLEAN_BUF struct buf safe = { 0 }, cut = { 0 };

	text_terminal(&safe, metric);
	text_middle_cut(&cut, buf_string(&safe), 20, 3 * VALUE_WIDTH - 2);
	text_pad(line, buf_string(&cut), (size_t)3 * VALUE_WIDTH, true);
}

static void add_titles(const struct timeline *t, size_t from, size_t to, struct buf *b)
{
	CLEAN_BUF struct buf line = { 0 };

	text_pad(&line, "", TIME_WIDTH, true);
	for (size_t k = from; k < to; k++) {
		add_title(t->plan->metrics[k], &line);
	}
	terminal_bold(b, t->styled, buf_string(&line));
	buf_char(b, '\n');
	buf_clear(&line);
	text_pad(&line, "time", TIME_WIDTH, true);
	for (size_t k = from; k < to; k++) {
		for (size_t i = 0; i < 3; i++) {
			text_pad(&line, value_titles[i], VALUE_WIDTH, true);
		}
	}
	terminal_bold(b, t->styled, buf_string(&line));
	buf_char(b, '\n');
}

/* Metrics that do not fit beside each other get a further table below. */
static void add_tables(const struct timeline *t, struct buf *b)
{
	size_t n = t->plan->n_metrics;
	size_t fit = t->width > TIME_WIDTH ? (t->width - TIME_WIDTH) / (3 * VALUE_WIDTH) : 0;

	fit = fit > 0 ? fit : 1;
	for (size_t from = 0; from < n; from += fit) {
		size_t to = from + fit < n ? from + fit : n;

		buf_text(b, from > 0 ? "\n" : "");
		add_titles(t, from, to, b);
		for (size_t i = 0; i < t->buckets.n; i++) {
			add_row(t, i, from, to, b);
		}
	}
}

static void add_counts(const struct timeline *t, struct buf *b)
{
	buf_printf(b, "GPU %s: ", t->gpu);
	text_count(b, t->samples);
	buf_text(b, " samples of ");
	text_time(b, (double)t->interval_ns);
	buf_text(b, " in ");
	text_time(b, (double)(t->end_ns - t->first_ns));
	if (t->gaps > 0) {
		buf_text(b, ", and about ");
		text_count(b, t->lost);
		buf_text(b, t->lost == 1 ? " is missing, in " : " are missing, in ");
		text_count(b, t->gaps);
		buf_text(b, t->gaps > 1 ? " gaps" : " gap");
	}
	buf_char(b, '\n');
}

/* --- for programs ---------------------------------------------------------------------------- */

/* A metric in a stretch of time. */
struct stretch {
	const char *gpu, *metric, *unit;
	int64_t start_ns;
	uint64_t length_ns;
	double values[3]; /* in the order of value_titles; NaN: not sampled then */
};

static struct stretch stretch_at(const struct timeline *t, size_t i, size_t k)
{
	const struct bucket *bucket = buckets_at(&t->buckets, i);
	const struct bucket_metric *m = &t->buckets.metrics[k];
	bool known = bucket->samples > 0;

	return (struct stretch){
		.gpu = t->gpu,
		.metric = t->plan->metrics[k],
		.unit = *m->unit || !*m->suffix ? m->unit : "1/second",
		.start_ns = t->buckets.start_ns + (int64_t)(i * t->buckets.length_ns),
		.length_ns = t->buckets.length_ns,
		.values = { known ? bucket->values[k].min : NAN,
			    bucket_mean(&t->buckets, bucket, k),
			    known ? bucket->values[k].max : NAN },
	};
}

static void add_csv(const struct stretch *s, struct buf *b)
{
	if (b->n == 0) {
		buf_text(b, "gpu,metric,unit,start_ns,length_ns,min,mean,max\n");
	}
	text_csv(b, s->gpu);
	buf_char(b, ',');
	text_csv(b, s->metric);
	buf_printf(b, ",%s,%lld,%llu", s->unit, (long long)s->start_ns,
		   (unsigned long long)s->length_ns);
	for (size_t i = 0; i < 3; i++) {
		buf_char(b, ',');
		if (isfinite(s->values[i])) {
			buf_double(b, s->values[i]);
		}
	}
	buf_char(b, '\n');
}

static void add_json(const struct stretch *s, struct buf *b)
{
	struct json m = { b, b->n > 0 };

	json_begin(&m, NULL, '{');
	json_text(&m, "gpu", s->gpu);
	json_text(&m, "metric", s->metric);
	json_word(&m, "unit", s->unit);
	json_i64(&m, "start_ns", s->start_ns);
	json_u64(&m, "length_ns", s->length_ns);
	for (size_t i = 0; i < 3; i++) {
		json_double(&m, value_titles[i], s->values[i]);
	}
	json_end(&m, '}');
}

static void add_for_programs(const struct timeline *t, enum timeline_form form, struct buf *b)
{
	for (size_t i = 0; i < t->buckets.n; i++) {
		for (size_t k = 0; k < t->plan->n_metrics; k++) {
			const struct stretch s = stretch_at(t, i, k);

			if (form == TIMELINE_CSV) {
				add_csv(&s, b);
			} else {
				add_json(&s, b);
			}
		}
	}
}

/* --- samples --------------------------------------------------------------------------------- */

static void note_gap(struct timeline *t, int64_t start_ns, uint64_t interval_ns)
{
	if (t->samples > 0 && start_ns > t->last_ns && interval_ns > 0) {
		t->lost += ((uint64_t)(start_ns - t->last_ns) + interval_ns / 2) / interval_ns;
		t->gaps++;
	}
}

static int add_samples(const struct store_samples *samples, void *userdata)
{
	struct timeline *t = userdata;

	for (size_t i = 0; i < samples->n; i++) {
		note_gap(t, samples->times[i][0], samples->interval_ns);
		buckets_add(&t->buckets, samples->times[i][0], samples->times[i][1],
			    samples->values + i * t->plan->n_metrics);
		t->last_ns = samples->times[i][1];
		t->samples++;
	}
	return 0;
}

/* First pass: finds begin and end of the samples, which are all of one GPU. */
static int note_time(const struct store_samples *samples, void *userdata)
{
	struct timeline *t = userdata;

	t->first_ns = t->first_ns ? t->first_ns : samples->times[0][0];
	t->end_ns = samples->times[samples->n - 1][1];
	t->interval_ns = samples->interval_ns;
	snprintf(t->gpu, sizeof(t->gpu), "%s", samples->gpu);
	return 0;
}

int timeline_print(struct store_reader *reader, enum timeline_form form, size_t width, bool styled,
		   struct buf *b)
{
	const struct store_info *info = store_info(reader);
	struct timeline t = { .plan = &info->plan, .width = width, .styled = styled };
	int r;

	if (!info->has_samples || t.plan->n_metrics > BUCKETS_METRICS_MAX) {
		return 0;
	}
	r = store_each_samples(reader, note_time, &t);
	if (r || t.end_ns <= t.first_ns) {
		return r;
	}
	r = buckets_init(&t.buckets, t.plan->metrics, t.plan->n_metrics, t.first_ns, t.end_ns);
	r = r ? r : store_each_samples(reader, add_samples, &t);
	if (r == 0 && form == TIMELINE_TABLE) {
		buf_text(b, b->n > 0 ? "\n" : "");
		add_tables(&t, b);
		add_counts(&t, b);
	} else if (r == 0) {
		add_for_programs(&t, form, b);
	}
	buckets_deinit(&t.buckets);
	return r;
}
