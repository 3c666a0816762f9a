/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/files.h"
#include "client/cli/ranks.h"
#include "client/cli/run_options.h"
#include "client/cli/sampled.h"
#include "client/cli/stream.h"
#include "proto/base/arena.h"

/* Where records go: the capture files, whose report is the summary, and the live stream. Messages
 * for the files alone go to files.h directly. Zero-initialised by the caller. */
struct sinks {
	const struct run_options *options;
	struct format_capture capture; /* filled in when the capture was opened */
	struct files files;
	struct stream *stream;	       /* NULL: no --stream */
	bool stream_is_cut;	       /* not all could be written */
	struct attributor *attributor; /* operators of all processes */
	struct ranks ranks;
	uint64_t records;
	unsigned processes;
	struct arena kept; /* strings and arrays of capture and driver */
	const char *driver;
	bool is_ended; /* the end has come, or end_untold() has made one */
	int error;     /* error of the end */
	struct gpuctr_totals totals;
	bool program_refused; /* the program ended with a refused client's status */
	/* For a sampled run: the values of its records, and the reader of these. NULL: there are no
	 * values, which was reported. */
	struct sampled *sampled;
	struct store_reader *reader;
	const char *unsampled; /* text: how many kernels have no value; NULL: nothing was sampled */
	uint64_t sample_ns;
	size_t n_streamed; /* records of sampled that were streamed */
};

/* A sampled run is recorded until it ends; sinks_attribute() then gives its records their values,
 * and the stream gets the records after that. */

/* Checks, before anybody waits for a GPU, whether the files can be made. False: an error was
 * printed. */
bool sinks_check(const struct run_options *options);

/* The plan lives until the capture's on_end has returned. False: an error was printed. */
bool sinks_prepare(struct sinks *s, const struct run_options *options,
		   const struct gpuctr_opened *opened);
/* Creates the files, once the capture has its GPUs. False: an error was printed. */
bool sinks_open(struct sinks *s);

void sinks_process(struct sinks *s, const struct gpuctr_process *process);
void sinks_record(struct sinks *s, const struct gpuctr_record *record);
void sinks_mark(struct sinks *s, const struct gpuctr_mark *mark);
void sinks_sample(struct sinks *s, const struct kept_sample *sample);
/* Call it when no more comes: calculates the values, s->sampled, and writes them into the files. */
void sinks_attribute(struct sinks *s, sampled_on_pause *on_pause, void *user);
/* text: how many kernels have no value, by reason; borrowed. sample_ns: length of a sample. */
void sinks_unsampled(struct sinks *s, const char *text, uint64_t sample_ns);
void sinks_notice(struct sinks *s, const struct gpuctr_notice *notice);
void sinks_process_end(struct sinks *s, const struct gpuctr_process_end *end);
void sinks_progress(struct sinks *s, const struct gpuctr_totals *totals);
/* Call it in on_end, when the plan is still valid. */
void sinks_end(struct sinks *s, const struct gpuctr_end *end);

/* Call it after each round of messages, and from a timer. */
void sinks_flush(struct sinks *s);

/* Prints the summary, and then waits for the reader of the stream, so that a user who ends that
 * wait has the summary. Without a summary, still reports that nothing was measured. Call it only if
 * the program was started. False: not everything could be written. */
bool sinks_conclude(struct sinks *s, bool with_summary);
void sinks_close(struct sinks *s);

/* --- shared by sinks*.c */
void sinks_close_stream(struct sinks *s);
/* --- sinks_sampled.c */
/* The values of records, if files_read()'s file does not have them; else NULL. */
struct sampled *sinks_sampled(const struct sinks *s);
/* Writes the stream of a sampled run from what was recorded. Waits for the stream's reader, so that
 * nothing is dropped. */
void sinks_write_stream(struct sinks *s);
