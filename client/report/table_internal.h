/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/report/view.h"
#include "client/report/names.h"
#include "client/report/table.h"

enum { TABLE_GAP = 3 };

/* A column with its figures. */
struct table_column {
	struct view_column *of;
	const char *behind; /* name behind the column's own in the heading; or "" */
	enum field fields[FIELD_END];
	unsigned n_fields; /* number of fields; a derived column's only field has no name */
	size_t width;	   /* width of a field */
};

/* The labels of a key in the form that the table shows. */
struct table_names {
	const char **texts; /* uncut label of each row */
	char **shown;
	size_t longest; /* width of the longest uncut label */
	size_t width;
};

/* The columns that count launches. */
enum table_count {
	COUNT_OWN,
	COUNT_OWN_BEFORE,
	COUNT_TOTAL, /* this and the next one include launches nested in the row */
	COUNT_TOTAL_BEFORE,
};

struct table {
	struct view *v;
	struct table_column *columns;
	size_t n_columns;
	enum table_count counts[4];
	unsigned n_counts;
	size_t count_width, counts_width; /* widths of one such column, and of all */
	struct table_names names[KEYS_MAX];
	size_t name_width; /* names are not cut to less than this */
	struct texts own;
	struct group *rest;  /* the rows that are not shown, together */
	double *rest_errors; /* NULL: nothing is sampled */
};

/* --- table_columns.c */
bool table_make_columns(struct table *t);
/* Has a row a total? Totals of nested rows overlap, so the rest, a sum of rows, has none. */
bool table_has_total(const struct table *t, const struct group *row);
void table_pad(struct buf *b, size_t n);
/* Appends field right-aligned in width columns, and empties it. */
void table_add_right(struct buf *b, struct buf *field, size_t width);
size_t table_field_width(const struct table_column *c, unsigned field);
/* Widths of the fields with gaps, and of the column, whose heading may be wider. */
size_t table_fields_width(const struct table_column *c);
size_t table_column_width(const struct table *t, const struct table_column *c);
/* Formats one figure of a row. */
void table_format(const struct table *t, const struct table_column *c, unsigned field,
		  const struct group *row, struct buf *b);

/* --- table_counts.c */
/* To be called once the columns are chosen. */
void table_make_counts(struct table *t);
/* Appends the heading of the counts: if `over`, its upper line, else its lower one. */
void table_add_count_heads(const struct table *t, bool over, struct buf *b);
const char *table_count_name(enum table_count count); /* name for a line of its own */
void table_format_count(const struct table *t, enum table_count count, const struct group *row,
			struct buf *b);
void table_add_counts(const struct table *t, const struct group *row, struct buf *b);

/* --- table_names.c */
bool table_make_names(struct table *t, unsigned key);
/* Distributes room among the names' columns; a column that needs less leaves the rest to the
 * others. */
void table_share_room(struct table *t, size_t room);
/* Shortens the names to the widths that were set. */
bool table_shorten(struct table *t);

/* --- narrow.c */
void table_print_narrow(struct table *t, size_t width, struct buf *b);
