/* SPDX-License-Identifier: Apache-2.0 */

/* The summary on a terminal that is too narrow for a row of a table: a kernel's name, and below it
 * a line for each of its numbers, in two lines where one is too short. */

#include "client/cli/summary_internal.h"

#include <stdio.h>

#include "client/cli/text.h"

enum { INDENT = 2, VALUE_WIDTH = 9 };

/* Takes what values holds. */
static void add_line(struct buf *b, size_t width, const char *name, struct buf *values)
{
	size_t start = b->n, used, n_values = text_width(buf_string(values), values->n);

	buf_printf(b, "%*s", INDENT, "");
	text_terminal(b, name);
	used = text_width(b->data + start, b->n - start);
	if (used + 1 + n_values > width) {
		buf_char(b, '\n');
		used = 0;
	}
	buf_printf(b, "%*s", width > used + n_values ? (int)(width - used - n_values) : 1, "");
	buf_add(b, values->data, values->n);
	buf_char(b, '\n');
	buf_deinit(values);
}

static void add_right(struct buf *b, struct buf *field)
{
	size_t has = text_width(buf_string(field), field->n);

	buf_printf(b, "%*s", has < VALUE_WIDTH ? (int)(VALUE_WIDTH - has) : 1, "");
	buf_add(b, field->data, field->n);
	buf_deinit(field);
}

static void add_share(struct buf *b, double part, double whole)
{
	if (whole > 0) {
		buf_printf(b, " %5.1f%%", part / whole * 100);
	}
}

static void add_time(struct buf *b, size_t width, const struct summary_row *row, double whole)
{
	struct buf values = { 0 }, field = { 0 };

	if (row->timed > 0) {
		text_time(&field, row->time_ns);
		add_right(&values, &field);
		add_share(&values, row->time_ns, whole);
		add_line(b, width, "time", &values);
	}
}

static void add_cell(struct buf *b, size_t width, const struct summary_column *column,
		     const struct summary_cell *cell, double whole)
{
	struct buf values = { 0 }, field = { 0 };

	if (cell->n == 0) {
		buf_text(&values, "na");
	} else if (column->adds_up) {
		text_scaled(&field, cell->sum, column->unit);
		add_right(&values, &field);
		add_share(&values, cell->sum, whole);
	} else {
		buf_text(&values, "mean");
		text_scaled(&field, cell->sum / (double)cell->n, column->unit);
		add_right(&values, &field);
	}
	add_line(b, width, column->name, &values);
}

static void add_row(const struct summary *s, size_t width, struct buf *b,
		    const struct summary_row *row, const struct summary_row *total)
{
	struct buf launches = { 0 };

	text_kernel(b, row->name, width);
	buf_char(b, '\n');
	text_count(&launches, row->launches);
	add_line(b, width, "launches", &launches);
	add_time(b, width, row, total->time_ns);
	for (size_t i = 0; i < s->n_columns; i++) {
		add_cell(b, width, &s->columns[i], &row->cells[i], total->cells[i].sum);
	}
}

void summary_add_narrow(const struct summary *s, const struct summary_end *end,
			const struct summary_row *total, struct buf *b)
{
	size_t rows = end->rows < s->n_rows ? end->rows : s->n_rows;

	for (size_t i = 0; i < rows; i++) {
		add_row(s, end->width, b, s->rows[i], total);
	}
	if (rows < s->n_rows) {
		buf_printf(b, "%zu more\n", s->n_rows - rows);
	}
	if (s->n_rows != 1) {
		add_row(s, end->width, b, total, total);
	}
}
