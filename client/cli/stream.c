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

struct buf *stream_line(struct stream *s, unsigned records)
{
	if (!s->has_head) {
		jsonl_head(s->jsonl, &s->lines.buf);
	}
	s->has_head = true;
	if (s->lines.buf.n >= BATCH_BYTES) {
		stream_flush(s);
	}
	s->lines.in_buf += records;
	return &s->lines.buf;
}

struct jsonl *stream_jsonl(struct stream *s)
{
	return s->jsonl;
}

void stream_process(struct stream *s, const struct gpuctr_process *process)
{
	if (!s->has_head && *process->recorded_from) {
		s->recorded_from = strdup(process->recorded_from);
		s->capture->recorded_from = s->recorded_from ? s->recorded_from : "";
	}
	jsonl_process(s->jsonl, stream_line(s, 0), process);
}

void stream_notice(struct stream *s, const struct gpuctr_notice *notice)
{
	/* Notices before the head, which waits for a process, are left out; stderr has every
	 * notice. */
	if (s->has_head) {
		jsonl_notice(&s->lines.buf, notice);
	}
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
