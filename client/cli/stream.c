/* SPDX-License-Identifier: Apache-2.0 */

/* Gathers lines and passes them to the thread of out.c in pieces of BATCH_BYTES, or after a
 * round of messages. The head is written with the first message, because the first process
 * reports whether values are recorded, and on which machine. A reader that goes away ("| head")
 * ends the stream quietly, and nothing else. A full disk or a slow reader loses records, which
 * are counted and reported at the end. */

#include "client/cli/stream.h"

#include <errno.h>
#include <stdlib.h>

#include "client/cli/jsonl.h"
#include "client/cli/out.h"
#include "client/cli/say.h"

#define BATCH_BYTES ((size_t)32 << 10)

struct stream {
	struct jsonl *jsonl;
	struct format_capture *capture;
	struct out_lines lines;
	char *recorded_from;
	bool has_head;
	bool has_capture; /* the records go to a capture file as well */
};

int stream_open(const struct run_options *options, struct format_capture *capture,
		struct stream **ret)
{
	struct stream *s = calloc(1, sizeof(*s));
	int r;

	if (!s) {
		return -ENOMEM;
	}
	s->capture = capture;
	s->has_capture = options->capture_path != NULL;
	s->jsonl = jsonl_new(capture);
	r = s->jsonl ? out_open(options->stream_path, options->force, &s->lines.out) : -ENOMEM;
	if (r < 0) {
		jsonl_free(s->jsonl);
		free(s);
		return r;
	}
	*ret = s;
	return 0;
}

void stream_flush(struct stream *s)
{
	out_lines_flush(&s->lines);
}

void stream_wait(struct stream *s)
{
	s->lines.waits = true;
}

static void need_head(struct stream *s)
{
	if (!s->has_head) {
		jsonl_head(s->jsonl, &s->lines.buf);
	}
	s->has_head = true;
}

static void flush_if_large(struct stream *s)
{
	if (s->lines.buf.n >= BATCH_BYTES) {
		stream_flush(s);
	}
}

void stream_process(struct stream *s, const struct gpuctr_process *process)
{
	if (!s->has_head && *process->recorded_from) {
		s->recorded_from = strdup(process->recorded_from);
		s->capture->recorded_from = s->recorded_from ? s->recorded_from : "";
	}
	need_head(s);
	jsonl_process(s->jsonl, &s->lines.buf, process);
	flush_if_large(s);
}

void stream_record(struct stream *s, const struct gpuctr_record *record,
		   const struct attribution *what)
{
	need_head(s);
	jsonl_record(s->jsonl, &s->lines.buf, record, what);
	s->lines.in_buf++;
	flush_if_large(s);
}

void stream_mark(struct stream *s, const struct gpuctr_mark *mark)
{
	need_head(s);
	jsonl_mark(&s->lines.buf, mark);
	flush_if_large(s);
}

void stream_sample(struct stream *s, const struct kept_sample *sample)
{
	need_head(s);
	jsonl_sample(s->jsonl, &s->lines.buf, sample);
	s->lines.in_buf++;
	flush_if_large(s);
}

void stream_notice(struct stream *s, const struct gpuctr_notice *notice)
{
	/* A notice does not come before the header, which waits for a process; the notice is on
	 * stderr in any case. */
	if (s->has_head) {
		jsonl_notice(&s->lines.buf, notice);
	}
}

void stream_process_end(struct stream *s, const struct gpuctr_process_end *end)
{
	need_head(s);
	jsonl_process_end(&s->lines.buf, end);
}

void stream_end(struct stream *s, const struct gpuctr_end *end)
{
	need_head(s);
	jsonl_end(&s->lines.buf, end);
	stream_flush(s);
}

bool stream_close(struct stream *s)
{
	bool whole = true;

	if (s) {
		whole = out_lines_close(&s->lines, "records", s->has_capture);
		jsonl_free(s->jsonl);
		free(s->recorded_from);
		free(s);
	}
	return whole;
}
