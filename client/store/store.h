/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes a capture file. gpuctr-capture(5) describes it; reader.h reads it; store.c's head comment
 * says what survives a crash.
 *
 * Functions return 0, or a negative errno for failures that no user can cause, or a positive
 * STORE_E_* code that comes with a struct store_error. After the first failure a store is *inert*:
 * the file stays as it was after the last commit, every further write returns the same code and is
 * counted. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpuctr/gpuctr.h>

enum store_error_code {
	STORE_OK = 0,
	STORE_E_EXISTS = 1,	 /* the file exists and force was not given */
	STORE_E_PATH = 2,	 /* the file cannot be created or opened: the message says why */
	STORE_E_NOT_CAPTURE = 3, /* the file is not a capture */
	STORE_E_VERSION = 4,	 /* a capture of another format */
	STORE_E_TRUNCATED = 5,	 /* the file is shorter than its header says */
	STORE_E_CORRUPT = 6,	 /* damaged: structure, a value out of range, a checksum */
	STORE_E_FULL = 7,	 /* disk full, or quota */
	STORE_E_IO = 8,		 /* any other failure to read or write */
	STORE_E_BUSY = 9,	 /* another program keeps the file locked */
	STORE_E_UNFINISHED = 10, /* its writer was killed in a commit; no copy could be completed */
};

struct store_error {
	int code;	   /* enum store_error_code, or a negative errno */
	char message[384]; /* one sentence, names the file */
	char remedy[192];  /* one sentence; may be "" */
};

/* STORE_E_FULL -> "store-full"; unknown numbers give "store-unknown". Static. */
const char *store_error_name(int code);

struct store;

struct store_options {
	const char *path;		/* NULL: a temporary file without a name */
	bool force;			/* replace an existing file */
	const struct gpuctr_plan *plan; /* borrowed for the call */
	const char *const *command;	/* argv of the measured program, or NULL */
	const char *driver;
	const char *version;	       /* version of the client */
	bool sampled;		       /* records may have errors */
	bool keeps_samples;	       /* the file keeps the samples that values come from */
	bool graphs;		       /* records may be kernels of graphs */
	const struct gpuctr_gpu *gpus; /* the leased GPUs */
	size_t n_gpus;
};

/* Would store_create() refuse this path? To be called before anybody waits for a GPU. */
int store_check(const char *path, bool force, struct store_error *error);

/* Creates the file. With force, an existing file is replaced by one rename, once the new file is
 * complete and readable (without records). */
int store_create(const struct store_options *options, struct store_error *error,
		 struct store **ret);

/* May be called again for the same process, with more devices or versions. */
int store_write_process(struct store *s, const struct gpuctr_process *process);
/* Writes a claim "NAME=value" of the process about its job. */
int store_write_claim(struct store *s, unsigned process, const char *claim);
/* What a record belongs to. Equal texts must be the same pointer, and texts live as long as the
 * store. "": not known. */
struct store_attribution {
	const char *op, *sizes, *dir, *layer;
	unsigned layer_site; /* id of the site whose labels are the layer; 0: none */
	int64_t step, seq;   /* -1: none */
};
/* Writes a record, and before it the kernel, the sites and the active ranges that it refers to,
 * unless the file has them. If record->values is NULL, store_write_values() follows. what:
 * attribution, or NULL. */
int store_write_record(struct store *s, const struct gpuctr_record *record,
		       const struct store_attribution *what);
/* Writes values and errors of a record that was written without them, because they are only known
 * when the capture ends. */
int store_write_values(struct store *s, const struct gpuctr_record *record);
int store_write_mark(struct store *s, const struct gpuctr_mark *mark);
int store_write_image(struct store *s, const struct gpuctr_image *image);
int store_write_notice(struct store *s, const struct gpuctr_notice *notice);

/* Consecutive samples of a GPU, for a file that keeps samples. */
struct store_samples {
	const char *gpu; /* UUID */
	uint64_t interval_ns;
	size_t n;		   /* up to STORE_BLOCK_MAX */
	const int64_t (*times)[2]; /* begin and end of each, in ns since 1970 */
	const double *values;	   /* a value for each metric of the plan, sample by sample */
};
enum { STORE_BLOCK_MAX = 4096 };
int store_write_samples(struct store *s, const struct store_samples *samples);
/* Deletes the blocks of a GPU's samples that may end after *since_ns. If the first deleted sample
 * is earlier, *since_ns becomes its time. */
int store_drop_samples(struct store *s, const char *gpu, int64_t *since_ns);
/* Writes copies, which move bytes beside kernels; up to STORE_BLOCK_MAX of one process. */
int store_write_copies(struct store *s, const struct gpuctr_copy *copies, size_t n);
/* A time when it is unknown what ran on a GPU. gpu "": since start_ns no sample is of use. */
struct store_unknown {
	const char *gpu;
	int64_t start_ns, end_ns;
};
int store_write_unknown(struct store *s, const struct store_unknown *unknown);
/* Writes how many kernels have no value, by reason, in words, and the length of a sample. */
int store_write_unsampled(struct store *s, const char *text, uint64_t sample_ns);
int store_write_process_end(struct store *s, const struct gpuctr_process_end *end);

/* Commits records older than a second. To be called from a timer, so that records do not stay
 * uncommitted while the program pauses. */
int store_tick(struct store *s);

/* store_rest() commits and closes the file, so that it holds no descriptor. store_wake() opens it
 * again, and must be called before the next write. Each does nothing if the store is in that state
 * already. */
int store_rest(struct store *s);
int store_wake(struct store *s);

/* Writes the totals, commits and syncs; marks the capture as complete unless it ended with an
 * error. A file for which this was not called reads as incomplete. */
int store_finish(struct store *s, const struct gpuctr_end *end);

/* Commits and closes. Takes NULL, returns NULL. */
struct store *store_close(struct store *s);

/* Numbers of records that were written, and of records that a failure kept out of the file. */
uint64_t store_saved(const struct store *s);
uint64_t store_unsaved(const struct store *s);

/* The failure that made the store inert; code 0 when there is none. */
const struct store_error *store_last_error(const struct store *s);
