/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/base/buf.h"

/* A table of short texts under titles. If it is too wide, columns are left out, the highest rank
 * first. grid_text() makes texts safe for a terminal. */

struct grid_column {
	const char *title;
	bool right;    /* aligned */
	unsigned rank; /* the highest is left out first; 0: never */
};

struct grid {
	const struct grid_column *columns;
	size_t n_columns;
	char **cells; /* row by row */
	size_t n, max;
	bool failed; /* out of memory */
};

void grid_init(struct grid *g, const struct grid_column *columns, size_t n_columns);
void grid_deinit(struct grid *g);
size_t grid_rows(const struct grid *g);

/* Adds the next cell, row by row. NULL and "" are shown as "-". */
void grid_text(struct grid *g, const char *text);

/* Appends the titles, in bold where styled, and all rows. */
void grid_print(const struct grid *g, size_t width, bool styled, struct buf *b);
