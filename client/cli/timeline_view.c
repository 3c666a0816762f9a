/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/timeline_view.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/child.h"
#include "client/cli/outfile.h"
#include "client/cli/sampler_child.h"
#include "client/cli/say.h"
#include "client/cli/terminal.h"
#include "client/cli/text.h"
#include "proto/base/clock.h"

enum { BUCKETS_SHOWN = 20, TIME_WIDTH = 9, VALUE_WIDTH = 11 };

#define PROGRESS_NS (500 * CLOCK_NS_PER_MS)

static const char *const value_titles[] = { "min", "mean", "max" };

/* --- what comes ------------------------------------------------------------------------------ */

static void on_begin(void *user, const struct sampler_begin *begin)
{
	struct timeline_view *v = user;
	uint64_t length_ns = v->options->duration_ns / BUCKETS_SHOWN;

	v->interval_ns = begin->interval_ns;
	v->begun_ns = clock_now_ns();
	snprintf(v->gpu, sizeof(v->gpu), "%s", begin->gpu);
	for (size_t i = 0; i < begin->n_metrics; i++) {
		if (!strings_add(&v->metrics, begin->metrics[i], strlen(begin->metrics[i]))) {
			return;
		}
	}
	length_ns = length_ns && length_ns < begin->interval_ns ? begin->interval_ns : length_ns;
	v->has_begun = buckets_init(&v->buckets, begin->metrics, begin->n_metrics, length_ns) == 0;
	samples_out_begin(&v->stream, begin);
}

static void on_sample(void *user, int64_t start_ns, int64_t end_ns, const double *values)
{
	struct timeline_view *v = user;

	v->samples++;
	if (v->has_begun) {
		(void)buckets_add(&v->buckets, start_ns, end_ns, values);
	}
	samples_out_sample(&v->stream, start_ns, end_ns, values);
}

static void on_lost(void *user, int64_t start_ns, int64_t end_ns, uint64_t n)
{
	struct timeline_view *v = user;

	v->lost += n;
	v->gaps++;
	if (v->has_begun) {
		buckets_lost(&v->buckets, start_ns, n);
	}
	samples_out_lost(&v->stream, start_ns, end_ns, n);
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
	samples_out_end(&v->stream, end);
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

static void say_why_lost(const struct timeline_view *v, struct buf *b)
{
	if (v->end.overflows > 0) {
		buf_printf(b, "; the hardware's buffer ran over %llu time%s",
			   (unsigned long long)v->end.overflows, v->end.overflows > 1 ? "s" : "");
	}
	if (v->end.dropped > 0) {
		buf_text(b, "; ");
		text_count(b, v->end.dropped);
		buf_text(b, " of these were not read in time");
	}
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
		buf_text(&b, v->lost > 1 ? " are missing, in " : " is missing, in ");
		text_count(&b, v->gaps);
		buf_text(&b, v->gaps > 1 ? " gaps" : " gap");
	}
	say_why_lost(v, &b);
	if (v->options->verbose && v->end.cpu_ns > 0 && v->buckets.end_ns > v->buckets.start_ns) {
		buf_printf(&b, "; sampling took %.2f of a core",
			   (double)v->end.cpu_ns /
				   (double)(v->buckets.end_ns - v->buckets.start_ns));
	}
	say("%s", buf_string(&b));
	buf_deinit(&b);
}

void timeline_view_progress(struct timeline_view *v)
{
	uint64_t now = clock_now_ns(), whole = v->options->duration_ns;
	struct buf b = { 0 };

	if (!v->has_begun || v->options->quiet || !terminal_is(STDERR_FILENO) ||
	    now - v->told_ns < PROGRESS_NS) {
		return;
	}
	v->told_ns = now;
	text_count(&b, v->samples);
	buf_text(&b, " samples, ");
	text_duration(&b, now - v->begun_ns);
	if (whole > now - v->begun_ns) {
		buf_text(&b, " of ");
		text_duration(&b, whole);
	}
	buf_text(&b, " (Ctrl-C ends it)");
	say_status(buf_string(&b));
	buf_deinit(&b);
}

/* --- from outside ---------------------------------------------------------------------------- */

static bool refuse_output(const struct timeline_view *v, int r)
{
	if (r < 0) {
		say_usage("--stream %s: %s", v->options->stream_path, outfile_why(r));
	}
	return r == 0;
}

bool timeline_view_init(struct timeline_view *v, const struct run_options *o)
{
	*v = (struct timeline_view){ .options = o };
	return !o->stream_path || refuse_output(v, out_check(o->stream_path, o->force));
}

bool timeline_view_open(struct timeline_view *v)
{
	const struct run_options *o = v->options;

	return !o->stream_path ||
	       refuse_output(v, samples_out_open(&v->stream, o->stream_path, o->force));
}

static bool prints_table(const struct timeline_view *v)
{
	const struct run_options *o = v->options;

	return v->samples > 0 && !o->quiet &&
	       !(v->stream.lines.out && strcmp(o->stream_path, "-") == 0);
}

int timeline_view_finish(struct timeline_view *v)
{
	bool prints = prints_table(v), written = samples_out_close(&v->stream);

	if (prints) {
		buckets_finish(&v->buckets);
		print_table(v);
	}
	if (v->has_begun && !v->options->quiet) {
		say_counts(v);
	}
	if (!v->has_ended) {
		say("the sampler ended without a last word (%s)%s. %s", child_end_text(v->status),
		    v->has_begun ? ": the last samples may be missing" : "", sampler_died_remedy);
	}
	return v->has_ended && v->end.reason == SAMPLER_ENDED && !v->is_cut && written
		       ? 0
		       : EXIT_REFUSED;
}

void timeline_view_close(struct timeline_view *v)
{
	samples_out_close(&v->stream);
	buckets_deinit(&v->buckets);
	strings_deinit(&v->metrics);
}
