/* SPDX-License-Identifier: Apache-2.0 */

/* The columns of a table: their figures, widths, and the text of each field. */

#include <assert.h>
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

bool table_has_total(const struct table *t, const struct group *row)
{
	return !t->v->nested || row != t->rest;
}

/* --- figures --------------------------------------------------------------------------------- */

static bool is_percent(enum field field)
{
	field = fields_of_total(field);
	return field == FIELD_SHARE || field == FIELD_CHANGE || field == FIELD_CHANGE_ERROR;
}

/* Is the figure one of the row's own launches? A row that only holds other rows shows none. */
static bool is_of_row_alone(enum field field)
{
	return field >= FIELD_SUM && field <= FIELD_N;
}

static bool is_of_total(enum field field)
{
	return field == FIELD_TOTAL || (field >= FIELD_ERROR && !fields_are_of_mean(field));
}

static void add_value(const struct table *t, const struct table_column *c, double value,
		      struct buf *b)
{
	if (t->v->base_units && fabs(value) < 1e15) {
		buf_printf(b, value == floor(value) ? "%.0f" : "%.3f", value);
	} else {
		text_scaled(b, value, c->of->unit);
	}
}

/* Adds an error. One that comes from rounding equal values is shown as 0. */
static void add_error(double percent, struct buf *b)
{
	if (isnan(percent)) {
		buf_char(b, '-');
	} else {
		buf_text(b, "+-");
		text_percent(b, percent < 1e-9 ? 0 : percent);
		buf_char(b, '%');
	}
}

/* Adds the error in percent of the value. */
static void add_error_of(const struct figure *f, struct buf *b)
{
	if (f->error == 0) {
		buf_text(b, "exact");
	} else {
		add_error(f->value != 0 ? 100 * f->error / fabs(f->value) : NAN, b);
	}
}

/* A change to more than 100 times is shown as a factor, because percents would be too long to
 * read. */
static void add_change(double percent, struct buf *b)
{
	double times = percent / 100 + 1;

	if (fabs(percent) < 10000) {
		buf_printf(b, "%+.1f%%", percent);
	} else if (percent < 0) {
		buf_printf(b, "%.0e%%", percent);
	} else {
		buf_printf(b, times < 999999 ? "x %.0f" : "x %.0e", times);
	}
}

static void add_percent(enum field field, const struct group *row, double value, struct buf *b)
{
	if (field == FIELD_CHANGE_ERROR) {
		add_error(value, b);
	} else if (!isnan(value) && field == FIELD_CHANGE) {
		add_change(value, b);
	} else if (!isnan(value)) {
		buf_printf(b, "%.1f%%", value);
	} else if (field == FIELD_SHARE) {
		buf_char(b, '-');
	} else {
		buf_text(b, row->total_calls == 0 ? "gone" : row->before ? TEXT_UNKNOWN : "new");
	}
}

static void add_figure(const struct table *t, const struct table_column *c, enum field field,
		       const struct group *row, double value, struct buf *b)
{
	if (isnan(value) && fields_of_total(field) == FIELD_CHANGE &&
	    !isnan(view_figure(c->of, row).value) && view_is_of_part(c->of, row)) {
		buf_text(b, "part");
	} else if (field == FIELD_N) {
		text_count(b, (uint64_t)value);
	} else if (is_percent(field)) {
		add_percent(fields_of_total(field), row, value, b);
	} else {
		add_value(t, c, value, b);
	}
}

/* Is the value known of only some of the row's launches? */
static bool is_sum_of_some(const struct table *t, const struct table_column *c, enum field field,
			   const struct group *row)
{
	const struct measure *m = c->of->measure;
	bool total = field == FIELD_TOTAL;
	uint64_t n;

	if (!m && t->v->sampled && total) {
		return view_is_of_some(c->of, row);
	}
	if (!m || !m->adds_up || (!total && field != FIELD_SUM)) {
		return false;
	}
	n = total ? row->total[c->of->i].n : row->own[c->of->i].n;
	return n > 0 && n < (total ? row->total_calls : row->calls);
}

void table_format(const struct table *t, const struct table_column *c, unsigned field,
		  const struct group *row, struct buf *b)
{
	const struct measure *m = c->of->measure;
	size_t start = b->n;
	double value;

	if (m && row->calls == 0 && is_of_row_alone(c->fields[field])) {
		buf_char(b, '-');
		return;
	}
	if (!table_has_total(t, row) && (!m || (m->adds_up && is_of_total(c->fields[field])))) {
		buf_char(b, '-');
		return;
	}
	if (c->fields[field] == FIELD_ERROR) {
		struct figure f = view_figure(c->of, row);

		if (view_is_of_some(c->of, row) && !isnan(f.value)) {
			buf_text(b, "part");
		} else {
			add_error_of(&f, b);
		}
		return;
	}
	value = view_value(t->v, c->of, c->fields[field], row);
	if (fields_of_total(c->fields[field]) == FIELD_DIFFERS) {
		buf_text(b, isnan(value) ? "-" : value > 0 ? "yes" : "no");
		return;
	}
	add_figure(t, c, c->fields[field], row, value, b);
	if (!isnan(value) && is_sum_of_some(t, c, c->fields[field], row) &&
	    text_width(b->data + start, b->n - start) < table_field_width(c, field)) {
		buf_char(b, '*');
	}
	/* No value, however large (a damaged file, a counter that overflowed), may break a line. */
	if (b->n > start &&
	    text_width(b->data + start, b->n - start) > table_field_width(c, field)) {
		b->n = start;
		buf_printf(b, is_percent(c->fields[field]) ? "%.0e%%" : "%.0e", value);
	}
}

/* --- columns --------------------------------------------------------------------------------- */

size_t table_field_width(const struct table_column *c, unsigned field)
{
	if (c->of->derived) {
		return is_percent(c->fields[field]) || c->fields[field] == FIELD_DIFFERS
			       ? FIELD_WIDTH
			       : c->width;
	}
	return c->fields[field] == FIELD_SHARE ? SHARE_WIDTH : c->width;
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
	size_t width = text_width(c->of->name, strlen(c->of->name)) + strlen(c->behind);

	return base_units && *c->of->unit ? width + strlen(c->of->unit) + 3 : width;
}

size_t table_column_width(const struct table *t, const struct table_column *c)
{
	size_t head = head_width(c, t->v->base_units), fields = table_fields_width(c);

	return head > fields ? head : fields;
}

/* The figures of a comparison stand beside the figure that is compared. */
static const enum field order[] = {
	FIELD_TOTAL,	    FIELD_BEFORE,
	FIELD_CHANGE,	    FIELD_CHANGE_ERROR,
	FIELD_DIFFERS,	    FIELD_SUM,
	FIELD_MEAN,	    FIELD_MEAN_BEFORE,
	FIELD_MEAN_CHANGE,  FIELD_MEAN_CHANGE_ERROR,
	FIELD_MEAN_DIFFERS, FIELD_SHARE,
	FIELD_MIN,	    FIELD_MAX,
	FIELD_STDDEV,	    FIELD_N,
	FIELD_ERROR,
};
static_assert(sizeof(order) / sizeof(order[0]) == FIELD_END, "each field has its place");

static void choose_fields(const struct view *v, struct table_column *c)
{
	const struct measure *m = c->of->measure;
	unsigned fields = v->fields;

	/* Times of kernels are traced and not sampled, so they have no errors. */
	for (int f = 0; v->sampled && c->of->i == MEASURE_TIME && f < FIELD_END; f++) {
		fields &= fields_is_of_errors((enum field)f) ? ~FIELD_BIT(f) : ~0U;
	}

	/* If a sum has no meaning, the table shows mean and largest value instead. */
	if (!m->adds_up && (fields & (FIELD_BIT(FIELD_SUM) | FIELD_BIT(FIELD_SHARE)))) {
		fields |= FIELD_BIT(FIELD_MEAN) | FIELD_BIT(FIELD_MAX);
	}
	/* For such a measure a comparison compares the means. */
	if (!m->adds_up && v->all->before) {
		fields |= FIELD_BIT(FIELD_MEAN) | FIELD_BIT(FIELD_BEFORE) | FIELD_BIT(FIELD_CHANGE);
		fields |= v->sampled ? FIELD_BIT(FIELD_CHANGE_ERROR) | FIELD_BIT(FIELD_DIFFERS) : 0;
	}
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		enum field field = m->adds_up ? order[i] : (enum field)i;

		if ((fields & FIELD_BIT(field)) && fields_applies(field, m)) {
			c->fields[c->n_fields++] = field;
		}
	}
}

/* A derived column has its value, the value's error and a comparison. */
static void choose_derived_fields(const struct view *v, struct table_column *c)
{
	c->fields[c->n_fields++] = FIELD_TOTAL;
	if (v->sampled && (v->fields & FIELD_BIT(FIELD_ERROR))) {
		c->fields[c->n_fields++] = FIELD_ERROR;
	}
	for (int f = FIELD_BEFORE; v->all->before && f <= FIELD_DIFFERS; f++) {
		if (v->sampled || !fields_is_of_errors((enum field)f)) {
			c->fields[c->n_fields++] = (enum field)f;
		}
	}
}

/* Columns without a known value are left out; so is the time, even if the user named it. */
bool table_make_columns(struct table *t)
{
	struct view *v = t->v;
	size_t width = v->base_units ? BASE_WIDTH : FIELD_WIDTH;

	t->columns = calloc(v->n_columns, sizeof(*t->columns));
	for (size_t i = 0; t->columns && i < v->n_columns; i++) {
		struct table_column *c = &t->columns[t->n_columns];
		struct view_column *of = &v->columns[i];

		if (!of->chosen || !view_is_known(v, of)) {
			continue;
		}
		*c = (struct table_column){ .of = of, .behind = "", .width = width };
		if (of->measure) {
			c->behind = of->measure->of_range ? " (range)" : "";
			choose_fields(v, c);
		} else {
			c->width += 4;
			choose_derived_fields(v, c);
		}
		t->n_columns += c->n_fields > 0;
	}
	return t->columns;
}
