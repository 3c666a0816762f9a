/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "client/cli/format.h"
#include "client/cli/kept.h"
#include "client/cli/run_options.h"
#include "client/report/attribution.h"
#include "client/store/reader.h"

/* The capture files of a run: none, one, or one for each name that the pattern of -o becomes for
 * its processes. Zero-initialised by the caller. */
struct files {
	const struct run_options *options;
	const struct format_capture *capture; /* borrowed */
	const char *driver;
	struct file *items; /* the file of all processes, if there is one, comes first */
	size_t n;
	size_t *of_process; /* for each process: 1 + the index of its file; 0: none yet */
	size_t n_processes;
	uint64_t unmade;  /* records of processes whose file could not be made */
	struct kept kept; /* samples and copies for the file of all processes */
};

/* Checks, before anything waits, whether the files can be created. False: the reason was
 * reported. */
bool files_check(const struct run_options *options);

/* False, with a message, when the output of this option would replace the recording that
 * gpuctr-replay plays. */
bool files_spare_recording(const struct run_options *options, const char *option, const char *path);

/* Creates the file of a pattern that depends on no process. False: the reason was reported. */
bool files_open(struct files *f, const struct run_options *options,
		const struct format_capture *capture, const char *driver);

/* When writing to a file fails, files_*() report that once and leave the file alone; the others
 * go on. */
void files_process(struct files *f, const struct gpuctr_process *process);
void files_record(struct files *f, const struct gpuctr_record *record,
		  const struct attribution *what);
void files_mark(struct files *f, const struct gpuctr_mark *mark);
void files_image(struct files *f, const struct gpuctr_image *image);
/* For --mode sample and --timeline. */
void files_sample(struct files *f, const struct kept_sample *sample);
void files_copy(struct files *f, const struct gpuctr_copy *copy);
void files_unknown(struct files *f, const struct store_unknown *unknown);
/* Drops what was sampled since since_ns. */
void files_discard(struct files *f, int64_t since_ns);
/* A reader of what was recorded until now, which the caller frees before files_close(). NULL: an
 * error was reported. */
struct store_reader *files_read(struct files *f);
/* A reader of the next file; together they hold all records. *at: 0 at first. NULL: no more. */
struct store_reader *files_next(struct files *f, size_t *at);
/* Writes a record's values, which are known now, into its file. */
void files_values(struct files *f, const struct gpuctr_record *record);
/* Call it after the values of a process. */
void files_values_end(struct files *f, unsigned process);
/* Call it after all values: gives each file of some processes the samples of GPUs that no other
 * file's process has used. Returns the reader's result. */
int files_share(struct files *f, struct store_reader *reader);
/* Writes the description of samples into the file of all processes. */
void files_unsampled(struct files *f, const char *text, uint64_t sample_ns);
void files_notice(struct files *f, const struct gpuctr_notice *notice);
void files_process_end(struct files *f, const struct gpuctr_process_end *end);
void files_flush(struct files *f);
/* Writes the end; a file of some of the processes gets the totals of these. */
void files_end(struct files *f, const struct gpuctr_end *end);
/* Prints a "file" line (slurm.c) for each file that exists; PATH is the expanded pattern. */
void files_write_names(const struct files *f, const char *node, FILE *out);
/* Are values of samples in the file that files_read() reads? */
bool files_have_values(const struct files *f);
/* How many files are complete, and the first of them. */
size_t files_made(const struct files *f, const char **ret_first);
uint64_t files_unsaved(const struct files *f); /* records that no file has */
/* Has everything been written, not only records? */
bool files_are_whole(const struct files *f);
void files_close(struct files *f);
