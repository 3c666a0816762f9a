/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/cli/format.h"
#include "client/cli/kept.h"
#include "client/cli/run_options.h"
#include "client/report/attribution.h"

/* The live stream of records, as JSON lines. */
struct stream;

/* To the options' stream_path. capture is borrowed for the life of the stream. 0 or
 * a negative errno. */
int stream_open(const struct run_options *options, struct format_capture *capture,
		struct stream **ret);

void stream_process(struct stream *s, const struct gpuctr_process *process);
void stream_record(struct stream *s, const struct gpuctr_record *record,
		   const struct attribution *what);
void stream_mark(struct stream *s, const struct gpuctr_mark *mark);
void stream_sample(struct stream *s, const struct kept_sample *sample);
void stream_notice(struct stream *s, const struct gpuctr_notice *notice);
void stream_process_end(struct stream *s, const struct gpuctr_process_end *end);
void stream_end(struct stream *s, const struct gpuctr_end *end);

/* The stream is written at the end, when nothing but its reader is left to wait for. */
void stream_wait(struct stream *s);

/* Hands over what has been gathered: after each round of messages. */
void stream_flush(struct stream *s);

/* Waits for the reader, says what went wrong, and frees. Takes NULL. False: something could not be
 * written. */
bool stream_close(struct stream *s);
