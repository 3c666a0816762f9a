/* SPDX-License-Identifier: Apache-2.0 */

/* Order and selection of a view's rows. compare.c compares them. */

#include "client/report/view.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"

enum sort_kind { SORT_COLUMN, SORT_LAUNCHES, SORT_TOTAL_LAUNCHES, SORT_NAME };

struct sort {
	enum sort_kind kind;
	const struct view_column *column;
	enum field field;
	const struct view *view;
};

/* --- order ----------------------------------------------------------------------------------- */

static double sort_value(const struct sort *sort, const struct group *row)
{
	switch (sort->kind) {
	case SORT_LAUNCHES:
	case SORT_TOTAL_LAUNCHES:
		return (double)(sort->kind == SORT_LAUNCHES ? row->calls : row->total_calls);
	case SORT_NAME:
		return 0;
	case SORT_COLUMN:
		break;
	}
	return view_value(sort->view, sort->column, sort->field, row);
}

static double value_or_none(double value)
{
	return isnan(value) ? 0 : value;
}

/* The amount of the change, up or down, so that the largest change comes first. */
static double change_value(const struct sort *sort, const struct group *row)
{
	const struct view *v = sort->view;
	const struct view_column *c = sort->column;
	bool of_mean = sort->field == FIELD_MEAN_CHANGE;
	double now = of_mean ? view_value(v, c, FIELD_MEAN, row) : view_figure(c, row).value;
	double before = view_value(v, c, of_mean ? FIELD_MEAN_BEFORE : FIELD_BEFORE, row);

	bool timed = c->derived ? c->derived->timed : c->i == MEASURE_TIME;

	if (timed && !fields_same_clock(row)) {
		return NAN;
	}
	return fabs(value_or_none(now) - value_or_none(before));
}

/* A row with the value that it is sorted by, which is computed once. */
struct place {
	struct group *row;
	double value;
	const struct keys *keys;
};

/* Larger values first, unknown ones last; equal rows by name, so that the order is always the
 * same. */
static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (isnan(x->value) != isnan(y->value)) {
		return isnan(x->value) ? 1 : -1;
	}
	if (x->value != y->value && !isnan(x->value)) {
		return x->value < y->value ? 1 : -1;
	}
	for (unsigned i = 0; i < x->keys->n; i++) {
		int order = strcmp(x->row->labels[i], y->row->labels[i]);

		if (order) {
			return order;
		}
	}
	return 0;
}

static int sort_rows(struct view *v, const struct sort *sort)
{
	bool by_change = sort->field == FIELD_CHANGE || sort->field == FIELD_MEAN_CHANGE;
	struct place *places = calloc(v->n_rows + 1, sizeof(*places));

	for (size_t i = 0; places && i < v->n_rows; i++) {
		double value =
			by_change ? change_value(sort, v->rows[i]) : sort_value(sort, v->rows[i]);

		places[i] = (struct place){ v->rows[i], value, v->keys };
	}
	if (places && v->n_rows > 1) {
		qsort(places, v->n_rows, sizeof(*places), compare_places);
	}
	for (size_t i = 0; places && i < v->n_rows; i++) {
		v->rows[i] = places[i].row;
	}
	free(places);
	return places ? 0 : -ENOMEM;
}

/* Finds a column by its whole name, or by a part of the name that only one measure has, or only one
 * derived column if no measure has it. NULL: no column, or several. */
static struct view_column *find_column(const struct view *v, const char *name)
{
	struct view_column *found[2];
	size_t n[2] = { 0 };
	bool derived;

	for (size_t i = 0; i < v->n_columns; i++) {
		struct view_column *c = &v->columns[i];

		if (strcmp(c->name, name) == 0) {
			return c;
		}
		if (strstr(c->name, name)) {
			found[c->derived != NULL] = c;
			n[c->derived != NULL]++;
		}
	}
	derived = n[false] == 0;
	return n[derived] == 1 ? found[derived] : NULL;
}

static bool refuse_column(const struct view *v, const char *name, struct buf *why)
{
	buf_char(why, '\'');
	text_terminal(why, name);
	buf_text(why, "' names no column, or several; the columns are");
	for (size_t i = 0; i < v->n_columns; i++) {
		buf_text(why, i > 0 ? ", " : " ");
		text_terminal(why, v->columns[i].name);
	}
	return false;
}

static bool choose_columns(struct view *v, const char *list, struct buf *why)
{
	char *copy, *rest, *word;
	bool ok;

	list = list && strcmp(list, "all") == 0 ? NULL : list;
	v->names_columns = list != NULL;
	copy = rest = strdup(list ? list : "");
	ok = copy != NULL;

	for (size_t i = 0; i < v->n_columns; i++) {
		v->columns[i].chosen = list == NULL;
	}
	while (list && ok && (word = strsep(&rest, ","))) {
		struct view_column *c = find_column(v, word);

		ok = c || refuse_column(v, word, why);
		if (c) {
			c->chosen = true;
		}
	}
	free(copy);
	return ok;
}

/* A derived column has its value and a comparison only. */
static bool has_field(const struct view_column *c, enum field field)
{
	return c->measure
		       ? fields_applies(field, c->measure)
		       : field == FIELD_TOTAL || (field >= FIELD_BEFORE && field <= FIELD_DIFFERS);
}

static bool parse_field(const struct view *v, const char *text, struct sort *sort, struct buf *why)
{
	const struct view_column *c = sort->kind == SORT_COLUMN ? sort->column : NULL;
	bool compares = v->all->before != NULL;
	const char *separator = " ";

	for (int i = 0; c && i < FIELD_END; i++) {
		enum field field = (enum field)i;
		bool named = strcmp(text, fields_name(field, false)) == 0 ||
			     strcmp(text, fields_name(field, true)) == 0;

		if (named && has_field(c, field) && (compares || field < FIELD_BEFORE)) {
			sort->field = field;
			return true;
		}
		if (named && has_field(c, field)) {
			buf_printf(why,
				   "'%s' is of a comparison: name the capture to compare with by "
				   "--against",
				   text);
			return false;
		}
	}
	buf_text(why, "this column cannot be sorted by '");
	text_terminal(why, text);
	buf_text(why, c ? "'; it has" : "', for it has no figures");
	for (int i = 0; c && i < (compares ? FIELD_END : FIELD_BEFORE); i++) {
		if (has_field(c, (enum field)i)) {
			buf_printf(why, "%s%s", separator, fields_name((enum field)i, v->nested));
			separator = ", ";
		}
	}
	return false;
}

static bool parse_sort(const struct view *v, const char *text, struct sort *sort, struct buf *why)
{
	char name[256];
	const char *colon = strchr(text, ':');

	snprintf(name, sizeof(name), "%.*s", (int)(colon ? colon - text : (long)strlen(text)),
		 text);
	if (strcmp(name, "launches") == 0 || strcmp(name, "calls") == 0) {
		sort->kind = SORT_LAUNCHES;
	} else if (strcmp(name, "total_launches") == 0) {
		sort->kind = SORT_TOTAL_LAUNCHES;
	} else if (strcmp(name, "name") == 0) {
		sort->kind = SORT_NAME;
	} else {
		sort->kind = SORT_COLUMN;
		sort->column = find_column(v, name);
	}
	if (sort->kind == SORT_COLUMN && !sort->column) {
		refuse_column(v, name, why);
		buf_text(why, ", launches, total_launches, name");
		return false;
	}
	if (sort->kind == SORT_COLUMN && sort->column->derived) {
		sort->field = FIELD_TOTAL;
	} else if (sort->kind == SORT_COLUMN && !sort->column->measure->adds_up) {
		sort->field = FIELD_MEAN;
	}
	return !colon || parse_field(v, colon + 1, sort, why);
}

/* --- selection ------------------------------------------------------------------------------- */

/* Is the value known of all launches? Otherwise nobody can say that it is zero. */
static bool is_known(const struct group *row, size_t i)
{
	return row->own[i].n >= row->calls;
}

/* all: all records of the row's capture, which may lack counters that the other capture has. */
static bool is_zero(const struct view *v, const struct group *row, const struct group *all)
{
	for (size_t i = 0; i < v->n_measures; i++) {
		bool is_there = all == v->all || all->self[i].n > 0;

		if (i != MEASURE_TIME && (row->self[i].min != 0 || row->self[i].max != 0 ||
					  (is_there && !is_known(row, i)))) {
			return false;
		}
	}
	return v->n_measures > 1 || row->calls == 0;
}

/* A row also counts if it was not zero in the capture that is compared with. */
static bool is_something(const struct view *v, const struct group *row)
{
	return !is_zero(v, row, v->all) ||
	       (row->before && !is_zero(v, row->before, v->all->before));
}

static bool has_launches(const struct view *v, const struct group *row)
{
	return row->calls > 0;
}

/* Returns how many rows are dropped. */
static size_t keep(struct view *v, bool (*is_kept)(const struct view *v, const struct group *row))
{
	size_t n = 0, had = v->n_rows;

	for (size_t i = 0; i < had; i++) {
		if (is_kept(v, v->rows[i])) {
			v->rows[n++] = v->rows[i];
		}
	}
	v->n_rows = n;
	return had - n;
}

static bool nests_by_operators(const struct view *v)
{
	return v->nested && v->keys->keys[v->keys->nested] == KEY_OP;
}

/* Are rows ranked by their own figures? Totals say little if rows nest and have several keys, or if
 * they are operators, which overlap much. */
static bool is_by_self(const struct view *v)
{
	return v->nested && !v->all->before &&
	       (nests_by_operators(v) || !(v->fields & FIELD_BIT(FIELD_TOTAL)));
}

/* Leaves out figures that would have no meaning here. */
static void choose_fields(struct view *v)
{
	if (!v->nested && !v->all->before) {
		v->fields |= v->fields & FIELD_BIT(FIELD_TOTAL) ? FIELD_BIT(FIELD_SUM) : 0;
		v->fields &= ~FIELD_BIT(FIELD_TOTAL);
	}
	if (!v->sampled) {
		v->fields &= ~FIELD_BIT(FIELD_ERROR);
	}
}

static bool make_columns(struct view *v)
{
	v->columns = calloc(v->n_measures + v->derived.n, sizeof(*v->columns));
	for (size_t i = 0; v->columns && i < v->n_measures; i++) {
		const struct measure *m = &v->measures[i];

		v->columns[v->n_columns++] =
			(struct view_column){ m->name, m->unit, .measure = m, .i = i };
	}
	for (size_t i = 0; v->columns && i < v->derived.n; i++) {
		const struct derived *d = &v->derived.items[i];

		v->columns[v->n_columns++] = (struct view_column){ d->name, d->unit, .derived = d };
	}
	return v->columns;
}

static int begin(struct view *v, struct groups *groups, const struct view_options *o,
		 struct buf *why)
{
	struct group **rows;
	int r;

	*v = (struct view){ .keys = groups_keys(groups),
			    .fields = FIELDS_USUAL,
			    .base_units = o->base_units,
			    .styled = o->styled,
			    .names_figures = o->figures != NULL,
			    .groups = groups,
			    .all = groups_all(groups) };
	v->nested = v->keys->nested >= 0;
	v->n_measures = groups_measures(groups, &v->measures);
	r = derived_init(&v->derived, v->measures, v->n_measures);
	for (size_t i = 0; i < o->n_defines && r == 0; i++) {
		r = derived_define(&v->derived, o->defines[i], why);
	}
	if (r) {
		return r;
	}
	v->n_rows = groups_rows(groups, &rows);
	v->rows = calloc(v->n_rows + 1, sizeof(struct group *));
	if (!v->rows || !make_columns(v)) {
		return -ENOMEM;
	}
	if (v->n_rows > 0) {
		memcpy(v->rows, rows, v->n_rows * sizeof(struct group *));
	}
	if (!choose_columns(v, o->columns, why)) {
		return -EINVAL;
	}
	if (o->figures && !fields_parse(o->figures, &v->fields, why)) {
		return -EINVAL;
	}
	if (!o->figures && o->people && v->nested && v->keys->n > 1 && !o->against) {
		v->fields = FIELD_BIT(FIELD_SUM) | FIELD_BIT(FIELD_SHARE);
	}
	v->sampled = v->all->total_error != NULL;
	/* Sampled values are always shown with their errors, and metrics that took turns with the
	 * number of launches that had them. */
	v->fields |= v->sampled ? FIELD_BIT(FIELD_ERROR) : 0;
	v->fields |= groups_take_turns(groups) ? FIELD_BIT(FIELD_N) : 0;
	return 0;
}

/* The time, if it is known and, in a comparison, comes from the same clock in both captures; else
 * the first counter that is shown. */
static const struct view_column *first_measure(const struct view *v)
{
	const struct view_column *time = &v->columns[MEASURE_TIME];
	bool usable = !v->all->before || (time->chosen && fields_same_clock(v->all));

	if (v->all->self[MEASURE_TIME].n > 0 && usable) {
		return time;
	}
	for (size_t i = MEASURE_TIME + 1; i < v->n_measures; i++) {
		if (v->columns[i].chosen) {
			return &v->columns[i];
		}
	}
	return time;
}

/* Sorts by the largest value, or in a comparison by the largest change if it can be computed. */
static struct sort usual_sort(const struct view *v, bool compares)
{
	struct sort sort = { .kind = SORT_COLUMN, .view = v, .column = first_measure(v) };
	bool adds_up = sort.column->measure->adds_up;
	bool changes = compares && (sort.column->i != MEASURE_TIME || fields_same_clock(v->all));

	if (!changes) {
		sort.field = !adds_up ? FIELD_MEAN : is_by_self(v) ? FIELD_SUM : FIELD_TOTAL;
	} else if (adds_up && !(v->fields & FIELD_BIT(FIELD_TOTAL))) {
		sort.field = FIELD_MEAN_CHANGE;
	} else {
		sort.field = FIELD_CHANGE;
	}
	return sort;
}

int view_init(struct view *v, struct groups *groups, const struct view_options *o, struct buf *why)
{
	struct sort sort = { 0 };
	int r = begin(v, groups, o, why);

	r = r == 0 && o->against ? view_compare(v, o, why) : r;
	sort = r == 0 ? usual_sort(v, o->against != NULL) : sort;
	if (r == 0 && o->sort) {
		sort.field = is_by_self(v) ? FIELD_SUM : FIELD_TOTAL;
		r = parse_sort(v, o->sort, &sort, why) ? 0 : -EINVAL;
	}
	if (r) {
		view_deinit(v);
		return r;
	}
	choose_fields(v);
	v->sorted_by = sort.kind == SORT_COLUMN ? sort.column : NULL;
	v->sorted_field = sort.field;
	if (o->people && is_by_self(v) && sort.kind != SORT_TOTAL_LAUNCHES &&
	    !(v->sorted_by && v->sorted_by->measure && sort.field == FIELD_TOTAL)) {
		v->n_held = keep(v, has_launches);
	}
	if (o->skip_zero) {
		v->n_zero = keep(v, is_something);
	}
	v->n_shown = o->limit && o->limit < v->n_rows ? o->limit : v->n_rows;
	r = sort_rows(v, &sort);
	if (r) {
		view_deinit(v);
	}
	return r;
}

void view_deinit(struct view *v)
{
	free(v->rows);
	free(v->columns);
	texts_deinit(&v->own);
	derived_deinit(&v->derived);
	memset(v, 0, sizeof(*v));
}
