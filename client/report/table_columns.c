/* SPDX-License-Identifier: Apache-2.0 */

/* Columns of a table: which figures each has, how wide they are, and what stands in a field. */

#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/table_internal.h"

enum { FIELD_WIDTH = 8, BASE_WIDTH = 16, SHARE_WIDTH = 6 };

void table_pad(struct buf *b, size_t n)
{
	for (; n > 0; n--) {
		buf_char(b, ' ');
	}
}

void table_add_right(struct buf *b, struct buf *field, size_t width)
{
	size_t has = field->n ? text_width(field->data, field->n) : 0;

	table_pad(b, has < width ? width - has : 0);
	buf_add(b, field->data, field->n);
	buf_clear(field);
}

/* --- figures -----------------------------------------------------------------------------------
 */

static bool is_percent(enum field field)
{
	return field == FIELD_SHARE || field == FIELD_CHANGE || field == FIELD_CHANGE_ERROR;
}

/* Of a row that only holds others there is nothing to tell. */
static bool is_of_row_alone(enum field field)
{
	return field >= FIELD_SUM && field <= FIELD_STDDEV;
}

static bool is_of_total(enum field field)
{
	return field == FIELD_TOTAL || field >= FIELD_ERROR;
}

static void add_value(const struct table *t, const struct table_column *c, double value,
		      struct buf *b)
{
	if (isnan(value)) {
		buf_text(b, "na");
	} else if (t->v->base_units && fabs(value) < 1e15) {
		buf_printf(b, value == floor(value) ? "%.0f" : "%.3f", value);
	} else {
		text_scaled(b, value, c->unit);
	}
}

/* What rounding leaves of equal values is none. */
static void add_error(double percent, struct buf *b)
{
	if (isnan(percent)) {
		buf_char(b, '-');
	} else {
		buf_printf(b, "+-%.2g%%", percent < 1e-9 ? 0 : percent);
	}
}

/* As part of what it is of, or why there is none. */
static void add_error_of(const struct estimate *e, struct buf *b)
{
	if (e->kind == ESTIMATE_EXACT) {
		buf_text(b, "exact");
	} else if (e->kind == ESTIMATE_ONCE) {
		buf_text(b, "once");
	} else if (e->kind == ESTIMATE_GUESS && e->value == 0 && e->error == 0) {
		buf_text(b, "+-0%");
	} else {
		add_error(e->value != 0 ? 100 * e->error / fabs(e->value) : NAN, b);
	}
}

static void add_percent(enum field field, const struct group *row, double value, struct buf *b)
{
	if (field == FIELD_CHANGE_ERROR) {
		add_error(value, b);
	} else if (!isnan(value)) {
		buf_printf(b, field == FIELD_CHANGE ? "%+.1f%%" : "%.1f%%", value);
	} else if (field == FIELD_SHARE) {
		buf_char(b, '-');
	} else {
		buf_text(b, row->total_calls == 0 ? "gone" : row->before ? "na" : "new");
	}
}

static void add_figure(const struct table *t, const struct table_column *c, enum field field,
		       const struct group *row, double value, struct buf *b)
{
	if (!c->is_derived && is_percent(field)) {
		add_percent(field, row, value, b);
	} else {
		add_value(t, c, value, b);
	}
}

static struct estimate estimate_of(const struct table *t, const struct table_column *c,
				   const struct group *row)
{
	const struct view *v = t->v;

	if (!c->is_derived) {
		return fields_estimate(&v->measures[c->i], c->i, row);
	}
	return row->estimated ? derived_estimate(&v->derived[c->i], row)
			      : (struct estimate){ .kind = ESTIMATE_EXACT };
}

/* A sum of which launches are missing: an error of the others would say that it is known. */
static bool is_of_some(const struct table *t, const struct table_column *c, const struct group *row)
{
	return !c->is_derived && t->v->measures[c->i].adds_up && row->estimated &&
	       row->estimated->total[c->i].unknown > 0;
}

void table_format(const struct table *t, const struct table_column *c, unsigned field,
		  const struct group *row, struct buf *b)
{
	const struct view *v = t->v;
	size_t start = b->n;
	double value;

	if (!c->is_derived && group_launches(row, false) == 0 &&
	    is_of_row_alone(c->fields[field])) {
		buf_char(b, '-');
		return;
	}
	if (!table_has_total(t, row) &&
	    (c->is_derived || (v->measures[c->i].adds_up && is_of_total(c->fields[field])))) {
		buf_char(b, '-');
		return;
	}
	if (c->fields[field] == FIELD_ERROR) {
		struct estimate e = estimate_of(t, c, row);

		if (is_of_some(t, c, row) && e.kind != ESTIMATE_NONE) {
			buf_text(b, "part");
		} else {
			add_error_of(&e, b);
		}
		return;
	}
	if (c->fields[field] == FIELD_DIFFERS) {
		value = fields_value(FIELD_DIFFERS, &v->measures[c->i], c->i, row, v->all);
		buf_text(b, isnan(value) ? "-" : value > 0 ? "yes" : "no");
		return;
	}
	value = c->is_derived
			? derived_value(&v->derived[c->i], row)
			: fields_value(c->fields[field], &v->measures[c->i], c->i, row, v->all);
	add_figure(t, c, c->fields[field], row, value, b);
	/* A wild value, of a damaged file or a counter that ran over, breaks no line. */
	if (b->n > start &&
	    text_width(b->data + start, b->n - start) > table_field_width(c, field)) {
		b->n = start;
		buf_printf(b, "%.0e", value);
	}
}

/* --- columns -----------------------------------------------------------------------------------
 */

size_t table_field_width(const struct table_column *c, unsigned field)
{
	return !c->is_derived && c->fields[field] == FIELD_SHARE ? SHARE_WIDTH : c->width;
}

size_t table_fields_width(const struct table_column *c)
{
	size_t width = 0;

	for (unsigned i = 0; i < c->n_fields; i++) {
		width += (i > 0) + table_field_width(c, i);
	}
	return width;
}

static size_t head_width(const struct table_column *c, bool base_units)
{
	size_t width = text_width(c->name, strlen(c->name));

	return base_units && *c->unit ? width + strlen(c->unit) + 3 : width;
}

size_t table_column_width(const struct table *t, const struct table_column *c)
{
	size_t head = head_width(c, t->v->base_units), fields = table_fields_width(c);

	return head > fields ? head : fields;
}

static void choose_fields(const struct view *v, const struct measure *m, struct table_column *c)
{
	unsigned fields = v->fields;

	/* Where a sum means nothing, the largest stands in its place. */
	if (!m->adds_up && (fields & (FIELD_BIT(FIELD_SUM) | FIELD_BIT(FIELD_SHARE)))) {
		fields |= FIELD_BIT(FIELD_MEAN) | FIELD_BIT(FIELD_MAX);
	}
	if (!m->adds_up && (fields & FIELD_BIT(FIELD_BEFORE))) {
		fields |= FIELD_BIT(FIELD_MEAN);
	}
	for (int i = 0; i < FIELD_END; i++) {
		if ((fields & FIELD_BIT(i)) && fields_applies((enum field)i, m)) {
			c->fields[c->n_fields++] = (enum field)i;
		}
	}
}

/* Times that nobody knows have no column. */
bool table_make_columns(struct table *t)
{
	const struct view *v = t->v;
	size_t width = v->base_units ? BASE_WIDTH : FIELD_WIDTH;

	t->columns = calloc(v->n_measures + v->n_derived, sizeof(*t->columns));
	if (!t->columns) {
		return false;
	}
	for (size_t i = 0; i < v->n_measures; i++) {
		struct table_column *c = &t->columns[t->n_columns];

		if (!v->chosen[i] || (i == MEASURE_TIME && v->all->self[i].n == 0)) {
			continue;
		}
		*c = (struct table_column){ .name = v->measures[i].name,
					    .unit = v->measures[i].unit,
					    .i = i,
					    .width = width };
		choose_fields(v, &v->measures[i], c);
		t->n_columns += c->n_fields > 0;
	}
	for (size_t i = 0; i < v->n_derived; i++) {
		if (!v->chosen_derived[i]) {
			continue;
		}
		t->columns[t->n_columns++] =
			(struct table_column){ .name = v->derived[i].name,
					       .unit = v->derived[i].unit,
					       .i = i,
					       .is_derived = true,
					       .fields = { FIELD_TOTAL, FIELD_ERROR },
					       .n_fields =
						       v->fields & FIELD_BIT(FIELD_ERROR) ? 2 : 1,
					       .width = width + 4 };
	}
	return true;
}
