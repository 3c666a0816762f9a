/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/samples_out.h"

#include <math.h>
#include <string.h>

#include "client/cli/say.h"
#include "client/cli/text.h"
#include "proto/base/json.h"

enum { LINES_BYTES = 32 << 10 };

static void flush(struct samples_out *s)
{
	struct buf *b = &s->lines;

	if (b->n > 0 && (b->failed || !out_write(s->out, b->data, b->n))) {
		s->unwritten += s->in_lines;
	}
	b->failed = false;
	s->in_lines = 0;
	buf_clear(b);
}

int samples_out_open(struct samples_out *s, const char *path, bool force, bool is_csv)
{
	s->is_csv = is_csv;
	return out_open(path, force, &s->out);
}

static void begin_csv(struct buf *b, const struct sampler_begin *begin)
{
	buf_text(b, "start_ns,end_ns");
	for (size_t i = 0; i < begin->n_metrics; i++) {
		buf_char(b, ',');
		text_csv(b, begin->metrics[i]);
	}
	buf_text(b, "\r\n");
}

static void begin_json(struct buf *b, const struct sampler_begin *begin)
{
	buf_text(b, "{\"type\":\"timeline\",\"gpu\":");
	json_string(b, begin->gpu);
	buf_text(b, ",\"interval_ns\":");
	buf_u64(b, begin->interval_ns);
	buf_text(b, ",\"metrics\":[");
	for (size_t i = 0; i < begin->n_metrics; i++) {
		buf_text(b, i > 0 ? "," : "");
		json_string(b, begin->metrics[i]);
	}
	buf_text(b, "]}\n");
}

void samples_out_begin(struct samples_out *s, const struct sampler_begin *begin)
{
	s->n_metrics = begin->n_metrics;
	if (s->out && s->is_csv) {
		begin_csv(&s->lines, begin);
	} else if (s->out) {
		begin_json(&s->lines, begin);
	}
}

static void add_value(struct buf *b, double value, const char *none)
{
	if (isfinite(value)) {
		buf_double(b, value);
	} else {
		buf_text(b, none);
	}
}

void samples_out_sample(struct samples_out *s, int64_t start_ns, int64_t end_ns,
			const double *values)
{
	struct buf *b = &s->lines;

	if (!s->out) {
		return;
	}
	buf_text(b, s->is_csv ? "" : "{\"type\":\"sample\",\"start_ns\":");
	buf_i64(b, start_ns);
	buf_text(b, s->is_csv ? "," : ",\"end_ns\":");
	buf_i64(b, end_ns);
	buf_text(b, s->is_csv ? "" : ",\"values\":[");
	for (size_t i = 0; i < s->n_metrics; i++) {
		buf_text(b, s->is_csv || i > 0 ? "," : "");
		add_value(b, values[i], s->is_csv ? "" : "null");
	}
	buf_text(b, s->is_csv ? "\r\n" : "]}\n");
	s->in_lines++;
	if (b->n >= LINES_BYTES) {
		flush(s);
	}
}

void samples_out_lost(struct samples_out *s, int64_t start_ns, int64_t end_ns, uint64_t n)
{
	struct buf *b = &s->lines;

	if (s->out && !s->is_csv) {
		buf_text(b, "{\"type\":\"lost\",\"start_ns\":");
		buf_i64(b, start_ns);
		buf_text(b, ",\"end_ns\":");
		buf_i64(b, end_ns);
		buf_text(b, ",\"samples\":");
		buf_u64(b, n);
		buf_text(b, "}\n");
	}
}

void samples_out_end(struct samples_out *s, const struct sampler_end *end)
{
	struct buf *b = &s->lines;

	if (!s->out) {
		return;
	}
	if (!s->is_csv) {
		buf_text(b, "{\"type\":\"end\",\"samples\":");
		buf_u64(b, end->samples);
		buf_text(b, ",\"lost\":");
		buf_u64(b, end->lost);
		buf_text(b, ",\"error\":");
		if (end->reason == SAMPLER_ENDED) {
			buf_text(b, "null");
		} else {
			json_string(b, end->message);
		}
		buf_text(b, "}\n");
	}
	flush(s);
}

void samples_out_close(struct samples_out *s)
{
	enum out_state state;
	int error;

	if (!s->out) {
		return;
	}
	flush(s);
	s->out = out_close(s->out, &state, &error);
	if (state == OUT_FAILED) {
		say_warning("stream-failed", strerror(-error),
			    "The samples from there on are lost: let --output be where there is "
			    "room.");
	} else if (state == OUT_OPEN && s->unwritten > 0) {
		say("warning[stream-slow]: %llu samples are not in the stream: its reader was too "
		    "slow",
		    (unsigned long long)s->unwritten);
	}
	buf_deinit(&s->lines);
}
