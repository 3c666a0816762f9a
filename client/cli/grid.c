/* SPDX-License-Identifier: Apache-2.0 */

/* A column is as wide as its widest text. When all of them do not fit, the column with the highest
 * rank goes, and so on; what then is still too wide is the last column's business, or the frame's,
 * which cuts lines. */

#include "client/cli/grid.h"

#include <stdlib.h>

#include "client/cli/text.h"

enum { GAP = 2, CUT_WIDTH_MIN = 12, COLUMNS_MAX = 16 };

void grid_init(struct grid *g, const struct grid_column *columns, size_t n_columns)
{
	*g = (struct grid){ .columns = columns, .n_columns = n_columns };
}

void grid_clear(struct grid *g)
{
	for (size_t i = 0; i < g->n; i++) {
		free(g->cells[i].text);
	}
	g->n = 0;
	g->failed = false;
}

void grid_deinit(struct grid *g)
{
	grid_clear(g);
	free(g->cells);
	g->cells = NULL;
	g->max = 0;
}

size_t grid_rows(const struct grid *g)
{
	return g->n / g->n_columns;
}

void grid_value(struct grid *g, double value, const char *text)
{
	struct buf safe = { 0 };

	if (g->n == g->max) {
		size_t max = g->max ? g->max * 2 : 64;
		struct grid_cell *cells = realloc(g->cells, max * sizeof(*cells));

		if (!cells) {
			g->failed = true;
			return;
		}
		g->cells = cells;
		g->max = max;
	}
	text_terminal(&safe, text && *text ? text : "-");
	g->cells[g->n] = (struct grid_cell){ strdup(buf_string(&safe)), value };
	if (safe.failed || !g->cells[g->n].text) {
		free(g->cells[g->n].text);
		g->failed = true;
	} else {
		g->n++;
	}
	buf_deinit(&safe);
}

void grid_text(struct grid *g, const char *text)
{
	grid_value(g, 0, text);
}

/* --- order ----------------------------------------------------------------------------------- */

static bool is_before(const struct grid_cell *a, const struct grid_cell *b, enum grid_order order)
{
	switch (order) {
	case GRID_TEXT:
		return strcmp(a->text, b->text) < 0;
	case GRID_LOWEST:
		return a->value < b->value;
	case GRID_HIGHEST:
		break;
	}
	return a->value > b->value;
}

/* By insertion: rows that are equal stay in order, and from one second to the next little moves. */
void grid_sort(struct grid *g, size_t column, enum grid_order order)
{
	size_t n = g->n_columns;
	struct grid_cell row[COLUMNS_MAX];

	for (size_t i = 1; i < grid_rows(g); i++) {
		size_t k = i;

		memcpy(row, g->cells + i * n, n * sizeof(*row));
		while (k > 0 && is_before(&row[column], &g->cells[(k - 1) * n + column], order)) {
			memcpy(g->cells + k * n, g->cells + (k - 1) * n, n * sizeof(*row));
			k--;
		}
		memcpy(g->cells + k * n, row, n * sizeof(*row));
	}
}

/* --- layout ---------------------------------------------------------------------------------- */

static void find_widths(const struct grid *g, size_t *widths)
{
	for (size_t c = 0; c < g->n_columns; c++) {
		widths[c] = strlen(g->columns[c].title);
		for (size_t i = c; i < g->n; i += g->n_columns) {
			size_t width = text_width(g->cells[i].text, strlen(g->cells[i].text));

			widths[c] = width > widths[c] ? width : widths[c];
		}
	}
}

static size_t needed(const struct grid *g, const size_t *widths)
{
	size_t sum = 0;

	for (size_t c = 0; c < g->n_columns; c++) {
		bool cut = g->columns[c].cut && widths[c] > CUT_WIDTH_MIN;

		sum += widths[c] ? (cut ? CUT_WIDTH_MIN : widths[c]) + GAP : 0;
	}
	return sum > GAP ? sum - GAP : 0;
}

/* Width 0: left out. */
static void leave_out(const struct grid *g, size_t width, size_t *widths)
{
	while (needed(g, widths) > width) {
		size_t worst = 0;

		for (size_t c = 1; c < g->n_columns; c++) {
			bool shown = widths[c] > 0;

			if (shown &&
			    (widths[worst] == 0 || g->columns[c].rank > g->columns[worst].rank)) {
				worst = c;
			}
		}
		if (widths[worst] == 0 || g->columns[worst].rank == 0) {
			return;
		}
		widths[worst] = 0;
	}
}

static void add_spaces(struct buf *b, size_t n)
{
	while (n-- > 0) {
		buf_char(b, ' ');
	}
}

static void add_cell(const struct grid *g, size_t c, const char *text, size_t width, struct buf *b)
{
	size_t n = strlen(text), has = text_width(text, n);
	size_t spaces = has < width ? width - has : 0;

	add_spaces(b, g->columns[c].right ? spaces : 0);
	buf_add(b, text, n);
	add_spaces(b, g->columns[c].right ? 0 : spaces);
}

/* row NULL: the titles. */
static void add_row(const struct grid *g, const struct grid_cell *row, const size_t *widths,
		    struct frame *f)
{
	size_t begin = f->text.n;

	for (size_t c = 0; c < g->n_columns; c++) {
		if (widths[c] > 0) {
			add_spaces(&f->text, f->text.n > begin ? GAP : 0);
			add_cell(g, c, row ? row[c].text : g->columns[c].title, widths[c],
				 &f->text);
		}
	}
	while (f->text.n > begin && f->text.data[f->text.n - 1] == ' ') {
		f->text.n--;
	}
	frame_end_line(f, row ? LOOK_PLAIN : LOOK_DIM);
}

void grid_add_to(const struct grid *g, size_t width, struct frame *f)
{
	size_t widths[COLUMNS_MAX];

	find_widths(g, widths);
	leave_out(g, width, widths);
	add_row(g, NULL, widths, f);
	for (size_t i = 0; i < grid_rows(g); i++) {
		add_row(g, g->cells + i * g->n_columns, widths, f);
	}
	f->failed |= g->failed;
}
