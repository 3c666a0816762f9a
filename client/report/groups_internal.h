/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by groups.c, leaves.c, groups_records.c and kinds.c (which add records to leaves), fold.c
 * (which makes rows of leaves) and errors.c (errors of rows). */

#include "client/report/errors.h"
#include "client/report/sums.h"

/* Launches of a process that have the same kernel and launch shape, where metrics take turns. */
struct kind {
	struct kind_key {
		const char *kernel; /* one of texts */
		size_t capture;	    /* number of the capture */
		unsigned process;
		uint32_t grid[3], block[3], dynamic_shared_bytes, graph;
	} key;
	size_t number; /* kinds are numbered in the order of their first records */
	size_t n_measures;
	struct part *sums; /* one for each measure: the sum over the launches that had it */
	/* As the members of a leaf: */
	uint64_t ranged;
	double peak_bytes;
};

/* A set of records that have the same labels. If keys nest, a leaf is finer than a row, because a
 * leaf has a position among the ranges. */
struct leaf {
	const void *dims[KEYS_MAX]; /* label for each key; for the key that nests, the scope */
	uint64_t calls, small, graphs, alike, ranged;
	double peak_bytes, peak_ns;
	const struct scope *op;
	struct kind *kind; /* kind of all the records; NULL: metrics took no turns */
	struct sample *stats;
	struct part *timed;   /* sums over launches whose time is known, one for each measure */
	struct alike *errors; /* for errors of sampled records; NULL: there are none */
	enum { WANTED_UNKNOWN, WANTED, UNWANTED } wanted; /* whether where.c selects the leaf */
};

enum { GROUPS_LAUNCHES = 1 << 14 };

/* What groups look up once for all records of a launch. These differ in step and graph only. */
struct groups_launch {
	unsigned launch, announced; /* launch 0: looked up for one record */
	uint32_t graph;
	int64_t step;
	const void *dims[KEYS_MAX]; /* as in a leaf */
	struct leaf *leaf;
	const struct groups_device *device; /* NULL: not announced */
	bool is_small;			    /* fewer blocks than the device has multiprocessors */
};

/* A device of a process. */
struct groups_device {
	unsigned index;
	const char *label;
	unsigned multiprocessors;	    /* 0: unknown */
	double bytes_a_ns;		    /* peak bandwidth of the memory; 0: unknown */
	double flop_a_ns[PEAKS_PRECISIONS]; /* peaks of the tensor cores; 0: unknown */
};

struct groups_process {
	unsigned process;
	const char *label;
	const char *rank, *task; /* "": the process has not reported it */
	struct groups_device *devices;
	size_t n_devices;
};

/* A row and a leaf in it. A leaf is in the self of one row and in the totals of several rows. */
struct row_leaf {
	struct group *row;
	const struct leaf *leaf;
	bool self;
};

struct groups {
	struct keys keys;
	struct groups *beside; /* next groups that get the same records; NULL: none */
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
	bool flop_peaks_unknown[PEAKS_PRECISIONS]; /* the peak of some device is unknown */
	struct groups_launch launches[GROUPS_LAUNCHES]; /* direct-mapped */
	unsigned announced; /* counts captures, and processes that are announced again */
	bool by_step;	    /* the step is a key */
	struct {
		const char *name, *label;
		int64_t number;
	} step; /* the latest step; label NULL: none */

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
	struct row_leaf *row_leaves; /* filled where metrics take turns or values have errors */
	size_t n_row_leaves, max_row_leaves;

	uint64_t records;
	uint64_t by_clock[GPUCTR_CLOCK_GPU + 1];
};

/* --- groups.c. NULL: the process or device was not announced. */
struct groups_process *groups_find_process(struct groups *g, unsigned process);
const struct groups_device *groups_find_device(const struct groups_process *p, unsigned index);

/* --- fold.c */
/* As groups_finish(), but choose() returns the row of each leaf. These rows get sums of their own
 * leaves, and neither totals nor errors. */
int groups_finish_by(struct groups *g,
		     struct group *(*choose)(struct groups *g, const struct leaf *leaf,
					     void *userdata),
		     void *userdata);

/* --- leaves.c */
/* Finds the leaf of a record, and what else the record's launch decides. what: attribution of the
 * record; NULL: none. Returns NULL when out of memory. */
const struct groups_launch *groups_find(struct groups *g, const struct gpuctr_record *record,
					const struct attribution *what);
/* Hash of n labels, one for each key. */
uint64_t groups_hash(const void *const *dims, unsigned n);

/* --- kinds.c. kernel: name of the kernel, one of texts. NULL: out of memory. */
struct kind *kinds_find(struct groups *g, const struct gpuctr_record *record, const char *kernel);
/* Adds the sums of leaves whose metrics took turns to the row's own sums or to its totals. Leaves
 * of one kind must be consecutive. */
void kinds_finish_row(const struct groups *g, const struct row_leaf *leaves, size_t n);
