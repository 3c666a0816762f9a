/* SPDX-License-Identifier: Apache-2.0 */

/* Writes CSV and JSON. An unknown value is an empty field, or null. */

#include "client/report/machine.h"

#include <math.h>
#include <string.h>

#include "client/cli/text.h"
#include "proto/base/json.h"

/* Do CSV and JSON have this field of a column? Only sampled values have errors. */
static bool is_told(const struct view *v, enum field field, const struct view_column *c)
{
	bool compares = v->all->before != NULL, is_time = c->measure && c->i == MEASURE_TIME;

	if (fields_is_of_errors(field) && (!v->sampled || is_time)) {
		return false;
	}
	if (field >= FIELD_BEFORE && !compares) {
		return false;
	}
	if (!c->measure) {
		return field == FIELD_ERROR || (field >= FIELD_BEFORE && field <= FIELD_DIFFERS);
	}
	/* FIELD_N is left to put_measure(), which always writes it. */
	return field != FIELD_N && !(field == FIELD_ERROR && v->sampled && compares) &&
	       fields_applies(field, c->measure) && (field != FIELD_TOTAL || v->nested || compares);
}

/* --- figures of a row ------------------------------------------------------------------------ */

static uint64_t launches_of(const struct group *row, bool total)
{
	return !row ? 0 : total ? row->total_calls : row->calls;
}

/* Takes the figures of a row one by one, in one order for CSV's heads and values and for JSON. */
struct figures {
	const struct view *v;
	const struct group *row; /* NULL: heads are written */
	struct buf *b;
	struct json *json; /* NULL: CSV */
	const char *of;	   /* the measure or derived column; NULL: the row itself */
};

/* Writes "of:name" in CSV, or "name" in the measure's JSON object. True: the value must follow. */
static bool begin_figure(struct figures *f, const char *name, bool of_object)
{
	CLEAN_BUF struct buf head = { 0 };

	if (f->json && (of_object || !f->of)) {
		json_key(f->json, name);
		return true;
	}
	buf_printf(&head, "%s%s%s", f->of ? f->of : "", f->of && *name ? ":" : "", name);
	if (f->json) {
		json_key_text(f->json, buf_string(&head));
	} else {
		buf_char(f->b, ',');
		if (!f->row) {
			text_csv(f->b, buf_string(&head));
		}
	}
	f->b->failed |= head.failed;
	return f->json || f->row;
}

static void put_u64(struct figures *f, const char *name, bool of_object, uint64_t value)
{
	if (begin_figure(f, name, of_object)) {
		buf_u64(f->b, value);
	}
}

static void put_number(struct figures *f, const char *name, bool of_object, double value)
{
	if (!begin_figure(f, name, of_object)) {
		return;
	}
	if (isfinite(value)) {
		buf_double(f->b, value);
	} else {
		buf_text(f->b, f->json ? "null" : "");
	}
}

/* JSON always has totals; CSV has them if rows nest. */
static void put_launches(struct figures *f)
{
	const struct view *v = f->v;
	const struct group *row = f->row ? f->row : v->all;
	bool total = f->json || v->nested;

	put_u64(f, "launches", true, launches_of(row, false));
	if (total) {
		put_u64(f, "total_launches", true, launches_of(row, true));
	}
	if (v->all->before) {
		put_u64(f, "launches_before", true, launches_of(row->before, false));
	}
	if (v->all->before && total) {
		put_u64(f, "total_launches_before", true, launches_of(row->before, true));
	}
}

static void put_measure(struct figures *f, const struct view_column *c)
{
	const struct view *v = f->v;
	const struct group *row = f->row ? f->row : v->all;

	for (int k = 0; k < FIELD_END; k++) {
		if (is_told(v, (enum field)k, c)) {
			put_number(f, fields_name((enum field)k, false), true,
				   view_value(v, c, (enum field)k, row));
		}
	}
	/* CSV has the number of launches with a known value only if some launch has none. */
	if (f->json || v->all->self[c->i].n != v->all->calls) {
		put_u64(f, "n", true, row->self[c->i].n);
	}
	/* If metrics take turns, n is small; "unknown" counts launches that the sum lacks. */
	if (groups_take_turns(v->groups)) {
		put_u64(f, "unknown", true, row->calls - row->own[c->i].n);
	}
}

static void put_derived(struct figures *f, const struct view_column *c)
{
	const struct view *v = f->v;
	const struct group *row = f->row ? f->row : v->all;

	put_number(f, "", false, view_value(v, c, FIELD_TOTAL, row));
	if (f->json && v->sampled) {
		put_u64(f, "unsampled", false, derived_unsampled(c->derived, row));
	}
	for (int k = FIELD_ERROR; k < FIELD_END; k++) {
		if (is_told(v, (enum field)k, c)) {
			put_number(f, fields_name((enum field)k, false), false,
				   view_value(v, c, (enum field)k, row));
		}
	}
}

static void begin_object(struct figures *f, const char *name, bool quoted)
{
	if (f->json && quoted) {
		json_key_text(f->json, name);
		f->json->some = false;
		json_begin(f->json, NULL, '{');
	} else if (f->json) {
		json_begin(f->json, name, '{');
	}
}

static void end_object(struct figures *f)
{
	if (f->json) {
		json_end(f->json, '}');
	}
}

static void put_figures(struct figures *f)
{
	const struct view *v = f->v;

	put_launches(f);
	begin_object(f, "measures", false);
	for (size_t i = 0; i < v->n_measures; i++) {
		f->of = v->columns[i].name;
		if (v->columns[i].chosen) {
			begin_object(f, f->of, true);
			put_measure(f, &v->columns[i]);
			end_object(f);
		}
	}
	end_object(f);
	begin_object(f, "derived", false);
	for (size_t i = v->n_measures; i < v->n_columns; i++) {
		f->of = v->columns[i].name;
		if (v->columns[i].chosen) {
			put_derived(f, &v->columns[i]);
		}
	}
	end_object(f);
}

/* --- CSV ------------------------------------------------------------------------------------- */

/* Adds a row, or the heads if row is NULL. */
static void add_line(const struct view *v, const struct group *row, struct buf *b)
{
	struct figures f = { .v = v, .row = row, .b = b };

	for (unsigned i = 0; i < v->keys->n; i++) {
		buf_text(b, i > 0 ? "," : "");
		text_csv(b, row ? row->labels[i] : keys_name(v->keys->keys[i]));
	}
	put_figures(&f);
	buf_char(b, '\n');
}

void machine_csv(const struct view *v, struct buf *b)
{
	add_line(v, NULL, b);
	for (size_t i = 0; i < v->n_shown; i++) {
		add_line(v, v->rows[i], b);
	}
}

/* --- JSON ------------------------------------------------------------------------------------ */

static void add_row(const struct view *v, const struct group *row, struct json *m)
{
	struct figures f = { .v = v, .row = row, .b = m->b, .json = m };

	put_figures(&f);
}

static void add_columns(const struct view *v, struct json *m)
{
	json_begin(m, "columns", '[');
	for (size_t i = 0; i < v->n_columns; i++) {
		const struct view_column *c = &v->columns[i];

		if (!c->chosen) {
			continue;
		}
		json_begin(m, NULL, '{');
		json_text(m, "name", c->name);
		json_text(m, "unit", c->unit);
		if (c->measure) {
			json_bool(m, "adds_up", c->measure->adds_up);
			json_bool(m, "of_range", c->measure->of_range);
		} else {
			json_bool(m, "derived", true);
			if (c->derived->joined) {
				json_bool(m, "joined", true);
			}
		}
		json_end(m, '}');
	}
	json_end(m, ']');
}

static void add_keyed_row(const struct view *v, const struct group *row, struct json *m)
{
	json_begin(m, NULL, '{');
	json_begin(m, "key", '{');
	for (unsigned k = 0; k < v->keys->n; k++) {
		json_text_or_null(m, keys_name(v->keys->keys[k]), row->labels[k]);
	}
	json_end(m, '}');
	add_row(v, row, m);
	json_end(m, '}');
}

void machine_members(const struct view *v, const struct machine_source *source, struct json *m)
{
	json_texts(m, "captures", source->captures, source->n_captures);
	json_text(m, "recorded_from", source->recorded_from);
	json_bool(m, "complete", source->complete);
	json_u64(m, "records", source->records);
	json_u64(m, "rows_left_out", v->n_rows - v->n_shown + v->n_zero);
	if (v->sampled) {
		json_bool(m, "sampled", true);
	}
	if (groups_take_turns(v->groups)) {
		json_bool(m, "turns", true);
	}
	if (v->all->before) {
		json_bool(m, "clocks_differ", v->clocks_differ);
	}
	json_begin(m, "by", '[');
	for (unsigned i = 0; i < v->keys->n; i++) {
		json_word(m, NULL, keys_name(v->keys->keys[i]));
	}
	json_end(m, ']');
	add_columns(v, m);
	json_begin(m, "all", '{');
	add_row(v, v->all, m);
	json_end(m, '}');
	json_begin(m, "rows", '[');
	for (size_t i = 0; i < v->n_shown; i++) {
		buf_char(m->b, '\n');
		add_keyed_row(v, v->rows[i], m);
	}
	buf_char(m->b, '\n');
	json_end(m, ']');
}

void machine_json(const struct view *v, const struct machine_source *source, struct buf *b)
{
	struct json m = { b };

	json_begin(&m, NULL, '{');
	machine_members(v, source, &m);
	if (source->timelines->n > 0) {
		json_begin(&m, "timeline", '[');
		json_add(&m, source->timelines);
		json_end(&m, ']');
	}
	json_end(&m, '}');
	buf_char(b, '\n');
}
