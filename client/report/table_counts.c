/* SPDX-License-Identifier: Apache-2.0 */

/* The columns that say how many launches the figures of a row are of. "launches" counts the row's
 * own, to which self, mean and the figures after them belong. "total launches" also counts launches
 * of nested rows, and is shown beside totals. */

#include <string.h>

#include "client/cli/text.h"
#include "client/report/table_internal.h"

enum { COUNT_WIDTH = 8 /* least width of a count */ };

static const struct {
	const char *over, *name, *line; /* two lines of a heading; the name in a narrow table */
} texts[] = {
	[COUNT_OWN] = { "", "launches", "launches" },
	[COUNT_OWN_BEFORE] = { "launches", "before", "  before" },
	[COUNT_TOTAL] = { "total", "launches", "total launches" },
	[COUNT_TOTAL_BEFORE] = { "launches", "before", "  before" },
};

/* --- which ----------------------------------------------------------------------------------- */

static bool is_of_total(enum field field, const struct measure *m)
{
	return m->adds_up && (field == FIELD_TOTAL || field == FIELD_ERROR ||
			      (field >= FIELD_BEFORE && field <= FIELD_DIFFERS));
}

/* Notes whether a column shows totals (with nested rows), and figures of the row alone. */
static void look_at(const struct table *t, const struct table_column *c, bool *own, bool *total)
{
	for (unsigned i = 0; i < c->n_fields; i++) {
		if (c->of->derived || is_of_total(c->fields[i], c->of->measure)) {
			*total = true;
		} else {
			*own = true;
		}
	}
}

static void add(struct table *t, enum table_count count)
{
	t->counts[t->n_counts++] = count;
}

static void choose(struct table *t)
{
	const struct view *v = t->v;
	bool compares = v->all->before != NULL;
	bool own = !v->nested, total = false;

	for (size_t i = 0; i < t->n_columns; i++) {
		look_at(t, &t->columns[i], &own, &total);
	}
	total = total && v->nested;
	own = own || !total;
	if (own) {
		add(t, COUNT_OWN);
	}
	if (own && compares) {
		add(t, COUNT_OWN_BEFORE);
	}
	if (total) {
		add(t, COUNT_TOTAL);
	}
	if (total && compares) {
		add(t, COUNT_TOTAL_BEFORE);
	}
}

/* --- widths and heads ------------------------------------------------------------------------ */

void table_make_counts(struct table *t)
{
	CLEAN_BUF struct buf field = { 0 };

	choose(t);
	t->count_width = COUNT_WIDTH;
	for (unsigned i = 0; i < t->n_counts; i++) {
		table_format_count(t, t->counts[i], t->v->all, &field);
		t->count_width = field.n > t->count_width ? field.n : t->count_width;
		buf_clear(&field);
	}
	t->counts_width = t->n_counts * (t->count_width + 1) - 1;
}

void table_add_count_heads(const struct table *t, bool over, struct buf *b)
{
	CLEAN_BUF struct buf field = { 0 };

	for (unsigned i = 0; i < t->n_counts; i++) {
		buf_text(&field, over ? texts[t->counts[i]].over : texts[t->counts[i]].name);
		table_pad(b, i > 0);
		table_add_right(b, &field, t->count_width);
	}
}

const char *table_count_name(enum table_count count)
{
	return texts[count].line;
}

/* --- values ---------------------------------------------------------------------------------- */

void table_format_count(const struct table *t, enum table_count count, const struct group *row,
			struct buf *b)
{
	bool total = count >= COUNT_TOTAL;
	const struct group *of = count == COUNT_OWN || count == COUNT_TOTAL ? row : row->before;

	if (total && !table_has_total(t, row)) {
		buf_char(b, '-');
	} else {
		text_count(b, !of ? 0 : total ? of->total_calls : of->calls);
	}
}

void table_add_counts(const struct table *t, const struct group *row, struct buf *b)
{
	CLEAN_BUF struct buf field = { 0 };

	for (unsigned i = 0; i < t->n_counts; i++) {
		table_format_count(t, t->counts[i], row, &field);
		table_pad(b, i > 0);
		table_add_right(b, &field, t->count_width);
	}
}
