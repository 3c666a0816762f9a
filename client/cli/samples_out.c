/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/samples_out.h"

#include "proto/base/json.h"

enum { LINES_BYTES = 32 << 10 };

int samples_out_open(struct samples_out *s, const char *path, bool force)
{
	return out_open(path, force, &s->lines.out);
}

static struct json begin_line(struct buf *b, const char *type)
{
	struct json j = { b };

	json_begin(&j, NULL, '{');
	json_word(&j, "type", type);
	return j;
}

static void end_line(struct json *j)
{
	json_end(j, '}');
	buf_char(j->b, '\n');
}

static void begin_stream(struct buf *b, const struct sampler_begin *begin)
{
	struct json j = begin_line(b, "timeline");

	json_text(&j, "gpu", begin->gpu);
	json_u64(&j, "interval_ns", begin->interval_ns);
	json_texts(&j, "metrics", begin->metrics, begin->n_metrics);
	end_line(&j);
}

void samples_out_begin(struct samples_out *s, const struct sampler_begin *begin)
{
	s->n_metrics = begin->n_metrics;
	if (s->lines.out) {
		begin_stream(&s->lines.buf, begin);
	}
}

static void add_sample(struct buf *b, int64_t start_ns, int64_t end_ns, const double *values,
		       size_t n)
{
	struct json j = begin_line(b, "sample");

	json_i64(&j, "start_ns", start_ns);
	json_i64(&j, "end_ns", end_ns);
	json_doubles(&j, "values", values, n);
	end_line(&j);
}

void samples_out_sample(struct samples_out *s, int64_t start_ns, int64_t end_ns,
			const double *values)
{
	if (!s->lines.out) {
		return;
	}
	add_sample(&s->lines.buf, start_ns, end_ns, values, s->n_metrics);
	s->lines.in_buf++;
	if (s->lines.buf.n >= LINES_BYTES) {
		out_lines_flush(&s->lines);
	}
}

void samples_out_lost(struct samples_out *s, int64_t start_ns, int64_t end_ns, uint64_t n)
{
	if (s->lines.out) {
		struct json j = begin_line(&s->lines.buf, "lost");

		json_i64(&j, "start_ns", start_ns);
		json_i64(&j, "end_ns", end_ns);
		json_u64(&j, "samples", n);
		end_line(&j);
	}
}

void samples_out_end(struct samples_out *s, const struct sampler_end *end)
{
	if (s->lines.out) {
		struct json j = begin_line(&s->lines.buf, "end");

		json_u64(&j, "samples", end->samples);
		json_u64(&j, "lost", end->lost);
		if (end->reason == SAMPLER_ENDED) {
			json_null(&j, "error");
		} else {
			json_text(&j, "error", end->message);
		}
		end_line(&j);
	}
	if (s->lines.out) {
		out_lines_flush(&s->lines);
	}
}

bool samples_out_close(struct samples_out *s)
{
	return out_lines_close(&s->lines, "samples", false);
}
