/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes a view for programs: all figures of all rows, in base units. */

#include "client/report/view.h"
#include "proto/base/json.h"

/* Data about the captures in addition to the rows. */
struct machine_source {
	const char *const *captures; /* names of the files */
	size_t n_captures;
	const char *recorded_from; /* "": measured live */
	bool complete;
	uint64_t records;
	const struct buf *timelines; /* JSON elements, for samples without kernels */
};

/* Appends a line of column names ("time:sum") and a line for each row. A label that a spreadsheet
 * would take for a formula gets an apostrophe in front. */
void machine_csv(const struct view *v, struct buf *b);
/* machine_json() appends one JSON object; machine_members() appends the object's members alone. */
void machine_json(const struct view *v, const struct machine_source *source, struct buf *b);
void machine_members(const struct view *v, const struct machine_source *source, struct json *m);
