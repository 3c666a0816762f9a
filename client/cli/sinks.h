/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/files.h"
#include "client/cli/ranks.h"
#include "client/cli/run_options.h"
#include "client/cli/sampled.h"
#include "client/cli/stream.h"
#include "proto/base/arena.h"

/* Where records go: capture files, of which the summary is the report, and the live stream. What is
 * of the files alone they get themselves (files.h). Zero-initialised by the caller. */
struct sinks {
	const struct run_options *options;
	struct format_capture capture; /* filled in when the capture was opened */
	struct files files;
	struct stream *stream;	       /* NULL: no --stream */
	bool stream_is_cut;	       /* not all could be written */
	struct attributor *attributor; /* of all processes */
	struct ranks ranks;
	uint64_t records;
	unsigned processes;
	struct arena kept; /* what capture and driver point to */
	const char *driver;
	bool is_ended; /* the end was told, or is taken for one */
	int error;     /* of it */
	struct gpuctr_totals totals;
	bool program_refused; /* the program ended as one that we refuse does */
	/* Of a sampled run: what has the values of its records, and what these are read from. NULL:
	 * there are none, which was told. */
	struct sampled *sampled;
	struct store_reader *reader;
	const char *unsampled; /* how many have none; NULL: nothing was sampled */
	uint64_t sample_ns;
	size_t n_streamed; /* records of these */
};

/* A sampled run is recorded until it ends; sinks_attribute() then gives its records their values,
 * and only then does the stream get them. */

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
/* No more comes: finds the values, s->sampled, and gives them to records. */
void sinks_attribute(struct sinks *s, sampled_on_pause *on_pause, void *user);
/* The length of a sample, and how many kernels have no value, by reason; text lives as long. */
void sinks_unsampled(struct sinks *s, const char *text, uint64_t sample_ns);
void sinks_notice(struct sinks *s, const struct gpuctr_notice *notice);
void sinks_process_end(struct sinks *s, const struct gpuctr_process_end *end);
void sinks_progress(struct sinks *s, const struct gpuctr_totals *totals);
/* In on_end: the plan is still there. */
void sinks_end(struct sinks *s, const struct gpuctr_end *end);

/* After each round of messages, and from a timer. */
void sinks_flush(struct sinks *s);

/* Prints the summary, then waits for the reader of the stream: who ends that wait has the summary.
 * Without a summary, still reports that nothing was measured. The program was started. False: not
 * all could be written. */
bool sinks_conclude(struct sinks *s, bool with_summary);
void sinks_close(struct sinks *s);

/* --- between its files */
void sinks_close_stream(struct sinks *s);
/* --- sinks_sampled.c */
/* What has the values of records, where the file that is read has not; or NULL. */
struct sampled *sinks_sampled(const struct sinks *s);
/* The stream of a sampled run, of what was recorded. Its reader is waited for: nothing is dropped.
 */
void sinks_write_stream(struct sinks *s);
