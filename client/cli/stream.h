/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/cli/format.h"
#include "client/cli/jsonl.h"
#include "client/cli/run_options.h"

/* The live stream of records, as JSON lines. */
struct stream;

/* To the options' stream_path. capture is borrowed for the life of the stream. 0 or
 * a negative errno. */
int stream_open(const struct run_options *options, struct format_capture *capture,
		struct stream **ret);

void stream_process(struct stream *s, const struct gpuctr_process *process);
void stream_notice(struct stream *s, const struct gpuctr_notice *notice);
/* Where a further line is appended, of so many records. */
struct buf *stream_line(struct stream *s, unsigned records);
struct jsonl *stream_jsonl(struct stream *s);

/* The stream is written at the end, when nothing but its reader is left to wait for. */
void stream_wait(struct stream *s);

/* Hands over what has been gathered: after each round of messages. */
void stream_flush(struct stream *s);

/* Waits for the reader, says what went wrong, and frees. Takes NULL. False: something could not be
 * written. */
bool stream_close(struct stream *s);
