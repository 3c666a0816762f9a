/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by pyprof.c, which writes lines, and pyprof_columns.c, which writes the fields. */

#include "client/report/attribution.h"
#include "client/report/sums.h"
#include "client/report/exporter.h"

enum { PYPROF_COLUMNS = 20 };

struct pyprof {
	const struct store_info *info;
	const struct exporter_options *options;
	struct attributor *attributor; /* says what the file does not: which operator the program
					  called, and the how many-th launch of it this is */
	struct sum flops, bytes; /* by measure: number 0 is the time; bytes: of both directions */
	const struct column *columns[PYPROF_COLUMNS];
	size_t n_columns, width; /* of kernel and params each; 0: as long as they are */
	bool has_head;
	struct buf field;
	double *values; /* of a launch, by measure */
};

/* A launch, as the functions of the columns get it. */
struct launch {
	const struct gpuctr_record *record;
	const struct attribution *what;
	const struct scope *op; /* as the program called it, in both directions; NULL: not known */
	const double *values;	/* by measure; NaN: not known */
	uint64_t index;
};

/* A column. Its function appends text without spaces; it appends nothing if the value is not known.
 */
struct column {
	const char *name, *head;
	size_t width; /* at least */
	bool text;    /* left-aligned and cut */
	void (*add)(struct pyprof *p, struct buf *b, const struct launch *l);
};

extern const struct column pyprof_columns[PYPROF_COLUMNS];

void pyprof_add_kernel(struct buf *b, const char *name); /* as a field */
