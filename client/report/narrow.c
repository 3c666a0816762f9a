/* SPDX-License-Identifier: Apache-2.0 */

/* The table for a terminal that is too narrow for a row. Each row is printed as its names and below
 * them a line for each column, or several lines if the column does not fit. */

#include <stdio.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/table_internal.h"

enum { INDENT = 2, VALUE_WIDTH = 9 };

/* Adds a name, over several lines if it is too long. Returns the width used in the last line. */
static size_t add_wrapped(struct buf *b, const char *name, size_t width)
{
	CLEAN_BUF struct buf safe = { 0 };
	size_t at = 0, step, used = INDENT;

	text_terminal(&safe, name);
	table_pad(b, INDENT);
	while (at < safe.n) {
		step = text_fit(safe.data + at, safe.n - at, width - INDENT);
		if (at > 0) {
			buf_char(b, '\n');
			table_pad(b, INDENT);
		}
		buf_add(b, safe.data + at, step);
		used = INDENT + text_width(safe.data + at, step);
		at += step;
	}
	return used;
}

/* Adds a line of a name and its values. Empties values. */
static void add_line(struct buf *b, size_t width, const char *name, struct buf *values)
{
	size_t n_values = values->n ? text_width(values->data, values->n) : 0;
	size_t used = add_wrapped(b, name, width);

	if (used + 1 + n_values > width) {
		buf_char(b, '\n');
		used = 0;
	}
	table_pad(b, width > used + n_values ? width - used - n_values : 1);
	buf_add(b, values->data, values->n);
	buf_char(b, '\n');
	buf_deinit(values);
}

/* The first figure and the share need no name; the others have one. */
static void add_column(const struct table *t, size_t width, const struct table_column *c,
		       const struct group *row, struct buf *b)
{
	struct buf values = { 0 }, field = { 0 }, title = { 0 };

	buf_text(&title, c->of->name);
	buf_text(&title, c->behind);
	table_format(t, c, 0, row, &field);
	table_add_right(&values, &field, VALUE_WIDTH);
	for (unsigned i = 1; i < c->n_fields; i++) {
		if (c->fields[i] == FIELD_SHARE) {
			buf_char(&values, ' ');
			table_format(t, c, i, row, &field);
			table_add_right(&values, &field, 6);
		}
	}
	add_line(b, width, buf_string(&title), &values);
	buf_deinit(&title);
	for (unsigned i = 1; i < c->n_fields; i++) {
		char name[32];

		if (c->fields[i] == FIELD_SHARE) {
			continue;
		}
		snprintf(name, sizeof(name), "  %s", fields_head(c->fields[i], t->v->nested));
		table_format(t, c, i, row, &values);
		add_line(b, width, name, &values);
	}
	buf_deinit(&field);
}

static void add_figures(const struct table *t, size_t width, const struct group *row, struct buf *b)
{
	struct buf count = { 0 };

	for (unsigned i = 0; i < t->n_counts; i++) {
		table_format_count(t, t->counts[i], row, &count);
		add_line(b, width, table_count_name(t->counts[i]), &count);
	}
	for (size_t i = 0; i < t->n_columns; i++) {
		add_column(t, width, &t->columns[i], row, b);
	}
}

void table_print_narrow(struct table *t, size_t width, struct buf *b)
{
	const struct view *v = t->v;

	for (size_t i = 0; i < v->n_shown; i++) {
		for (unsigned k = 0; k < v->keys->n; k++) {
			buf_printf(b, "%s\n", t->names[k].shown[i]);
		}
		add_figures(t, width, v->rows[i], b);
	}
	if (v->n_shown < v->n_rows) {
		buf_printf(b, "%zu more\n", v->n_rows - v->n_shown);
		add_figures(t, width, t->rest, b);
	}
	if (v->n_rows != 1) {
		buf_text(b, "all\n");
		add_figures(t, width, v->all, b);
	}
}
