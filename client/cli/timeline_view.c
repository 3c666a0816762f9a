/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/timeline_view.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/child.h"
#include "client/cli/outfile.h"
#include "client/cli/say.h"
#include "client/cli/terminal.h"
#include "client/cli/text.h"
#include "proto/base/json.h"

enum { BUCKETS_SHOWN = 20, TIME_WIDTH = 9, VALUE_WIDTH = 11, LINE_BYTES = 32 << 10 };

static const char *const value_titles[] = { "min", "mean", "max" };

/* --- the stream ------------------------------------------------------------------------------ */

static void flush(struct timeline_view *v)
{
	if (v->line.n > 0 && (v->line.failed || !out_write(v->out, v->line.data, v->line.n))) {
		v->unwritten += v->in_line;
	}
	v->line.failed = false;
	v->in_line = 0;
	buf_clear(&v->line);
}

static void add_value(struct buf *b, double value, const char *none)
{
	if (isfinite(value)) {
		buf_double(b, value);
	} else {
		buf_text(b, none);
	}
}

static void write_begin(struct timeline_view *v)
{
	struct buf *b = &v->line;

	if (v->is_csv) {
		buf_text(b, "start_ns,end_ns");
		for (size_t i = 0; i < v->metrics.n; i++) {
			buf_char(b, ',');
			text_csv(b, v->metrics.items[i]);
		}
		buf_text(b, "\r\n");
		return;
	}
	buf_text(b, "{\"type\":\"timeline\",\"gpu\":");
	json_string(b, v->gpu);
	buf_printf(b, ",\"interval_ns\":%llu,\"metrics\":[", (unsigned long long)v->interval_ns);
	for (size_t i = 0; i < v->metrics.n; i++) {
		buf_text(b, i > 0 ? "," : "");
		json_string(b, v->metrics.items[i]);
	}
	buf_text(b, "]}\n");
}

static void write_sample(struct timeline_view *v, int64_t start_ns, int64_t end_ns,
			 const double *values)
{
	struct buf *b = &v->line;

	if (!v->is_csv) {
		buf_text(b, "{\"type\":\"sample\",\"start_ns\":");
	}
	buf_i64(b, start_ns);
	buf_text(b, v->is_csv ? "," : ",\"end_ns\":");
	buf_i64(b, end_ns);
	buf_text(b, v->is_csv ? "" : ",\"values\":[");
	for (size_t i = 0; i < v->metrics.n; i++) {
		buf_text(b, v->is_csv || i > 0 ? "," : "");
		add_value(b, values[i], v->is_csv ? "" : "null");
	}
	buf_text(b, v->is_csv ? "\r\n" : "]}\n");
	v->in_line++;
	if (b->n >= LINE_BYTES) {
		flush(v);
	}
}

static void write_lost(struct timeline_view *v, int64_t start_ns, int64_t end_ns, uint64_t n)
{
	if (!v->is_csv) {
		buf_printf(
			&v->line,
			"{\"type\":\"lost\",\"start_ns\":%lld,\"end_ns\":%lld,\"samples\":%llu}\n",
			(long long)start_ns, (long long)end_ns, (unsigned long long)n);
	}
}

static void write_end(struct timeline_view *v, const char *message)
{
	if (!v->is_csv) {
		buf_printf(&v->line, "{\"type\":\"end\",\"samples\":%llu,\"lost\":%llu,\"error\":",
			   (unsigned long long)v->end.samples, (unsigned long long)v->end.lost);
		if (message) {
			json_string(&v->line, message);
		} else {
			buf_text(&v->line, "null");
		}
		buf_text(&v->line, "}\n");
	}
	flush(v);
}

/* --- what comes ------------------------------------------------------------------------------ */

static void on_begin(void *user, const struct sampler_begin *begin)
{
	struct timeline_view *v = user;
	uint64_t length_ns = v->options->duration_ns / BUCKETS_SHOWN;

	v->interval_ns = begin->interval_ns;
	snprintf(v->gpu, sizeof(v->gpu), "%s", begin->gpu);
	for (size_t i = 0; i < begin->n_metrics; i++) {
		if (!strings_add(&v->metrics, begin->metrics[i], strlen(begin->metrics[i]))) {
			return;
		}
	}
	length_ns = length_ns && length_ns < begin->interval_ns ? begin->interval_ns : length_ns;
	v->has_begun = buckets_init(&v->buckets, begin->metrics, begin->n_metrics, length_ns) == 0;
	if (v->out) {
		write_begin(v);
	}
}

static void on_sample(void *user, int64_t start_ns, int64_t end_ns, const double *values)
{
	struct timeline_view *v = user;

	v->samples++;
	if (v->has_begun) {
		(void)buckets_add(&v->buckets, start_ns, end_ns, values);
	}
	if (v->out) {
		write_sample(v, start_ns, end_ns, values);
	}
}

static void on_lost(void *user, int64_t start_ns, int64_t end_ns, uint64_t n)
{
	struct timeline_view *v = user;

	v->lost += n;
	if (v->has_begun) {
		buckets_lost(&v->buckets, start_ns, n);
	}
	if (v->out) {
		write_lost(v, start_ns, end_ns, n);
	}
}

/* How the sampler's reasons are called elsewhere. */
static const char *error_name(enum sampler_reason reason)
{
	switch (reason) {
	case SAMPLER_NO_CUPTI:
		return gpuctr_error_name(GPUCTR_E_NO_CUPTI);
	case SAMPLER_NO_GPU:
		return gpuctr_error_name(GPUCTR_E_NO_GPU);
	case SAMPLER_NO_CHIP:
		return gpuctr_error_name(GPUCTR_E_CHIP_UNKNOWN);
	case SAMPLER_METRICS:
		return gpuctr_error_name(GPUCTR_E_METRIC_UNKNOWN);
	case SAMPLER_PASSES:
		return gpuctr_error_name(GPUCTR_E_TOO_MANY_PASSES);
	case SAMPLER_NOT_ALLOWED:
		return gpuctr_error_name(GPUCTR_E_GRANT_REFUSED);
	case SAMPLER_BUSY:
		return gpuctr_error_name(GPUCTR_E_HARDWARE_BUSY);
	case SAMPLER_CUT_OFF:
		return gpuctr_error_name(GPUCTR_E_REVOKED);
	default:
		return gpuctr_error_name(GPUCTR_E_PROFILER);
	}
}

static void on_end(void *user, const struct sampler_end *end)
{
	struct timeline_view *v = user;

	v->has_ended = true;
	v->end = *end;
	v->end.message = v->end.remedy = NULL;
	/* That the counters are gone was said when the lease ended. */
	if (end->reason != SAMPLER_ENDED && !(end->reason == SAMPLER_CUT_OFF && v->is_cut)) {
		say_error(error_name(end->reason), end->message, end->remedy);
	}
	if (v->out) {
		write_end(v, end->reason == SAMPLER_ENDED ? NULL : end->message);
	}
}

const struct sampler_handler timeline_view_handler = {
	.on_begin = on_begin,
	.on_sample = on_sample,
	.on_lost = on_lost,
	.on_end = on_end,
};

/* --- the table ------------------------------------------------------------------------------- */

static void add_cell(struct buf *line, const struct bucket_metric *m, double shown)
{
	struct buf b = { 0 };

	bucket_text(m, shown, &b);
	text_pad(line, buf_string(&b), VALUE_WIDTH, true);
	buf_deinit(&b);
}

static void add_row(const struct timeline_view *v, size_t i, size_t from, size_t to, struct buf *b)
{
	const struct bucket *bucket = buckets_at(&v->buckets, i);
	struct buf time = { 0 };

	text_time(&time, (double)(i * v->buckets.length_ns));
	text_pad(b, i == 0 ? "0" : buf_string(&time), TIME_WIDTH, true);
	buf_deinit(&time);
	for (size_t k = from; k < to; k++) {
		const struct bucket_metric *m = &v->buckets.metrics[k];
		bool known = bucket->samples > 0;

		add_cell(b, m, known ? bucket->values[k].min : NAN);
		add_cell(b, m, bucket_mean(&v->buckets, bucket, k));
		add_cell(b, m, known ? bucket->values[k].max : NAN);
	}
	buf_char(b, '\n');
}

static void add_titles(const struct timeline_view *v, size_t from, size_t to, struct buf *b)
{
	bool styled = terminal_has_style(STDOUT_FILENO);
	struct buf line = { 0 };

	text_pad(&line, "", TIME_WIDTH, true);
	for (size_t k = from; k < to; k++) {
		struct buf safe = { 0 }, cut = { 0 };

		text_terminal(&safe, v->metrics.items[k]);
		text_middle_cut(&cut, buf_string(&safe), 20, 3 * VALUE_WIDTH - 2);
		text_pad(&line, buf_string(&cut), (size_t)3 * VALUE_WIDTH, true);
		buf_deinit(&safe);
		buf_deinit(&cut);
	}
	terminal_bold(b, styled, buf_string(&line));
	buf_char(b, '\n');
	buf_clear(&line);
	text_pad(&line, "time", TIME_WIDTH, true);
	for (size_t k = from; k < to; k++) {
		for (size_t i = 0; i < 3; i++) {
			text_pad(&line, value_titles[i], VALUE_WIDTH, true);
		}
	}
	terminal_bold(b, styled, buf_string(&line));
	buf_char(b, '\n');
	buf_deinit(&line);
}

/* Metrics that do not fit beside each other get a further table below. */
static void print_table(const struct timeline_view *v)
{
	size_t width = terminal_width(STDOUT_FILENO), n = v->metrics.n;
	size_t fit = width > TIME_WIDTH ? (width - TIME_WIDTH) / (3 * VALUE_WIDTH) : 0;
	struct buf b = { 0 };

	fit = fit > 0 ? fit : 1;
	for (size_t from = 0; from < n; from += fit) {
		size_t to = from + fit < n ? from + fit : n;

		buf_text(&b, from > 0 ? "\n" : "");
		add_titles(v, from, to, &b);
		for (size_t i = 0; i < v->buckets.n; i++) {
			add_row(v, i, from, to, &b);
		}
	}
	fwrite(b.data, 1, b.n, stdout);
	fflush(stdout);
	buf_deinit(&b);
}

static void say_counts(const struct timeline_view *v)
{
	struct buf b = { 0 };

	text_count(&b, v->samples);
	buf_text(&b, " samples of ");
	text_time(&b, (double)v->interval_ns);
	if (v->buckets.end_ns > v->buckets.start_ns) {
		buf_text(&b, " in ");
		text_time(&b, (double)(v->buckets.end_ns - v->buckets.start_ns));
	}
	if (v->lost > 0) {
		buf_text(&b, ", and ");
		text_count(&b, v->lost);
		buf_text(&b, " are missing");
	}
	if (v->end.overflows > 0) {
		buf_printf(&b, ": the hardware's buffer ran over %llu times",
			   (unsigned long long)v->end.overflows);
	}
	say("%s", buf_string(&b));
	buf_deinit(&b);
}

/* --- from outside ---------------------------------------------------------------------------- */

static bool refuse_output(const struct timeline_view *v, int r)
{
	if (r < 0) {
		say_usage("--output %s: %s", v->options->stream_path, outfile_why(r));
	}
	return r == 0;
}

static bool has_stream(const struct run_options *o)
{
	return o->format && o->format != &format_table;
}

bool timeline_view_init(struct timeline_view *v, const struct run_options *o)
{
	*v = (struct timeline_view){ .options = o, .is_csv = o->format == &format_csv };
	return !has_stream(o) || refuse_output(v, out_check(o->stream_path, o->force));
}

bool timeline_view_open(struct timeline_view *v)
{
	const struct run_options *o = v->options;

	return !has_stream(o) || refuse_output(v, out_open(o->stream_path, o->force, &v->out));
}

static bool prints_table(const struct timeline_view *v)
{
	const struct run_options *o = v->options;

	return v->samples > 0 && !o->quiet && !o->no_summary &&
	       !(v->out && strcmp(o->stream_path, "-") == 0);
}

static void close_stream(struct timeline_view *v)
{
	enum out_state state;
	int error;

	flush(v);
	v->out = out_close(v->out, &state, &error);
	if (state == OUT_FAILED) {
		say_warning("stream-failed", strerror(-error),
			    "The samples from there on are lost: let --output be where there is "
			    "room.");
	} else if (state == OUT_OPEN && v->unwritten > 0) {
		say("warning[stream-slow]: %llu samples are not in the stream: its reader was too "
		    "slow",
		    (unsigned long long)v->unwritten);
	}
}

int timeline_view_finish(struct timeline_view *v)
{
	bool prints = prints_table(v);

	if (v->out) {
		close_stream(v);
	}
	if (prints) {
		buckets_finish(&v->buckets);
		print_table(v);
	}
	if (v->has_begun && !v->options->quiet) {
		say_counts(v);
	}
	if (!v->has_ended) {
		say("the sampler ended without a last word (status %d)%s", v->status,
		    v->has_begun ? ": the last samples may be missing" : "");
	}
	return v->has_ended && v->end.reason == SAMPLER_ENDED && !v->is_cut ? 0 : EXIT_REFUSED;
}

void timeline_view_close(struct timeline_view *v)
{
	v->out = out_close(v->out, NULL, NULL);
	buf_deinit(&v->line);
	buckets_deinit(&v->buckets);
	strings_deinit(&v->metrics);
}
