/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/cli/format.h"
#include "client/cli/jsonl.h"
#include "client/cli/run_options.h"

/* The live stream of records, as JSON lines. */
struct stream;

/* Opens options->stream_path. Borrows capture for the life of the stream. 0 or a negative errno. */
int stream_open(const struct run_options *options, struct format_capture *capture,
		struct stream **ret);

void stream_process(struct stream *s, const struct gpuctr_process *process);
void stream_notice(struct stream *s, const struct gpuctr_notice *notice);
/* Returns the buffer for one more line, which holds this number of records. */
struct buf *stream_line(struct stream *s, unsigned records);
struct jsonl *stream_jsonl(struct stream *s);

/* From now on writes wait for the reader: called when the client has nothing else to do. */
void stream_wait(struct stream *s);

/* Hands the gathered lines to the writing thread, after each round of messages. */
void stream_flush(struct stream *s);

/* Waits for the reader, reports what went wrong, and frees. Takes NULL. False: something could not
 * be written. */
bool stream_close(struct stream *s);
