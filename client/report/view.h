/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A view selects the columns and rows of groups, their order and their figures. The terminal's
 * table, CSV and JSON all show a view. */

#include "client/report/derived.h"
#include "client/report/fields.h"

struct view_options {
	const char *sort; /* "time", "dram__bytes_read.sum:max", "launches", "name"; NULL: by time,
			     or by the first counter when there is none */
	const char *columns;	    /* "time,dram__bytes_read": only these; NULL, "all": all */
	const char *figures;	    /* as fields_parse(); NULL: the usual ones */
	const char *const *defines; /* the user's columns, as derived_define() takes them */
	size_t n_defines;
	uint64_t limit;	 /* at most so many rows; 0: all */
	bool skip_zero;	 /* leave out rows with nothing of their own but zeros,
		    now and before */
	bool base_units; /* bytes and ns instead of GB and ms */
	bool people; /* for people: leave out rows without launches of their own, unless rows are
			sorted by a total */
	bool styled; /* titles of a table in bold, for a terminal */
	struct groups *against; /* finished, with the same keys; NULL: nothing is compared */
};

/* A measure, or a derived column. */
struct view_column {
	const char *name, *unit;
	const struct measure *measure; /* NULL: it is derived */
	const struct derived *derived; /* NULL: it is a measure */
	size_t i;		       /* index of the measure */
	bool chosen;		       /* the column is shown */
};

struct view {
	const struct keys *keys;
	const struct measure *measures;
	size_t n_measures;
	struct derived_columns derived;
	struct view_column *columns; /* measures, then derived ones */
	size_t n_columns;
	bool names_columns; /* named by the user: they are shown even without known values */
	bool names_figures; /* the user has named the figures */
	unsigned fields;
	bool nested, base_units, styled;
	bool sampled;	    /* values come from samples, so they have errors */
	bool clocks_differ; /* in some row the two captures have times of different clocks, so the
			       times have no change */
	struct group **rows;
	size_t n_rows;	/* number of rows */
	size_t n_shown; /* rows that are shown, the first ones */
	size_t n_zero;	/* rows left out because they are zero */
	size_t n_held;	/* rows left out because they have no launches of their own */
	const struct view_column *sorted_by; /* NULL: names or launches */
	enum field sorted_field;	     /* figure of that column */
	bool hides_sort; /* table_print() does not show the figure that rows are sorted by */
	const struct groups *groups;
	const struct groups *against; /* NULL: nothing is compared */
	const size_t *of_against;     /* number of each measure in against; SIZE_MAX: none */
	const struct group *all;
	struct texts own; /* rows that only the other capture has, and their numbers */
};

/* groups must be finished and outlive the view. 0, -ENOMEM, or -EINVAL with why filled. */
int view_init(struct view *v, struct groups *groups, const struct view_options *options,
	      struct buf *why);
void view_deinit(struct view *v);

/* --- view_columns.c. Figures of a column in a row. */

/* Is some row's value known? A column that the user named counts as known, except the time. */
bool view_is_known(const struct view *v, const struct view_column *c);
/* As fields_value(). A derived column has only its value, which counts as the total, FIELD_ERROR,
 * and the fields of a comparison. */
double view_value(const struct view *v, const struct view_column *c, enum field field,
		  const struct group *row);
/* The value that comparisons use, with its error. */
struct figure view_figure(const struct view_column *c, const struct group *row);
/* Do sampled launches stand for others in this value? Only for derived columns. */
bool view_is_of_some(const struct view_column *c, const struct group *row);
/* As fields_is_of_part(). */
bool view_is_of_part(const struct view_column *c, const struct group *row);

/* compare.c: adds to the rows the other capture's figures, and makes rows for those that only it
 * has. 0, -ENOMEM, or -EINVAL with why filled. */
int view_compare(struct view *v, const struct view_options *o, struct buf *why);
