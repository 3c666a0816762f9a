/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/grid.h"

#include <stdlib.h>

#include "client/cli/terminal.h"
#include "client/cli/text.h"
#include "proto/base/array.h"

enum { GAP = 2, COLUMNS_MAX = 16 };

void grid_init(struct grid *g, const struct grid_column *columns, size_t n_columns)
{
	*g = (struct grid){ .columns = columns, .n_columns = n_columns };
}

void grid_deinit(struct grid *g)
{
	for (size_t i = 0; i < g->n; i++) {
		free(g->cells[i]);
	}
	free(g->cells);
	*g = (struct grid){ 0 };
}

size_t grid_rows(const struct grid *g)
{
	return g->n / g->n_columns;
}

void grid_text(struct grid *g, const char *text)
{
	CLEAN_BUF struct buf safe = { 0 };

	if (!array_make_room(&g->cells, sizeof(*g->cells), g->n, &g->max)) {
		g->failed = true;
		return;
	}
	text_terminal(&safe, text && *text ? text : "-");
	g->cells[g->n] = buf_take(&safe);
	g->failed |= !g->cells[g->n];
	g->n += g->cells[g->n] != NULL;
}

/* --- layout ---------------------------------------------------------------------------------- */

/* A column is as wide as its widest text. */
static void find_widths(const struct grid *g, size_t *widths)
{
	for (size_t c = 0; c < g->n_columns; c++) {
		widths[c] = strlen(g->columns[c].title);
		for (size_t i = c; i < g->n; i += g->n_columns) {
			size_t width = text_width(g->cells[i], strlen(g->cells[i]));

			widths[c] = width > widths[c] ? width : widths[c];
		}
	}
}

static size_t needed(const struct grid *g, const size_t *widths)
{
	size_t sum = 0;

	for (size_t c = 0; c < g->n_columns; c++) {
		sum += widths[c] ? widths[c] + GAP : 0;
	}
	return sum > GAP ? sum - GAP : 0;
}

/* Sets the width of columns that are left out to 0. */
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

/* cells NULL: the row has the titles. */
static void add_row(const struct grid *g, char *const *cells, const size_t *widths, struct buf *b)
{
	size_t begin = b->n;

	for (size_t c = 0; c < g->n_columns; c++) {
		if (widths[c] > 0) {
			const char *text = cells ? cells[c] : g->columns[c].title;

			buf_text(b, b->n > begin ? "  " : "");
			text_pad(b, text, widths[c], g->columns[c].right);
		}
	}
	while (b->n > begin && b->data[b->n - 1] == ' ') {
		b->n--;
	}
}

void grid_print(const struct grid *g, size_t width, bool styled, struct buf *b)
{
	size_t widths[COLUMNS_MAX];
	CLEAN_BUF struct buf titles = { 0 };

	find_widths(g, widths);
	leave_out(g, width, widths);
	add_row(g, NULL, widths, &titles);
	terminal_bold(b, styled, buf_string(&titles));
	buf_char(b, '\n');
	for (size_t i = 0; i < grid_rows(g); i++) {
		add_row(g, g->cells + i * g->n_columns, widths, b);
		buf_char(b, '\n');
	}
	b->failed |= g->failed;
}
