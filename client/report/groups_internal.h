/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_GROUPS_INTERNAL_H
#define CLIENT_REPORT_GROUPS_INTERNAL_H

/* What groups.c, groups_records.c (records to leaves) and fold.c (leaves to rows) share. */

#include "client/report/groups.h"

/* Records that nothing can tell apart: finer than a row where keys nest, because a leaf knows its
 * place among the ranges. */
struct leaf {
	const void *dims[KEYS_MAX]; /* labels; of the key that nests: its scope */
	uint64_t calls, small, graphs;
	double peak_bytes;
	const struct scope *op;
	struct sample *stats;
	struct part *timed; /* sums of launches whose time is known, one a measure */
};

/* What is known of a device of a process. */
struct groups_device {
	unsigned index;
	const char *label;
	unsigned multiprocessors; /* 0: unknown */
	double bytes_a_ns;	  /* peak of its memory; 0: unknown */
};

struct groups_process {
	unsigned process;
	const char *label;
	const char *rank, *task; /* "": not said */
	struct groups_device *devices;
	size_t n_devices;
};

enum { GROUPS_SLOTS = 1024 };

struct groups {
	struct keys keys;
	struct attributor *attributor;
	struct texts texts;
	bool attributes; /* the keys need the attribution */

	struct measure *measures;
	size_t n_measures;
	size_t *columns; /* measure of each column of the present capture */
	size_t n_columns;
	const char *capture, *host;

	struct groups_process *processes; /* of the present capture */
	size_t n_processes;
	struct {
		unsigned process, kernel;
		const char *name;
	} kernels[GROUPS_SLOTS]; /* direct-mapped */

	struct leaf **leaves;
	size_t n_leaves, max_leaves;
	struct leaf **slots; /* open addressing, a power of two */
	size_t n_slots;

	struct group **rows;
	size_t n_rows, max_rows;
	struct group **row_slots;
	size_t n_row_slots;
	struct texts row_texts; /* rows and what they own */
	struct group *all;

	uint64_t records;
	uint64_t by_clock[GPUCTR_CLOCK_GPU + 1];
};

/* NULL: not announced. */
struct groups_process *groups_find_process(struct groups *g, unsigned process);

#endif
