/* SPDX-License-Identifier: Apache-2.0 */

/* The layout of tables. Names get the room that figures leave, and never less than a readable
 * width. All tables of a view have the same names in the same rows. */

#include "client/report/table.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/errors.h"
#include "client/report/table_internal.h"
#include "proto/base/clean.h"

enum {
	MIN_NAME_WIDTH = 16,
	GOOD_NAME_WIDTH = 24, /* a table has fewer columns, down to the first metric, to give names
				 this width */
	GOOD_PATH_WIDTH = 48, /* the same for paths, which say little when they are cut */
};

/* One table: the columns first .. first + count. */
struct layout {
	size_t first, count;
};

/* --- rows ------------------------------------------------------------------------------------ */

static void add_name(struct buf *b, const char *shown, size_t width)
{
	size_t has = text_width(shown, strlen(shown));

	buf_text(b, shown);
	table_pad(b, (has < width ? width - has : 0) + 1);
}

static void add_figures(const struct table *t, const struct layout *l, const struct group *row,
			struct buf *b)
{
	CLEAN_BUF struct buf field = { 0 };

	table_add_counts(t, row, b);
	for (size_t i = l->first; i < l->first + l->count; i++) {
		const struct table_column *c = &t->columns[i];

		table_pad(b, TABLE_GAP + table_column_width(t, c) - table_fields_width(c));
		for (unsigned k = 0; k < c->n_fields; k++) {
			table_pad(b, k > 0);
			table_format(t, c, k, row, &field);
			table_add_right(b, &field, table_field_width(c, k));
		}
	}
}

static void add_row(const struct table *t, const struct layout *l, size_t i, struct buf *b)
{
	for (unsigned k = 0; k < t->v->keys->n; k++) {
		add_name(b, t->names[k].shown[i], t->names[k].width);
	}
	add_figures(t, l, t->v->rows[i], b);
	buf_char(b, '\n');
}

/* Adds a row that stands for several rows, and so has no labels. */
static void add_special(const struct table *t, const struct layout *l, const char *name,
			const struct group *row, struct buf *b)
{
	for (unsigned k = 0; k < t->v->keys->n; k++) {
		const struct table_names *names = &t->names[k];

		add_name(b, k == 0 ? name : "", names->width);
	}
	add_figures(t, l, row, b);
	buf_char(b, '\n');
}

static void add_head_names(const struct table *t, bool shown, struct buf *b)
{
	for (unsigned k = 0; k < t->v->keys->n; k++) {
		add_name(b, shown ? keys_name(t->v->keys->keys[k]) : "", t->names[k].width);
	}
}

static void add_heads(const struct table *t, const struct layout *l, struct buf *b)
{
	const char *bold = t->v->styled ? "\033[1m" : "", *plain = t->v->styled ? "\033[m" : "";
	CLEAN_BUF struct buf field = { 0 };

	buf_text(b, bold);
	add_head_names(t, false, b);
	table_add_count_heads(t, true, b);
	for (size_t i = l->first; i < l->first + l->count; i++) {
		const struct table_column *c = &t->columns[i];

		text_terminal(&field, c->of->name);
		buf_text(&field, c->behind);
		if (t->v->base_units && *c->of->unit) {
			buf_text(&field, " [");
			text_terminal(&field, c->of->unit);
			buf_char(&field, ']');
		}
		table_pad(b, TABLE_GAP);
		table_add_right(b, &field, table_column_width(t, c));
	}
	buf_printf(b, "%s\n%s", plain, bold);
	add_head_names(t, true, b);
	table_add_count_heads(t, false, b);
	for (size_t i = l->first; i < l->first + l->count; i++) {
		const struct table_column *c = &t->columns[i];

		table_pad(b, TABLE_GAP + table_column_width(t, c) - table_fields_width(c));
		for (unsigned k = 0; k < c->n_fields; k++) {
			buf_text(&field, c->of->derived && k == 0
						 ? ""
						 : fields_head(c->fields[k], t->v->nested));
			table_pad(b, k > 0);
			table_add_right(b, &field, table_field_width(c, k));
		}
	}
	while (b->n > 0 && b->data[b->n - 1] == ' ') {
		b->n--;
	}
	buf_printf(b, "%s\n", plain);
}

static void add_table(const struct table *t, const struct layout *l, const char *more,
		      struct buf *b)
{
	const struct view *v = t->v;

	add_heads(t, l, b);
	for (size_t i = 0; i < v->n_shown; i++) {
		add_row(t, l, i, b);
	}
	if (v->n_shown < v->n_rows) {
		add_special(t, l, more, t->rest, b);
	}
	if (v->n_rows != 1) {
		add_special(t, l, "all", v->all, b);
	}
}

/* --- all tables ------------------------------------------------------------------------------ */

/* Adds a row's own figures to a sum of rows, which has no totals, because nested rows overlap. */
static void add_group(const struct view *v, struct group *to, const struct group *row)
{
	for (size_t k = 0; k < v->n_measures; k++) {
		sample_merge(&to->self[k], &row->self[k]);
		part_add(&to->own[k], row->own[k]);
		to->total[k] = to->own[k];
		if (!v->nested) {
			part_add(&to->timed[k], row->timed[k]);
		}
	}
	to->calls += row->calls;
	to->total_calls += row->calls;
	to->alike += row->alike;
	to->ranged += row->ranged;
	to->total_ranged += row->ranged;
	to->peak_bytes += row->peak_bytes;
	to->total_peak_bytes += v->nested ? 0 : row->peak_bytes;
	to->total_peak_ns += v->nested ? NAN : row->peak_ns;
}

/* Adds up the rows that the limit leaves out: this capture's figures, or those of the capture that
 * is compared with. NULL: out of memory. */
static struct group *add_up_rest(struct table *t, bool before)
{
	const struct view *v = t->v;
	struct group *rest = group_new(&t->own, v->n_measures);

	for (size_t i = v->n_shown; rest && i < v->n_rows; i++) {
		const struct group *row = before ? v->rows[i]->before : v->rows[i];

		if (row) {
			add_group(v, rest, row);
		}
	}
	return rest;
}

/* The errors of add_up_rest() with before. NULL: out of memory. */
static double *add_up_errors_before(struct table *t)
{
	const struct view *v = t->v;
	double *errors = texts_take(&t->own, v->n_measures * sizeof(*errors)), *found = NULL;
	struct group **rows = calloc(v->n_rows + 1, sizeof(struct group *));
	size_t n = 0;

	for (size_t i = v->n_shown; rows && i < v->n_rows; i++) {
		const struct group *before = v->rows[i]->before;

		if (before) {
			rows[n++] = (struct group *)(uintptr_t)before->origin;
		}
	}
	found = rows ? errors_of_rows(v->against, rows, n) : NULL;
	for (size_t k = 0; errors && found && k < v->n_measures; k++) {
		errors[k] = v->of_against[k] != SIZE_MAX ? found[v->of_against[k]] : 0;
	}
	errors = found ? errors : NULL;
	free(found);
	free(rows);
	return errors;
}

static bool make_rest(struct table *t)
{
	const struct view *v = t->v;
	struct group *before = v->all->before ? add_up_rest(t, true) : NULL;

	t->rest = add_up_rest(t, false);
	if (!t->rest || (v->all->before && !before)) {
		return false;
	}
	t->rest->before = before;
	if (v->sampled) {
		t->rest_errors =
			errors_of_rows(v->groups, v->rows + v->n_shown, v->n_rows - v->n_shown);
		t->rest->self_error = t->rest->total_error = t->rest_errors;
	}
	if (v->sampled && before) {
		before->self_error = before->total_error = add_up_errors_before(t);
		return before->self_error != NULL;
	}
	return true;
}

/* Returns how many columns fit into one table, at least one. */
static size_t fit(const struct table *t, size_t first, size_t room)
{
	size_t count = 0;

	for (size_t i = first; i < t->n_columns; i++) {
		size_t width = TABLE_GAP + table_column_width(t, &t->columns[i]);

		if (width > room && count > 0) {
			break;
		}
		room -= width < room ? width : room;
		count++;
	}
	return count;
}

/* The width of all names: `each` for a key; paths get GOOD_PATH_WIDTH with GOOD_NAME_WIDTH. */
static size_t wanted_names(const struct table *t, size_t each)
{
	size_t wanted = 0;

	for (unsigned i = 0; i < t->v->keys->n; i++) {
		enum key key = t->v->keys->keys[i];
		bool is_path = key == KEY_NVTX || key == KEY_LAYER;
		size_t width = is_path && each == GOOD_NAME_WIDTH ? GOOD_PATH_WIDTH : each;

		wanted += 1 + (t->names[i].longest < width ? t->names[i].longest : width);
	}
	return wanted;
}

static size_t columns_width(const struct table *t, const struct layout *l)
{
	size_t width = t->counts_width;

	for (size_t i = l->first; i < l->first + l->count; i++) {
		width += TABLE_GAP + table_column_width(t, &t->columns[i]);
	}
	return width;
}

static bool is_too_narrow(const struct table *t, size_t width)
{
	size_t needs = wanted_names(t, MIN_NAME_WIDTH) + t->counts_width, widest = 0;

	for (size_t i = 0; i < t->n_columns; i++) {
		size_t column = TABLE_GAP + table_column_width(t, &t->columns[i]);

		widest = column > widest ? column : widest;
	}
	return width < needs + widest;
}

/* The room for names. The widest table determines it, because all tables have the same names. */
static size_t room_for_names(const struct table *t, size_t width)
{
	size_t used = wanted_names(t, t->name_width) + t->counts_width, least = width;
	struct layout l = { 0 };

	do {
		size_t taken;

		l.count = fit(t, l.first, width > used ? width - used : 0);
		taken = columns_width(t, &l) + t->v->keys->n;
		least = width - taken < least ? width - taken : least;
		l.first += l.count;
	} while (l.first < t->n_columns);
	return least;
}

static void add_tables(struct table *t, size_t width, const char *more, struct buf *b)
{
	size_t used = wanted_names(t, t->name_width) + t->counts_width;
	struct layout l = { 0 };

	do {
		l.count = fit(t, l.first, width > used ? width - used : 0);
		if (l.first > 0) {
			buf_char(b, '\n');
		}
		add_table(t, &l, more, b);
		l.first += l.count;
	} while (l.first < t->n_columns);
}

/* Do the first n columns fit into one table, with the counts of launches that they need? */
static bool fit_beside(struct table *t, size_t width, size_t n)
{
	size_t used;

	t->n_columns = n;
	t->n_counts = 0;
	table_make_counts(t);
	used = wanted_names(t, t->name_width) + t->counts_width;
	return fit(t, 0, width > used ? width - used : 0) == n;
}

/* Moves the column that rows are sorted by to the front if it is not among those shown. Returns
 * whether it was moved. */
static bool move_sorted(struct table *t, size_t n_shown)
{
	size_t sorted = 0;

	while (sorted < t->n_columns && t->columns[sorted].of != t->v->sorted_by) {
		sorted++;
	}
	if (sorted < t->n_columns && sorted >= n_shown) {
		struct table_column column = t->columns[sorted];

		memmove(t->columns + 1, t->columns, sorted * sizeof(*t->columns));
		t->columns[0] = column;
		return true;
	}
	return false;
}

/* Returns how many of the first n columns fit, at least one. */
static size_t count_fitting(struct table *t, size_t width, size_t n)
{
	size_t all = t->n_columns;

	while (n > 1 && !fit_beside(t, width, n)) {
		n--;
	}
	t->n_columns = all;
	return n;
}

/* Returns how many columns a table must show to include a metric. */
static size_t count_needed(const struct table *t)
{
	for (size_t i = 0; i < t->n_columns; i++) {
		if (t->columns[i].of->measure && t->columns[i].of->i != MEASURE_TIME) {
			return i + 1;
		}
	}
	return 1;
}

/* Leaves out a figure of measures that add up, unless it is the only one. */
static void drop_figure(struct table *t, enum field field)
{
	for (size_t i = 0; i < t->n_columns; i++) {
		struct table_column *c = &t->columns[i];
		unsigned n = 0;

		for (unsigned k = 0; c->of->measure && c->of->measure->adds_up && k < c->n_fields;
		     k++) {
			if (c->fields[k] != field) {
				c->fields[n++] = c->fields[k];
			}
		}
		c->n_fields = n > 0 ? n : c->n_fields;
	}
}

/* Keeps only the columns that fit into one table, among them a metric and the column that rows are
 * sorted by. For these two it cuts names, and then leaves out figures that the user did not name.
 * Returns how many columns are left out, or SIZE_MAX if the two do not fit. */
static size_t keep_one_table(struct table *t, size_t width)
{
	static const enum field dispensable[] = { FIELD_MEAN, FIELD_SHARE, FIELD_BEFORE };
	size_t all = t->n_columns, drops = t->v->names_figures ? 0 : ARRAY_SIZE(dispensable);
	size_t needed = move_sorted(t, count_fitting(t, width, all)) ? 1 : count_needed(t);
	size_t n = count_fitting(t, width, all);

	/* Names get the room that the needed columns leave. */
	if (n < needed) {
		t->name_width = MIN_NAME_WIDTH;
		n = count_fitting(t, width, needed);
	}
	for (size_t i = 0; i < drops && n < needed; i++) {
		drop_figure(t, dispensable[i]);
		n = count_fitting(t, width, needed);
	}
	if (n < needed || !fit_beside(t, width, n)) {
		return SIZE_MAX;
	}
	for (size_t i = n; i < all; i++) {
		t->columns[i].of->chosen = false;
	}
	return all - n;
}

static bool make(struct table *t)
{
	for (unsigned i = 0; i < t->v->keys->n; i++) {
		if (!table_make_names(t, i)) {
			return false;
		}
	}
	if (!table_make_columns(t) || !make_rest(t)) {
		return false;
	}
	table_make_counts(t);
	return true;
}

static void deinit(struct table *t)
{
	for (unsigned i = 0; i < t->v->keys->n; i++) {
		names_free(t->names[i].shown, t->v->n_shown);
		free(t->names[i].texts);
	}
	free(t->columns);
	free(t->rest_errors);
	texts_deinit(&t->own);
}

/* Does a column show the figure by which rows are sorted? */
static bool shows_sort(const struct table *t)
{
	bool shows = !t->v->sorted_by;

	for (size_t i = 0; i < t->n_columns; i++) {
		const struct table_column *c = &t->columns[i];

		for (unsigned k = 0; c->of == t->v->sorted_by && k < c->n_fields; k++) {
			/* Without nested rows the total equals the sum. */
			shows = shows || c->fields[k] == t->v->sorted_field ||
				(c->fields[k] == FIELD_SUM && !t->v->nested &&
				 t->v->sorted_field == FIELD_TOTAL);
		}
	}
	return shows;
}

/* Prints one table, or several if columns do not fit, or rows as lines (narrow.c). */
static bool print(struct table *t, size_t width, const char *more, struct buf *b, size_t *ret_more)
{
	size_t left_out = ret_more && t->n_columns > 0 ? keep_one_table(t, width) : 0;

	if (left_out == SIZE_MAX) {
		free(t->columns);
		t->n_columns = t->n_counts = 0;
		t->name_width = GOOD_NAME_WIDTH;
		if (!table_make_columns(t)) {
			return false;
		}
		table_make_counts(t);
	}
	if (ret_more ? left_out == SIZE_MAX : is_too_narrow(t, width)) {
		for (unsigned i = 0; i < t->v->keys->n; i++) {
			t->names[i].width = width;
		}
		if (!table_shorten(t)) {
			return false;
		}
		table_print_narrow(t, width, b);
		return true;
	}
	if (ret_more) {
		*ret_more = left_out;
	}
	table_share_room(t, room_for_names(t, width));
	if (!table_shorten(t)) {
		return false;
	}
	add_tables(t, width, more, b);
	return true;
}

int table_print(struct view *v, size_t width, struct buf *b, size_t *ret_more)
{
	struct table t = { .v = v, .name_width = GOOD_NAME_WIDTH };
	char more[48];
	bool ok;

	if (ret_more) {
		*ret_more = 0;
	}
	snprintf(more, sizeof(more), "%zu more", v->n_rows - v->n_shown);
	ok = make(&t) && print(&t, width, more, b, ret_more);
	v->hides_sort = ok && !shows_sort(&t);
	deinit(&t);
	return ok && !b->failed ? 0 : -ENOMEM;
}
