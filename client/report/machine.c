/* SPDX-License-Identifier: Apache-2.0 */

/* Writes CSV and JSON. An unknown value is an empty field, or null. In a budget's capture each
 * value has its kind and its error, and the number of launches has an error. */

#include "client/report/machine.h"

#include <string.h>

#include "client/cli/text.h"
#include "client/report/estimated.h"
#include "proto/base/clean.h"

static bool is_told(const struct view *v, enum field field, size_t i)
{
	const struct measure *m = &v->measures[i];
	bool compares = v->all->before != NULL;

	if (!v->chosen[i]) {
		return false;
	}
	if (fields_is_of_errors(field) && !v->estimated) {
		return false;
	}
	if (field >= FIELD_BEFORE && !compares) {
		return false;
	}
	return fields_applies(field, m) && (field != FIELD_TOTAL || v->nested || compares);
}

/* --- CSV ------------------------------------------------------------------------------------- */

/* CSV has the number of launches of which a measure is known if these are not all. JSON always has
 * it. */
static bool n_is_told(const struct view *v, size_t i)
{
	return v->chosen[i] && !v->estimated && v->all->self[i].n != v->all->calls;
}

/* Whether CSV and JSON have this field of a derived column, beside its value. */
static bool derived_is_told(const struct view *v, enum field field)
{
	return v->all->before && field >= FIELD_BEFORE && field <= FIELD_DIFFERS &&
	       (v->estimated || !fields_is_of_errors(field));
}

/* Launches of strata with one measured launch are in the value and not in its error. Launches of
 * strata with none are in neither (unknown_of()). */
static uint64_t once_of(const struct group *row, size_t i)
{
	return row->estimated ? row->estimated->total[i].once : 0;
}

static uint64_t unknown_of(const struct group *row, size_t i)
{
	return row->estimated ? row->estimated->total[i].unknown : 0;
}

/* A name may hold a comma. */
static void add_estimate_heads(const char *name, struct buf *b)
{
	static const char *const heads[] = { ":kind", ":without_error", ":unknown" };

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		buf_char(b, ',');
		text_csv(b, name);
		buf_text(b, heads[i]);
	}
}

static void add_heads(const struct view *v, struct buf *b)
{
	for (unsigned i = 0; i < v->keys->n; i++) {
		buf_printf(b, "%s,", keys_name(v->keys->keys[i]));
	}
	buf_text(b, v->nested ? "launches,total_launches" : "launches");
	if (v->all->before) {
		buf_text(b,
			 v->nested ? ",launches_before,total_launches_before" : ",launches_before");
	}
	buf_text(b, v->estimated ? ",launches_error" : "");
	buf_text(b, v->estimated && v->nested ? ",total_launches_error" : "");
	buf_text(b, v->estimated ? ",measured" : "");
	for (size_t i = 0; i < v->n_measures; i++) {
		for (int f = 0; f < FIELD_END; f++) {
			struct buf name = { 0 };

			if (is_told(v, (enum field)f, i)) {
				buf_printf(&name, "%s:%s", v->measures[i].name,
					   fields_name((enum field)f, false));
				buf_char(b, ',');
				text_csv(b, buf_string(&name));
			}
			buf_deinit(&name);
		}
		if (v->estimated && v->chosen[i]) {
			add_estimate_heads(v->measures[i].name, b);
		}
		if (n_is_told(v, i)) {
			buf_char(b, ',');
			text_csv(b, v->measures[i].name);
			buf_text(b, ":n");
		}
	}
	for (size_t i = 0; i < v->n_derived; i++) {
		if (v->chosen_derived[i]) {
			buf_printf(b, ",%s", v->derived[i].name);
			if (v->estimated) {
				buf_printf(b, ",%s:error", v->derived[i].name);
			}
			if (v->turns) {
				buf_printf(b, ",%s:joined", v->derived[i].name);
			}
			for (int f = FIELD_BEFORE; f < FIELD_END; f++) {
				if (derived_is_told(v, (enum field)f)) {
					buf_printf(b, ",%s:%s", v->derived[i].name,
						   fields_name((enum field)f, false));
				}
			}
		}
	}
	buf_char(b, '\n');
}

static void add_number(struct buf *b, double value, const char *unknown)
{
	if (isfinite(value)) {
		buf_double(b, value);
	} else {
		buf_text(b, unknown);
	}
}

static uint64_t launches_of(const struct group *row, bool total)
{
	return !row ? 0 : (uint64_t)(group_launches(row, total) + 0.5);
}

static uint64_t measured_of(const struct group *row)
{
	return row->estimated ? row->estimated->measured : row->calls;
}

static const char *kind_of(const struct view *v, const struct group *row, size_t i)
{
	return estimated_kind_name(fields_estimate(&v->measures[i], i, row).kind);
}

/* 0 if all launches were measured; NaN if the sum lacks launches. */
static double derived_error(const struct derived *d, const struct group *row)
{
	return !row->estimated		     ? 0
	       : derived_unknown(d, row) > 0 ? NAN
					     : derived_estimate(d, row).error;
}

static void add_row(const struct view *v, const struct group *row, struct buf *b)
{
	for (unsigned i = 0; i < v->keys->n; i++) {
		text_csv(b, row->labels[i]);
		buf_char(b, ',');
	}
	buf_u64(b, launches_of(row, false));
	if (v->nested) {
		buf_char(b, ',');
		buf_u64(b, launches_of(row, true));
	}
	if (v->all->before) {
		buf_char(b, ',');
		buf_u64(b, launches_of(row->before, false));
	}
	if (v->all->before && v->nested) {
		buf_char(b, ',');
		buf_u64(b, launches_of(row->before, true));
	}
	if (v->estimated) {
		buf_char(b, ',');
		add_number(b, group_launches_error(row, false), "");
		buf_char(b, ',');
		if (v->nested) {
			add_number(b, group_launches_error(row, true), "");
			buf_char(b, ',');
		}
		buf_u64(b, measured_of(row));
	}
	for (size_t i = 0; i < v->n_measures; i++) {
		for (int f = 0; f < FIELD_END; f++) {
			if (is_told(v, (enum field)f, i)) {
				buf_char(b, ',');
				add_number(b,
					   fields_value((enum field)f, &v->measures[i], i, row,
							v->all),
					   "");
			}
		}
		if (v->estimated && v->chosen[i]) {
			buf_printf(b, ",%s,%llu,%llu", kind_of(v, row, i),
				   (unsigned long long)once_of(row, i),
				   (unsigned long long)unknown_of(row, i));
		}
		if (n_is_told(v, i)) {
			buf_char(b, ',');
			buf_u64(b, row->self[i].n);
		}
	}
	for (size_t i = 0; i < v->n_derived; i++) {
		if (v->chosen_derived[i]) {
			buf_char(b, ',');
			add_number(b, derived_value(&v->derived[i], row), "");
			if (v->estimated) {
				buf_char(b, ',');
				add_number(b, derived_error(&v->derived[i], row), "");
			}
			if (v->turns) {
				buf_text(b, derived_is_joined(&v->derived[i], row) ? ",1" : ",0");
			}
			for (int f = FIELD_BEFORE; f < FIELD_END; f++) {
				if (derived_is_told(v, (enum field)f)) {
					buf_char(b, ',');
					add_number(b,
						   derived_compare(&v->derived[i], (enum field)f,
								   row),
						   "");
				}
			}
		}
	}
	buf_char(b, '\n');
}

void machine_csv(const struct view *v, struct buf *b)
{
	add_heads(v, b);
	for (size_t i = 0; i < v->n_shown; i++) {
		add_row(v, v->rows[i], b);
	}
}

/* --- JSON ------------------------------------------------------------------------------------ */

static void add_object(const struct view *v, const struct group *row, struct buf *b)
{
	const char *separator = "";

	buf_text(b, "\"launches\":");
	buf_u64(b, launches_of(row, false));
	buf_text(b, ",\"total_launches\":");
	buf_u64(b, launches_of(row, true));
	if (v->all->before) {
		buf_text(b, ",\"launches_before\":");
		buf_u64(b, launches_of(row->before, false));
		buf_text(b, ",\"total_launches_before\":");
		buf_u64(b, launches_of(row->before, true));
	}
	if (v->estimated) {
		buf_text(b, ",\"launches_error\":");
		add_number(b, group_launches_error(row, false), "null");
		buf_text(b, ",\"total_launches_error\":");
		add_number(b, group_launches_error(row, true), "null");
		buf_text(b, ",\"measured\":");
		buf_u64(b, measured_of(row));
	}
	buf_text(b, ",\"measures\":{");
	for (size_t i = 0; i < v->n_measures; i++) {
		if (!v->chosen[i]) {
			continue;
		}
		buf_text(b, separator);
		separator = ",";
		text_json(b, v->measures[i].name);
		buf_text(b, ":{\"n\":");
		buf_u64(b, row->self[i].n);
		if (v->estimated) {
			buf_printf(b, ",\"kind\":\"%s\",\"without_error\":%llu,\"unknown\":%llu",
				   kind_of(v, row, i), (unsigned long long)once_of(row, i),
				   (unsigned long long)unknown_of(row, i));
		}
		for (int f = 0; f < FIELD_END; f++) {
			if (is_told(v, (enum field)f, i)) {
				buf_printf(b, ",\"%s\":", fields_name((enum field)f, false));
				add_number(b,
					   fields_value((enum field)f, &v->measures[i], i, row,
							v->all),
					   "null");
			}
		}
		buf_char(b, '}');
	}
	buf_text(b, "},\"derived\":{");
	separator = "";
	for (size_t i = 0; i < v->n_derived; i++) {
		if (!v->chosen_derived[i]) {
			continue;
		}
		buf_printf(b, "%s\"%s\":", separator, v->derived[i].name);
		separator = ",";
		add_number(b, derived_value(&v->derived[i], row), "null");
		if (v->estimated) {
			buf_printf(b, ",\"%s:error\":", v->derived[i].name);
			add_number(b, derived_error(&v->derived[i], row), "null");
		}
		if (v->turns) {
			buf_printf(b, ",\"%s:joined\":%s", v->derived[i].name,
				   derived_is_joined(&v->derived[i], row) ? "true" : "false");
		}
		for (int f = FIELD_BEFORE; f < FIELD_END; f++) {
			if (derived_is_told(v, (enum field)f)) {
				buf_printf(b, ",\"%s:%s\":", v->derived[i].name,
					   fields_name((enum field)f, false));
				add_number(b, derived_compare(&v->derived[i], (enum field)f, row),
					   "null");
			}
		}
	}
	buf_char(b, '}');
}

static void add_list(struct buf *b, const char *const *texts, size_t n)
{
	buf_char(b, '[');
	for (size_t i = 0; i < n; i++) {
		buf_text(b, i > 0 ? "," : "");
		text_json(b, texts[i]);
	}
	buf_char(b, ']');
}

static void add_columns(const struct view *v, struct buf *b)
{
	const char *separator = "";

	buf_text(b, ",\n\"columns\":[");
	for (size_t i = 0; i < v->n_measures; i++) {
		if (!v->chosen[i]) {
			continue;
		}
		buf_printf(b, "%s{\"name\":", separator);
		separator = ",";
		text_json(b, v->measures[i].name);
		buf_text(b, ",\"unit\":");
		text_json(b, v->measures[i].unit);
		buf_printf(b, ",\"adds_up\":%s,\"of_range\":%s}",
			   v->measures[i].adds_up ? "true" : "false",
			   v->measures[i].of_range ? "true" : "false");
	}
	for (size_t i = 0; i < v->n_derived; i++) {
		if (v->chosen_derived[i]) {
			buf_printf(b, "%s{\"name\":\"%s\",\"unit\":\"%s\",\"derived\":true}",
				   separator, v->derived[i].name, v->derived[i].unit);
			separator = ",";
		}
	}
	buf_char(b, ']');
}

static void add_keyed_row(const struct view *v, const struct group *row, struct buf *b)
{
	buf_text(b, "{\"key\":{");
	for (unsigned k = 0; k < v->keys->n; k++) {
		buf_printf(b, "%s\"%s\":", k > 0 ? "," : "", keys_name(v->keys->keys[k]));
		if (*row->labels[k]) {
			text_json(b, row->labels[k]);
		} else {
			buf_text(b, "null");
		}
	}
	buf_text(b, "},");
	add_object(v, row, b);
	buf_char(b, '}');
}

void machine_json(const struct view *v, const struct machine_source *source, struct buf *b)
{
	const char *keys[KEYS_MAX];

	for (unsigned i = 0; i < v->keys->n; i++) {
		keys[i] = keys_name(v->keys->keys[i]);
	}
	buf_text(b, "{\"captures\":");
	add_list(b, source->captures, source->n_captures);
	buf_text(b, ",\"recorded_from\":");
	text_json(b, source->recorded_from);
	buf_printf(b, ",\"complete\":%s,\"records\":%llu,\"rows_left_out\":%zu",
		   source->complete ? "true" : "false", (unsigned long long)source->records,
		   v->n_rows - v->n_shown + v->n_zero);
	if (v->estimated) {
		buf_text(b, ",\"estimated\":true,\"seeds\":");
		add_list(b, source->seeds, source->n_seeds);
	}
	if (v->all->before) {
		buf_printf(b, ",\"clocks_differ\":%s", v->clocks_differ ? "true" : "false");
	}
	buf_text(b, ",\"by\":");
	add_list(b, keys, v->keys->n);
	add_columns(v, b);
	buf_text(b, ",\n\"all\":{");
	add_object(v, v->all, b);
	buf_text(b, "},\n\"rows\":[");
	for (size_t i = 0; i < v->n_shown; i++) {
		buf_text(b, i > 0 ? ",\n" : "\n");
		add_keyed_row(v, v->rows[i], b);
	}
	buf_text(b, "\n]}\n");
}
