/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What groups.c, leaves.c, groups_records.c and kinds.c (records to leaves), fold.c (leaves to
 * rows) and errors.c (errors of rows) share. */

#include "client/report/errors.h"
#include "client/report/sums.h"

/* Launches of a process with a kernel and a launch shape in common, where metrics take turns. */
struct kind {
	struct kind_key {
		const char *kernel; /* one of texts */
		size_t capture;	    /* the how many-th */
		unsigned process;
		uint32_t grid[3], block[3], dynamic_shared_bytes, graph;
	} key;
	size_t number; /* in the order of their first records */
	size_t n_measures;
	struct part *sums; /* of those that had the metric, one a measure */
	/* As those of a leaf: */
	uint64_t ranged;
	double peak_bytes;
};

/* A set of records that have the same labels. If keys nest, a leaf is finer than a row, because a
 * leaf has a position among the ranges. */
struct leaf {
	const void *dims[KEYS_MAX]; /* labels; for the key that nests, the scope */
	uint64_t calls, small, graphs, alike, ranged;
	double peak_bytes, peak_ns;
	const struct scope *op;
	struct kind *kind; /* of all of them; NULL: their metrics took no turns */
	struct sample *stats;
	struct part *timed;   /* sums over launches whose time is known, one for each measure */
	struct alike *errors; /* of sampled records; NULL: there are none */
	enum { WANTED_UNKNOWN, WANTED, UNWANTED } wanted; /* where.c */
};

enum { GROUPS_LAUNCHES = 1 << 14 };

/* What is found once for records of a launch, which differ in step and graph. */
struct groups_launch {
	unsigned launch, announced; /* launch 0: found for one record */
	uint32_t graph;
	int64_t step;
	const void *dims[KEYS_MAX]; /* as those of a leaf */
	struct leaf *leaf;
	const struct groups_device *device; /* NULL: not announced */
	bool is_small; /* it has fewer blocks than the device multiprocessors, if known */
};

/* A device of a process. */
struct groups_device {
	unsigned index;
	const char *label;
	unsigned multiprocessors;	    /* 0: unknown */
	double bytes_a_ns;		    /* peak of the memory; 0: unknown */
	double flop_a_ns[PEAKS_PRECISIONS]; /* peaks of the tensor cores; 0: unknown */
};

struct groups_process {
	unsigned process;
	const char *label;
	const char *rank, *task; /* "": not said */
	struct groups_device *devices;
	size_t n_devices;
};

/* A leaf belongs to the self of one row and to the total of several. */
struct row_leaf {
	struct group *row;
	const struct leaf *leaf;
	bool self;
};

struct groups {
	struct keys keys;
	struct groups *beside; /* which are given the same; NULL: none */
	struct texts texts;

	struct measure *measures;
	size_t n_measures;
	size_t *columns; /* measure of each column of the current capture */
	size_t n_columns;
	const char *capture, *host;

	struct groups_process *processes; /* processes of the current capture */
	size_t n_processes, max_processes;
	double flop_peaks[PEAKS_PRECISIONS];	   /* operations per nanosecond, the highest of all
						      devices */
	bool flop_peaks_unknown[PEAKS_PRECISIONS]; /* of one of them */
	struct groups_launch launches[GROUPS_LAUNCHES]; /* direct-mapped */
	unsigned announced; /* numbers captures, and processes that are announced again */
	bool by_step;	    /* the step is a key */
	struct {
		const char *name, *label;
		int64_t number;
	} step; /* the last one; label NULL: none */

	struct leaf **leaves;
	size_t n_leaves, max_leaves;
	struct map known_leaves;

	struct group **rows;
	size_t n_rows, max_rows;
	struct map known_rows;
	struct texts row_texts; /* rows and what they own */
	struct group *all;

	bool sampled;	  /* values of some records have errors */
	bool turns;	  /* metrics of some capture were measured in turns */
	bool takes_turns; /* metrics of the current capture were measured in turns */
	size_t n_captures;
	struct map known_kinds, known_alike;
	size_t n_kinds;
	struct sums sums;
	struct row_leaf *row_leaves; /* where metrics take turns or values have errors */
	size_t n_row_leaves, max_row_leaves;

	uint64_t records;
	uint64_t by_clock[GPUCTR_CLOCK_GPU + 1];
};

/* --- groups.c. NULL: not announced. */
struct groups_process *groups_find_process(struct groups *g, unsigned process);
const struct groups_device *groups_find_device(const struct groups_process *p, unsigned index);

/* --- fold.c */
/* groups_finish() with rows of the caller's, to which leaves belong: what these have themselves,
 * without totals and errors. */
int groups_finish_by(struct groups *g,
		     struct group *(*choose)(struct groups *g, const struct leaf *leaf,
					     void *userdata),
		     void *userdata);

/* --- leaves.c */
/* The leaf of a record, and what else its launch decides. what: of the record; NULL: it belongs to
 * nothing. NULL: out of memory. */
const struct groups_launch *groups_find(struct groups *g, const struct gpuctr_record *record,
					const struct attribution *what);
/* The hash of one label for each key. */
uint64_t groups_hash(const void *const *dims, unsigned n);

/* --- kinds.c. kernel: its name, one of texts. NULL: out of memory. */
struct kind *kinds_find(struct groups *g, const struct gpuctr_record *record, const char *kernel);
/* Adds, to a row itself or to its total, sums of leaves whose metrics took turns; those of one kind
 * follow each other. */
void kinds_finish_row(const struct groups *g, const struct row_leaf *leaves, size_t n);
