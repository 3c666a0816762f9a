/* SPDX-License-Identifier: Apache-2.0 */

/* The table at the end and the lines below it.
 *
 * A counter that adds up shows its sum, mean and share; one that does not (a ratio, a maximum, a
 * rate) its mean and largest value. Columns that do not fit beside the kernel's name go into a
 * further table below, so that no line is longer than the terminal. Everything that could make a
 * reader misjudge the numbers follows: passes, clocks, what was not measured, and whether the
 * values are recorded. */

#include "client/cli/summary_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"

enum {
	LAUNCHES_WIDTH = 8,
	FIELD_WIDTH = 8,
	SHARE_WIDTH = 6,
	GROUP_WIDTH = FIELD_WIDTH + 1 + FIELD_WIDTH + 1 + SHARE_WIDTH,
	GAP = 3,
	MIN_NAME_WIDTH = 16,
	GOOD_NAME_WIDTH = 24, /* rather one column less than a shorter name */
	MAX_NAME_WIDTH = 90,
	MAX_TABLES = 8,
};

/* One table: the columns first .. first + count, and the time in the first table. */
struct layout {
	size_t name_width;
	bool with_time;
	size_t first, count;
	size_t rows;
};

static void pad(struct buf *b, size_t n)
{
	for (; n > 0; n--) {
		buf_char(b, ' ');
	}
}

static void add_right(struct buf *b, struct buf *field, size_t width)
{
	size_t has = field->n ? text_width(field->data, field->n) : 0;

	pad(b, has < width ? width - has : 0);
	buf_add(b, field->data, field->n);
	buf_clear(field);
}

static size_t group_width(const struct summary_column *column)
{
	size_t n = strlen(column->name);

	return n > GROUP_WIDTH ? n : GROUP_WIDTH;
}

/* --- one table ---------------------------------------------------------------------------------
 */

static void add_heads(const struct summary *s, const struct layout *l, struct buf *b)
{
	pad(b, l->name_width + 1 + LAUNCHES_WIDTH);
	if (l->with_time) {
		buf_printf(b, "%*s%*s", GAP, "", GROUP_WIDTH, "time");
	}
	for (size_t i = l->first; i < l->first + l->count; i++) {
		struct buf name = { 0 };

		text_terminal(&name, s->columns[i].name);
		pad(b, GAP);
		add_right(b, &name, group_width(&s->columns[i]));
		buf_deinit(&name);
	}
	buf_printf(b, "\n%-*s %*s", (int)l->name_width, "kernel", LAUNCHES_WIDTH, "launches");
	if (l->with_time) {
		buf_printf(b, "%*s%*s %*s %*s", GAP, "", FIELD_WIDTH, "total", FIELD_WIDTH, "mean",
			   SHARE_WIDTH, "share");
	}
	for (size_t i = l->first; i < l->first + l->count; i++) {
		const struct summary_column *column = &s->columns[i];

		pad(b, GAP + group_width(column) - GROUP_WIDTH);
		if (column->adds_up) {
			buf_printf(b, "%*s %*s %*s", FIELD_WIDTH, "sum", FIELD_WIDTH, "mean",
				   SHARE_WIDTH, "share");
		} else {
			buf_printf(b, "%*s %*s", SHARE_WIDTH + 1 + FIELD_WIDTH, "mean", FIELD_WIDTH,
				   "max");
		}
	}
	buf_char(b, '\n');
}

static void add_share(struct buf *b, double part, double whole)
{
	buf_char(b, ' ');
	if (whole > 0) {
		buf_printf(b, "%*.1f%%", SHARE_WIDTH - 1, part / whole * 100);
	} else {
		buf_printf(b, "%*s", SHARE_WIDTH, "-");
	}
}

static void add_time(struct buf *b, const struct summary_row *row, double whole)
{
	struct buf field = { 0 };

	pad(b, GAP);
	if (row->timed == 0) {
		buf_printf(b, "%*s", GROUP_WIDTH, "na");
		return;
	}
	text_time(&field, row->time_ns);
	add_right(b, &field, FIELD_WIDTH);
	buf_char(b, ' ');
	text_time(&field, row->time_ns / (double)row->timed);
	add_right(b, &field, FIELD_WIDTH);
	add_share(b, row->time_ns, whole);
	buf_deinit(&field);
}

static void add_cell(struct buf *b, const struct summary_column *column,
		     const struct summary_cell *cell, double whole)
{
	struct buf field = { 0 };

	pad(b, GAP + group_width(column) - GROUP_WIDTH);
	if (cell->n == 0) {
		buf_printf(b, "%*s", GROUP_WIDTH, "na");
		return;
	}
	if (column->adds_up) {
		text_scaled(&field, cell->sum, column->unit);
		add_right(b, &field, FIELD_WIDTH);
		buf_char(b, ' ');
	}
	text_scaled(&field, cell->sum / (double)cell->n, column->unit);
	add_right(b, &field, column->adds_up ? FIELD_WIDTH : SHARE_WIDTH + 1 + FIELD_WIDTH);
	if (column->adds_up) {
		add_share(b, cell->sum, whole);
	} else {
		text_scaled(&field, cell->max, column->unit);
		buf_char(b, ' ');
		add_right(b, &field, FIELD_WIDTH);
	}
	buf_deinit(&field);
}

/* A row without a name stands for those that are not shown. */
static void add_row(const struct summary *s, const struct layout *l, struct buf *b,
		    const struct summary_row *row, const struct summary_row *total)
{
	size_t start = b->n, width;
	struct buf launches = { 0 };

	if (row->name[0]) {
		text_kernel(b, row->name, l->name_width);
	} else {
		buf_printf(b, "%zu more", s->n_rows - l->rows);
	}
	width = b->n > start ? text_width(b->data + start, b->n - start) : 0;
	pad(b, (width < l->name_width ? l->name_width - width : 0) + 1);
	text_count(&launches, row->launches);
	add_right(b, &launches, LAUNCHES_WIDTH);
	buf_deinit(&launches);
	if (l->with_time) {
		add_time(b, row, total->time_ns);
	}
	for (size_t i = l->first; i < l->first + l->count; i++) {
		add_cell(b, &s->columns[i], &row->cells[i], total->cells[i].sum);
	}
	buf_char(b, '\n');
}

static void add_table(struct summary *s, const struct layout *l, struct buf *b,
		      const struct summary_row *total)
{
	add_heads(s, l, b);
	for (size_t i = 0; i < s->n_rows && i < l->rows; i++) {
		add_row(s, l, b, s->rows[i], total);
	}
	if (s->n_rows > l->rows) {
		struct summary_row rest = { .name = (char *)"" };

		rest.cells = calloc(s->n_columns + 1, sizeof(*rest.cells));
		if (rest.cells) {
			summary_add_up(s, l->rows, &rest);
			add_row(s, l, b, &rest, total);
		}
		free(rest.cells);
	}
	if (s->n_rows > 1) {
		add_row(s, l, b, total, total);
	}
}

/* --- all tables --------------------------------------------------------------------------------
 */

/* As many columns as fit, at least one. */
static size_t fit(const struct summary *s, size_t first, size_t room)
{
	size_t count = 0;

	for (size_t i = first; i < s->n_columns; i++) {
		size_t width = GAP + group_width(&s->columns[i]);

		if (width > room && count > 0) {
			break;
		}
		room -= width < room ? width : room;
		count++;
	}
	return count;
}

static size_t longest_name(const struct summary *s, size_t rows)
{
	size_t longest = strlen("kernel");

	for (size_t i = 0; i < s->n_rows && i < rows; i++) {
		struct buf name = { 0 };

		text_kernel(&name, s->rows[i]->name, MAX_NAME_WIDTH);
		if (name.n > 0 && text_width(name.data, name.n) > longest) {
			longest = text_width(name.data, name.n);
		}
		buf_deinit(&name);
	}
	return longest;
}

static void set_name_width(const struct summary *s, struct layout *l, size_t width, size_t longest)
{
	size_t used = 1 + LAUNCHES_WIDTH + (l->with_time ? GAP + GROUP_WIDTH : 0);

	for (size_t i = l->first; i < l->first + l->count; i++) {
		used += GAP + group_width(&s->columns[i]);
	}
	l->name_width = width > used + MIN_NAME_WIDTH ? width - used : MIN_NAME_WIDTH;
	l->name_width = l->name_width < longest ? l->name_width : longest;
}

/* With the shortest name and one column, or the time alone. */
static size_t narrowest(const struct summary *s)
{
	size_t widest = GROUP_WIDTH;

	for (size_t i = 0; i < s->n_columns; i++) {
		size_t width = group_width(&s->columns[i]);

		widest = width > widest ? width : widest;
	}
	return MIN_NAME_WIDTH + 1 + LAUNCHES_WIDTH + GAP + widest;
}

static void add_tables(struct summary *s, const struct summary_end *end, struct buf *b)
{
	struct summary_row total = { .name = (char *)"all" };
	struct layout l = { .rows = end->rows, .with_time = true };
	size_t longest = longest_name(s, end->rows);
	int tables = 0;

	total.cells = calloc(s->n_columns + 1, sizeof(*total.cells));
	if (!total.cells) {
		return;
	}
	summary_sort(s);
	summary_add_up(s, 0, &total);
	l.with_time = total.timed > 0;
	if (end->width < narrowest(s)) {
		buf_char(b, '\n');
		summary_add_narrow(s, end, &total, b);
		free(total.cells);
		return;
	}
	do {
		size_t used = GOOD_NAME_WIDTH + 1 + LAUNCHES_WIDTH +
			      (l.with_time ? GAP + GROUP_WIDTH : 0);

		l.count = fit(s, l.first, end->width > used ? end->width - used : 0);
		set_name_width(s, &l, end->width, longest);
		buf_char(b, '\n');
		add_table(s, &l, b, &total);
		l.first += l.count;
		l.with_time = false;
	} while (l.first < s->n_columns && ++tables < MAX_TABLES);
	if (l.first < s->n_columns) {
		buf_printf(b, "%zu more counters: see -o FILE or --format\n",
			   s->n_columns - l.first);
	}
	free(total.cells);
}

void summary_print(struct summary *s, const struct summary_end *end, struct buf *b)
{
	if (s->records > 0) {
		add_tables(s, end, b);
		buf_char(b, '\n');
	} else {
		summary_add_nothing(s, end, b);
	}
	summary_add_hardware(s, end, b);
	summary_add_totals(s, end, b);
	summary_add_clocks(s, b);
	if (s->recorded_from) {
		buf_text(b, "RECORDED on ");
		text_terminal(b, s->recorded_from);
		buf_text(b, ", not measured here\n");
	}
}
