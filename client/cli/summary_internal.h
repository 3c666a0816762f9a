/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_SUMMARY_INTERNAL_H
#define CLIENT_CLI_SUMMARY_INTERNAL_H

#include "client/cli/summary.h"

struct summary_cell {
	double sum, max;
	uint64_t n; /* values that were available */
};

struct summary_row {
	char *name; /* demangled */
	uint64_t launches;
	uint64_t timed; /* launches with a duration */
	double time_ns;
	struct summary_cell *cells; /* one a column */
};

struct summary_column {
	char *name, *unit;
	bool adds_up;  /* a sum over launches means something */
	bool of_range; /* relates to the range, not to the kernel alone */
};

enum { SUMMARY_SLOTS = 1024 };

struct summary {
	char *chip;
	unsigned passes;
	struct summary_column *columns;
	size_t n_columns;

	struct summary_row **rows;
	size_t n_rows, max_rows;
	struct summary_row **by_name; /* open addressing, a power of two */
	size_t n_slots;
	struct {
		unsigned process, kernel;
		struct summary_row *row;
	} recent[SUMMARY_SLOTS]; /* direct-mapped by (process, kernel) */

	uint64_t records;
	uint64_t by_clock[GPUCTR_CLOCK_GPU + 1]; /* records */
	unsigned processes;
	char *recorded_from, *device, *cupti, *driver;
	unsigned n_devices; /* distinct, by UUID of the first few */
	char uuids[16][64];
	unsigned clock_sm_mhz, clock_mem_mhz;
	bool clocks_differ;
};

/* All rows added up; cells belongs to the caller and has room for each column. */
void summary_add_up(const struct summary *s, size_t first, struct summary_row *total);
/* summary_narrow.c: in place of the tables. */
void summary_add_narrow(const struct summary *s, const struct summary_end *end,
			const struct summary_row *total, struct buf *b);
/* summary_end.c: lines below the table, and what stands in its place. */
void summary_add_hardware(const struct summary *s, const struct summary_end *end, struct buf *b);
void summary_add_totals(const struct summary *s, const struct summary_end *end, struct buf *b);
void summary_add_clocks(const struct summary *s, struct buf *b);
void summary_add_nothing(const struct summary *s, const struct summary_end *end, struct buf *b);
/* By time, or by the first counter when there is none. */
void summary_sort(struct summary *s);

#endif
