/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_GRID_H
#define CLIENT_CLI_GRID_H

#include "client/cli/frame.h"

/* Rows of short texts under titles, fitted into any width: columns that tell least are left out
 * first, then the one that may be cut is cut. Texts are made safe for a terminal. */

struct grid_column {
	const char *title;
	bool right;    /* aligned */
	bool cut;      /* the one that may be cut; it stands last */
	unsigned rank; /* the highest is left out first; 0: never */
};

struct grid_cell {
	char *text;   /* safe */
	double value; /* what it is sorted by; of a text 0 */
};

struct grid {
	const struct grid_column *columns;
	size_t n_columns;
	struct grid_cell *cells; /* row by row */
	size_t n, max;
	bool failed; /* out of memory */
};

void grid_init(struct grid *g, const struct grid_column *columns, size_t n_columns);
void grid_clear(struct grid *g);
void grid_deinit(struct grid *g);
size_t grid_rows(const struct grid *g);

/* The next cell, row by row. NULL and "" are shown as "-". */
void grid_text(struct grid *g, const char *text);
/* The same with what it is sorted by. */
void grid_value(struct grid *g, double value, const char *text);

/* Texts ascending, or by value, highest or lowest first; equal rows stay as they were. */
enum grid_order { GRID_TEXT, GRID_LOWEST, GRID_HIGHEST };
void grid_sort(struct grid *g, size_t column, enum grid_order order);

/* Appends the titles and all rows. */
void grid_add_to(const struct grid *g, size_t width, struct frame *f);

#endif
