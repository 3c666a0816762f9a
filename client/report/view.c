/* SPDX-License-Identifier: Apache-2.0 */

/* Order, selection and comparison of rows. */

#include "client/report/view.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/estimated.h"

enum sort_kind { SORT_MEASURE, SORT_DERIVED, SORT_CALLS, SORT_NAME };

struct sort {
	enum sort_kind kind;
	size_t i;
	enum field field;
	const struct view *view;
};

/* --- comparison --------------------------------------------------------------------------------
 */

/* Labels of two captures are different pointers. */
static uint64_t hash_row(const struct group *row, unsigned n)
{
	uint64_t hash = n;

	for (unsigned i = 0; i < n; i++) {
		hash = texts_mix(hash, texts_hash(row->labels[i], strlen(row->labels[i])));
	}
	return hash;
}

static bool same_row(const struct group *a, const struct group *b, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (strcmp(a->labels[i], b->labels[i]) != 0) {
			return false;
		}
	}
	return true;
}

static struct group *find_row(struct group **slots, size_t n_slots, const struct group *row,
			      unsigned n_keys, size_t *ret_slot)
{
	size_t slot = hash_row(row, n_keys) & (n_slots - 1);

	while (slots[slot] && !same_row(slots[slot], row, n_keys)) {
		slot = (slot + 1) & (n_slots - 1);
	}
	*ret_slot = slot;
	return slots[slot];
}

static bool same_measure(const struct measure *a, const struct measure *b)
{
	return strcmp(a->name, b->name) == 0 && strcmp(a->unit, b->unit) == 0;
}

static const struct estimated *translate_estimated(struct view *v, const struct group *row,
						   const struct measure *measures,
						   size_t n_measures)
{
	struct estimated *copy = row->estimated ? texts_take(&v->own, sizeof(*copy)) : NULL;

	if (!copy) {
		return NULL;
	}
	*copy = *row->estimated;
	copy->self = texts_take(&v->own, v->n_measures * sizeof(*copy->self));
	copy->total = texts_take(&v->own, v->n_measures * sizeof(*copy->total));
	for (size_t i = 0; copy->self && copy->total && i < v->n_measures; i++) {
		for (size_t k = 0; k < n_measures; k++) {
			if (same_measure(&v->measures[i], &measures[k])) {
				copy->self[i] = row->estimated->self[k];
				copy->total[i] = row->estimated->total[k];
			}
		}
	}
	return copy->self && copy->total ? copy : NULL;
}

/* The numbers of a row of the other capture in the order of our measures. */
static const struct group *translate(struct view *v, const struct group *row,
				     const struct measure *measures, size_t n_measures)
{
	struct group *copy = texts_take(&v->own, sizeof(*copy));
	struct sample *self = texts_take(&v->own, v->n_measures * sizeof(*self));
	struct part *total = texts_take(&v->own, v->n_measures * sizeof(*total));

	if (!copy || !self || !total) {
		return NULL;
	}
	*copy = *row;
	copy->self = self;
	copy->total = total;
	copy->estimated = translate_estimated(v, row, measures, n_measures);
	if (row->estimated && !copy->estimated) {
		return NULL;
	}
	for (size_t i = 0; i < v->n_measures; i++) {
		for (size_t k = 0; k < n_measures; k++) {
			if (same_measure(&v->measures[i], &measures[k])) {
				self[i] = row->self[k];
				total[i] = row->total[k];
			}
		}
	}
	return copy;
}

/* A row that is gone: with nothing of its own now. */
static struct group *gone_row(struct view *v, const struct group *before)
{
	struct group *row = texts_take(&v->own, sizeof(*row));

	if (!row) {
		return NULL;
	}
	row->labels = before->labels;
	row->self = texts_take(&v->own, v->n_measures * sizeof(*row->self));
	row->total = texts_take(&v->own, v->n_measures * sizeof(*row->total));
	row->timed = texts_take(&v->own, v->n_measures * sizeof(*row->timed));
	return row->self && row->total && row->timed ? row : NULL;
}

static size_t power_of_two(size_t n)
{
	size_t power = 16;

	while (power < n) {
		power *= 2;
	}
	return power;
}

static int join(struct view *v, struct groups *against)
{
	const struct measure *measures;
	size_t n_measures = groups_measures(against, &measures), slot;
	struct group **others, **rows, **slots;
	size_t n_others = groups_rows(against, &others);
	size_t n_slots = power_of_two((v->n_rows + n_others) * 2);
	int result = 0;

	slots = calloc(n_slots, sizeof(struct group *));
	rows = realloc(v->rows, (v->n_rows + n_others + 1) * sizeof(struct group *));
	v->rows = rows ? rows : v->rows;
	if (!slots || !rows) {
		free(slots);
		return -ENOMEM;
	}
	for (size_t i = 0; i < v->n_rows; i++) {
		find_row(slots, n_slots, rows[i], v->keys->n, &slot);
		slots[slot] = rows[i];
	}
	for (size_t i = 0; i < n_others && result == 0; i++) {
		struct group *row = find_row(slots, n_slots, others[i], v->keys->n, &slot);

		if (!row) {
			row = gone_row(v, others[i]);
			rows[v->n_rows] = row;
			v->n_rows += row != NULL;
		}
		if (row) {
			row->before = translate(v, others[i], measures, n_measures);
		}
		result = row && row->before ? 0 : -ENOMEM;
	}
	free(slots);
	return result;
}

static int compare_captures(struct view *v, struct groups *against)
{
	const struct measure *measures;
	size_t n_measures = groups_measures(against, &measures);
	struct group *all = texts_take(&v->own, sizeof(*all));

	if (!all) {
		return -ENOMEM;
	}
	*all = *v->all;
	all->before = translate(v, groups_all(against), measures, n_measures);
	v->all = all;
	v->fields = FIELD_BIT(FIELD_TOTAL) | FIELD_BIT(FIELD_BEFORE) | FIELD_BIT(FIELD_CHANGE);
	v->estimated = v->estimated || (all->before && all->before->estimated);
	if (v->estimated) {
		v->fields |= FIELD_BIT(FIELD_CHANGE_ERROR) | FIELD_BIT(FIELD_DIFFERS);
	}
	return all->before ? join(v, against) : -ENOMEM;
}

/* --- order -------------------------------------------------------------------------------------
 */

static double sort_value(const struct sort *sort, const struct group *row)
{
	const struct view *v = sort->view;
	double value;

	switch (sort->kind) {
	case SORT_CALLS:
		return group_launches(row, v->nested);
	case SORT_DERIVED:
		return derived_value(&v->derived[sort->i], row);
	case SORT_NAME:
		return 0;
	case SORT_MEASURE:
		break;
	}
	value = fields_value(sort->field, &v->measures[sort->i], sort->i, row, v->all);
	return value;
}

/* By how much it became more or less: what matters most comes first. */
static double change_value(const struct sort *sort, const struct group *row)
{
	const struct measure *m = &sort->view->measures[sort->i];
	double now = fields_estimate(m, sort->i, row).value;
	double before = fields_estimate(m, sort->i, row->before).value;

	return fabs((isnan(now) ? 0 : now) - (isnan(before) ? 0 : before));
}

/* More first, what is not known last; equal rows by name, so that the order is the same each time.
 */
static int compare_rows(const void *a, const void *b, void *userdata)
{
	const struct group *x = *(struct group *const *)a, *y = *(struct group *const *)b;
	const struct sort *sort = userdata;
	bool by_change = sort->field == FIELD_CHANGE;
	double left = by_change ? change_value(sort, x) : sort_value(sort, x);
	double right = by_change ? change_value(sort, y) : sort_value(sort, y);

	if (isnan(left) != isnan(right)) {
		return isnan(left) ? 1 : -1;
	}
	if (left != right && !isnan(left)) {
		return left < right ? 1 : -1;
	}
	for (unsigned i = 0; i < sort->view->keys->n; i++) {
		int order = strcmp(x->labels[i], y->labels[i]);

		if (order) {
			return order;
		}
	}
	return 0;
}

/* The whole name, or a part that only one has. */
static bool find_column(const struct view *v, const char *name, struct sort *sort)
{
	size_t found = 0;

	for (size_t i = 0; i < v->n_derived; i++) {
		if (strcmp(v->derived[i].name, name) == 0) {
			sort->kind = SORT_DERIVED;
			sort->i = i;
			return true;
		}
	}
	for (size_t i = 0; i < v->n_measures; i++) {
		if (strcmp(v->measures[i].name, name) == 0) {
			sort->i = i;
			return true;
		}
		if (strstr(v->measures[i].name, name)) {
			sort->i = i;
			found++;
		}
	}
	return found == 1;
}

static bool refuse_column(const struct view *v, const char *name, struct buf *why)
{
	buf_text(why, "no column, or more than one, is called '");
	text_terminal(why, name);
	buf_text(why, "'; there are");
	for (size_t i = 0; i < v->n_measures; i++) {
		buf_text(why, i > 0 ? ", " : " ");
		text_terminal(why, v->measures[i].name);
	}
	for (size_t i = 0; i < v->n_derived; i++) {
		buf_printf(why, ", %s", v->derived[i].name);
	}
	return false;
}

static bool choose_columns(struct view *v, const char *list, struct buf *why)
{
	char *copy = strdup(list ? list : ""), *rest = copy, *word;
	bool ok = copy != NULL;

	for (size_t i = 0; i < v->n_measures + v->n_derived; i++) {
		*(i < v->n_measures ? &v->chosen[i] : &v->chosen_derived[i - v->n_measures]) =
			list == NULL;
	}
	while (list && ok && (word = strsep(&rest, ","))) {
		struct sort found = { .kind = SORT_MEASURE };

		ok = find_column(v, word, &found) || refuse_column(v, word, why);
		if (ok) {
			*(found.kind == SORT_MEASURE ? &v->chosen[found.i]
						     : &v->chosen_derived[found.i]) = true;
		}
	}
	free(copy);
	return ok;
}

static bool parse_field(const struct view *v, const char *text, struct sort *sort, struct buf *why)
{
	for (int i = 0; i < FIELD_END; i++) {
		if (strcmp(text, fields_name((enum field)i, false)) == 0 ||
		    strcmp(text, fields_name((enum field)i, true)) == 0) {
			sort->field = (enum field)i;
			if (sort->kind == SORT_MEASURE &&
			    fields_applies(sort->field, &v->measures[sort->i])) {
				return true;
			}
		}
	}
	buf_text(why, "this column cannot be sorted by '");
	text_terminal(why, text);
	buf_text(why, "'");
	return false;
}

static bool parse_sort(const struct view *v, const char *text, struct sort *sort, struct buf *why)
{
	char name[256];
	const char *colon = strchr(text, ':');
	bool found = true;

	snprintf(name, sizeof(name), "%.*s", (int)(colon ? colon - text : (long)strlen(text)),
		 text);
	if (strcmp(name, "calls") == 0) {
		sort->kind = SORT_CALLS;
	} else if (strcmp(name, "name") == 0) {
		sort->kind = SORT_NAME;
	} else {
		found = find_column(v, name, sort);
	}
	if (!found) {
		refuse_column(v, name, why);
		buf_text(why, ", calls, name");
		return false;
	}
	if (sort->kind == SORT_MEASURE && !v->measures[sort->i].adds_up) {
		sort->field = FIELD_MEAN;
	}
	return !colon || parse_field(v, colon + 1, sort, why);
}

/* --- selection ---------------------------------------------------------------------------------
 */

static bool is_zero(const struct view *v, const struct group *row)
{
	for (size_t i = 0; i < v->n_measures; i++) {
		if (i != MEASURE_TIME && (row->self[i].min != 0 || row->self[i].max != 0)) {
			return false;
		}
	}
	return v->n_measures > 1 || row->calls == 0;
}

static void skip_zero(struct view *v)
{
	size_t n = 0;

	for (size_t i = 0; i < v->n_rows; i++) {
		if (!is_zero(v, v->rows[i])) {
			v->rows[n++] = v->rows[i];
		}
	}
	v->n_zero = v->n_rows - n;
	v->n_rows = n;
}

/* Figures that would show nothing are left out. */
static void choose_fields(struct view *v)
{
	if (!v->nested && !(v->fields & FIELD_BIT(FIELD_BEFORE))) {
		v->fields |= v->fields & FIELD_BIT(FIELD_TOTAL) ? FIELD_BIT(FIELD_SUM) : 0;
		v->fields &= ~FIELD_BIT(FIELD_TOTAL);
	}
	if (!v->estimated) {
		v->fields &= ~FIELD_BIT(FIELD_ERROR);
	}
}

static int begin(struct view *v, struct groups *groups, const struct view_options *o,
		 struct buf *why)
{
	struct group **rows;
	int r;

	*v = (struct view){ .keys = groups_keys(groups),
			    .fields = FIELDS_USUAL,
			    .base_units = o->base_units,
			    .utf8 = o->utf8,
			    .turns = groups_take_turns(groups),
			    .all = groups_all(groups) };
	v->nested = v->keys->nested >= 0;
	v->n_measures = groups_measures(groups, &v->measures);
	v->n_derived = derived_find(v->measures, v->n_measures, v->derived);
	if (o->define.path) {
		r = define_columns(&o->define, v->measures, v->n_measures, &v->own, v->derived,
				   &v->n_derived, why);
		if (r) {
			return r;
		}
	}
	v->n_rows = groups_rows(groups, &rows);
	v->rows = calloc(v->n_rows + 1, sizeof(struct group *));
	v->chosen = calloc(v->n_measures, sizeof(*v->chosen));
	if (!v->rows || !v->chosen) {
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
	v->estimated = v->all->estimated != NULL;
	/* An estimate is never told without its error. */
	v->fields |= v->estimated ? FIELD_BIT(FIELD_ERROR) : 0;
	return 0;
}

/* Parts of the largest. What is not known, or below 0, has none, nor has a comparison. */
static int measure_bars(struct view *v, const struct sort *sort)
{
	double largest = 0;

	v->bars_of = sort->kind == SORT_CALLS	  ? "launches"
		     : sort->kind == SORT_DERIVED ? v->derived[sort->i].name
						  : v->measures[sort->i].name;
	v->bars = calloc(v->n_shown + 1, sizeof(*v->bars));
	if (!v->bars) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < v->n_shown; i++) {
		double value = sort_value(sort, v->rows[i]);

		v->bars[i] = isfinite(value) && value > 0 ? value : 0;
		largest = v->bars[i] > largest ? v->bars[i] : largest;
	}
	for (size_t i = 0; i < v->n_shown && largest > 0; i++) {
		v->bars[i] /= largest;
	}
	return 0;
}

/* Time where there is one. */
static size_t first_measure(const struct view *v)
{
	return v->all->self[MEASURE_TIME].n == 0 && v->n_measures > 1 ? 1 : MEASURE_TIME;
}

int view_init(struct view *v, struct groups *groups, const struct view_options *o, struct buf *why)
{
	struct sort sort = { .kind = SORT_MEASURE, .field = FIELD_TOTAL, .view = v };
	int r = begin(v, groups, o, why);

	if (r == 0 && o->against) {
		r = compare_captures(v, o->against);
		sort.field = FIELD_CHANGE;
	}
	sort.i = first_measure(v);
	sort.field = v->measures[sort.i].adds_up || o->against ? sort.field : FIELD_MEAN;
	if (r == 0 && o->sort) {
		sort.field = FIELD_TOTAL;
		r = parse_sort(v, o->sort, &sort, why) ? 0 : -EINVAL;
	}
	if (r) {
		view_deinit(v);
		return r;
	}
	choose_fields(v);
	if (o->skip_zero) {
		skip_zero(v);
	}
	if (v->n_rows > 1) {
		qsort_r(v->rows, v->n_rows, sizeof(struct group *), compare_rows, &sort);
	}
	v->n_shown = o->limit && o->limit < v->n_rows ? o->limit : v->n_rows;
	if (o->bars && !o->against && sort.kind != SORT_NAME) {
		r = measure_bars(v, &sort);
	}
	if (r) {
		view_deinit(v);
	}
	return r;
}

void view_deinit(struct view *v)
{
	free(v->rows);
	free(v->chosen);
	free(v->bars);
	texts_deinit(&v->own);
	memset(v, 0, sizeof(*v));
}
