/* SPDX-License-Identifier: Apache-2.0 */
#include "client/replay/samples.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/sampler/sets.h"
#include "client/sampler/writer.h"
#include "proto/base/clean.h"
#include "proto/base/utf8.h"
#include "proto/wire/status.h"

/* Samples keep the times of the recording, as launches do. If standard input is a pipe, its other
 * end sends a byte when the reader is ready for samples. All samples are then written as fast as
 * the reader takes them, and the stream stays open, as a sampler's does while a program runs. */

struct samples {
	struct store_reader *reader;
	const char *gpu;
	const char *metrics[SAMPLER_METRICS_MAX];
	size_t at[SAMPLER_METRICS_MAX]; /* index of each metric in a sample of the recording */
	size_t n_metrics;
	struct sampler_sets sets; /* sets of these metrics */
	uint64_t intervals_ns[SAMPLER_SETS_MAX];
	uint64_t metric_ns[SAMPLER_METRICS_MAX]; /* first interval of each metric */
	size_t set;				 /* set of the last sample */
	bool is_away;				 /* other metrics were sampled since */
	struct sampler_writer writer;
	int64_t noted_ns;    /* end of the last block that note_sets() has read */
	int64_t end_ns;	     /* end of the last sample; 0: none was written */
	bool begun, is_over; /* the reader wants no more samples */
	struct refusal refusal;
};

static int refuse(struct samples *s, int reason, const char *message, const char *remedy)
{
	refusal_set(&s->refusal, reason, remedy, "%s", message);
	return reason;
}

static int refuse_metric(struct samples *s, const char *name)
{
	const struct gpuctr_plan *plan = &store_info(s->reader)->plan;
	struct refusal *r = &s->refusal;

	refusal_set(r, SAMPLER_METRICS, "It holds", "the recording does not hold %.200s", name);
	for (size_t i = 0; i < plan->n_metrics; i++) {
		size_t n = strlen(r->remedy);

		snprintf(r->remedy + n, sizeof(r->remedy) - n, "%s %s", i > 0 ? "," : "",
			 plan->metrics[i]);
	}
	utf8_repair(r->message);
	utf8_repair(r->remedy);
	return r->code;
}

/* Splits the list at its commas; metrics[] points into it. */
static int take_metrics(struct samples *s, char *list)
{
	const struct gpuctr_plan *plan = &store_info(s->reader)->plan;
	char *rest = NULL, text[64];

	for (char *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
		size_t i = 0;

		while (i < plan->n_metrics && strcmp(plan->metrics[i], name) != 0) {
			i++;
		}
		if (i == plan->n_metrics) {
			return refuse_metric(s, name);
		}
		if (s->n_metrics == SAMPLER_METRICS_MAX) {
			snprintf(text, sizeof(text), "more than %d metrics", SAMPLER_METRICS_MAX);
			return refuse(s, SAMPLER_METRICS, text, "Ask for fewer.");
		}
		s->metrics[s->n_metrics] = name;
		s->at[s->n_metrics++] = i;
	}
	return s->n_metrics > 0 ? 0 : refuse_metric(s, "a metric without a name");
}

/* --- writing --------------------------------------------------------------------------------- */

/* False: nobody reads. */
static bool write_all(struct samples *s)
{
	struct buffer *out = &s->writer.out;

	while (buffer_length(out) > 0) {
		ssize_t n = write(STDOUT_FILENO, out->data + out->start, buffer_length(out));

		if (n < 0 && errno != EINTR) {
			return false;
		}
		buffer_consume(out, n > 0 ? (size_t)n : 0);
	}
	return true;
}

static bool has_life(void)
{
	struct stat st;

	return fstat(STDIN_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
}

/* False: standard input has ended. */
static bool wait_for_byte(void)
{
	ssize_t n;
	char byte;

	do {
		n = read(STDIN_FILENO, &byte, 1);
	} while (n < 0 && errno == EINTR);
	return n > 0;
}

static int begin(struct samples *s)
{
	const struct sampler_begin begin = { .gpu = s->gpu,
					     .metrics = s->metrics,
					     .n_metrics = s->n_metrics,
					     .sets = s->sets.of,
					     .intervals_ns = s->intervals_ns,
					     .n_sets = s->sets.n };

	if (sampler_writer_begin(&s->writer, &begin) < 0) {
		return refuse(s, SAMPLER_FAILED, "out of memory", "");
	}
	s->begun = true;
	s->is_over = !write_all(s) || (has_life() && !wait_for_byte());
	return 0;
}

/* Moves the values of the sample's set to the front. False: no metric in it was asked for. */
static bool take_set(struct samples *s, double *values, size_t *ret)
{
	size_t n = 0, i = 0;

	while (i < s->n_metrics && isnan(values[i])) {
		i++;
	}
	if (i == s->n_metrics) {
		return false;
	}
	*ret = s->sets.of[i];
	for (i = 0; i < s->n_metrics; i++) {
		if (s->sets.of[i] == *ret) {
			values[n++] = values[i];
		}
	}
	return true;
}

static void tell_set(struct samples *s, size_t set, const struct store_samples *block)
{
	const struct sampler_set told = { .set = set, .interval_ns = block->interval_ns };

	sampler_writer_set(&s->writer, &told);
	s->set = set;
	s->is_away = false;
}

static void write_sample(struct samples *s, const struct store_samples *block, size_t i)
{
	size_t n = store_info(s->reader)->plan.n_metrics, set;
	int64_t start_ns = block->times[i][0];
	double values[SAMPLER_METRICS_MAX];

	for (size_t k = 0; k < s->n_metrics; k++) {
		values[k] = block->values[i * n + s->at[k]];
	}
	if (!take_set(s, values, &set)) {
		s->is_away = true;
		return;
	}
	if (set != s->set || s->is_away) {
		tell_set(s, set, block);
	} else if (s->end_ns != 0 && start_ns > s->end_ns) {
		uint64_t gap = (uint64_t)(start_ns - s->end_ns) / block->interval_ns;

		sampler_writer_lost(&s->writer, gap > 0 ? gap : 1);
	}
	sampler_writer_sample(&s->writer, start_ns, block->times[i][1], values);
	s->end_ns = block->times[i][1];
}

static int write_block(struct samples *s, const struct store_samples *block)
{
	int code = s->begun ? 0 : begin(s);

	for (size_t i = 0; code == 0 && !s->is_over && i < block->n; i++) {
		write_sample(s, block, i);
	}
	sampler_writer_flush(&s->writer);
	s->is_over |= !write_all(s);
	return code;
}

/* Notes which metrics were sampled together, and at which interval. Refuses samples that are out of
 * order here, before the program starts. */
static int note_sets(struct samples *s, const struct store_samples *block)
{
	size_t n = store_info(s->reader)->plan.n_metrics;
	double values[SAMPLER_METRICS_MAX];

	if (block->times[0][0] < s->noted_ns) {
		return refuse(s, SAMPLER_FAILED, "the recording's samples are not in order",
			      "Take the file as it was written, or record it again.");
	}
	s->noted_ns = block->times[block->n - 1][1];
	for (size_t i = 0; i < block->n; i++) {
		for (size_t k = 0; k < s->n_metrics; k++) {
			values[k] = block->values[i * n + s->at[k]];
			if (s->metric_ns[k] == 0 && !isnan(values[k])) {
				s->metric_ns[k] = block->interval_ns;
			}
		}
		sampler_sets_add(&s->sets, values);
	}
	return 0;
}

static void finish_sets(struct samples *s)
{
	sampler_sets_finish(&s->sets);
	for (size_t k = s->n_metrics; k-- > 0;) {
		s->intervals_ns[s->sets.of[k]] = s->metric_ns[k] ? s->metric_ns[k] : 1;
	}
}

static int each_block(struct samples *s,
		      int (*on_block)(struct samples *s, const struct store_samples *block),
		      int *ret_code)
{
	const struct store_samples *block;
	struct store_blocks *blocks = NULL;
	int e = store_samples(s->reader, &blocks);

	*ret_code = 0;
	while (e == 0 && *ret_code == 0 && !s->is_over &&
	       (e = store_next_samples(blocks, &block)) == 0 && block) {
		if (strcmp(block->gpu, s->gpu) == 0) {
			*ret_code = on_block(s, block);
		}
	}
	store_blocks_free(blocks);
	return e;
}

static int write_blocks(struct samples *s)
{
	int code, e;

	sampler_sets_init(&s->sets, s->n_metrics);
	e = each_block(s, note_sets, &code);
	finish_sets(s);
	if (e == 0 && code == 0) {
		e = each_block(s, write_block, &code);
	}
	if (e != 0) {
		const struct store_error *error = store_reader_error(s->reader);

		return refuse(s, SAMPLER_FAILED, error->message, error->remedy);
	}
	return code == 0 && !s->begun
		       ? refuse(s, SAMPLER_NO_GPU, "the recording has no samples of this GPU",
				"`gpuctr-replay --info` says what it holds.")
		       : code;
}

/* --- the end --------------------------------------------------------------------------------- */

static void write_end(struct samples *s, int code)
{
	const struct sampler_end end = { .reason = (enum sampler_reason)code,
					 .end_ns = s->end_ns,
					 .message = s->refusal.message,
					 .remedy = s->refusal.remedy };

	if (sampler_writer_end(&s->writer, &end) == 0) {
		write_all(s);
	}
}

int samples_play(struct store_reader *reader, const char *gpu, const char *metrics)
{
	static struct samples s;
	CLEAN_FREE char *list = strdup(metrics);
	int code;

	s.reader = reader;
	s.gpu = gpu;
	s.writer.limit = SIZE_MAX / 2; /* none: write_all() waits for the reader after each block */
	signal(SIGPIPE, SIG_IGN);
	code = list ? take_metrics(&s, list) : refuse(&s, SAMPLER_FAILED, "out of memory", "");
	code = code ? code : write_blocks(&s);
	while (code == 0 && !s.is_over && has_life() && wait_for_byte()) {
	}
	write_end(&s, code);
	sampler_writer_deinit(&s.writer);
	return code;
}
