/* SPDX-License-Identifier: Apache-2.0 */

/* Records and strata come in any order, and a stratum's count may come after its records: both find
 * the stratum by (process, number), and what is known of it is put together when it is asked for.
 * Counts are exact; values are sums of what was measured and of what is estimated for the others
 * (client/estimate), and every one of them is shown with its standard error, or with why it has
 * none. */

#include "client/cli/estimates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"

struct stratum {
	unsigned process, id; /* id 0: the slot is free */
	char *kernel;	      /* "" until it is told, and of several */
	uint64_t seen, measured;
	bool told;			 /* of seen */
	struct estimate_sample *samples; /* by column */
};

struct estimates {
	char **names, **units;
	bool *adds_up;
	size_t n_columns;
	struct stratum *slots; /* open addressing, a power of two */
	size_t n_slots, n_strata;
	struct estimates_row *rows;
	size_t n_rows;
};

enum { NAME_MIN = 16, FIELDS_WIDTH = 64 };

/* --- life --------------------------------------------------------------------------------------
 */

static bool ends_with_sum(const char *name)
{
	size_t n = strlen(name);

	return !strchr(name, '.') || (n > 4 && strcmp(name + n - 4, ".sum") == 0);
}

static bool take_columns(struct estimates *e, const struct gpuctr_plan *plan)
{
	size_t n = plan->n_columns;

	e->names = calloc(n + 1, sizeof(*e->names));
	e->units = calloc(n + 1, sizeof(*e->units));
	e->adds_up = calloc(n + 1, sizeof(*e->adds_up));
	for (size_t i = 0; e->names && e->units && e->adds_up && i < n; i++) {
		e->n_columns = i + 1;
		e->names[i] = strdup(plan->columns[i].name);
		e->units[i] = strdup(plan->columns[i].unit ? plan->columns[i].unit : "");
		e->adds_up[i] = ends_with_sum(plan->columns[i].name);
		if (!e->names[i] || !e->units[i]) {
			return false;
		}
	}
	return e->names && e->units && e->adds_up;
}

struct estimates *estimates_new(const struct gpuctr_plan *plan)
{
	struct estimates *e = calloc(1, sizeof(*e));

	if (e) {
		e->n_slots = 64;
		e->slots = calloc(e->n_slots, sizeof(*e->slots));
	}
	if (e && (!e->slots || !take_columns(e, plan))) {
		return estimates_free(e);
	}
	return e;
}

static void free_rows(struct estimates *e)
{
	for (size_t i = 0; i < e->n_rows; i++) {
		free(e->rows[i].columns);
	}
	free(e->rows);
	e->rows = NULL;
	e->n_rows = 0;
}

struct estimates *estimates_free(struct estimates *e)
{
	if (!e) {
		return NULL;
	}
	free_rows(e);
	for (size_t i = 0; e->slots && i < e->n_slots; i++) {
		free(e->slots[i].kernel);
		free(e->slots[i].samples);
	}
	for (size_t i = 0; i < e->n_columns; i++) {
		free(e->names[i]);
		free(e->units[i]);
	}
	free(e->slots);
	free(e->names);
	free(e->units);
	free(e->adds_up);
	free(e);
	return NULL;
}

/* --- strata ------------------------------------------------------------------------------------
 */

static struct stratum *find_slot(struct stratum *slots, size_t n_slots, unsigned process,
				 unsigned id)
{
	uint64_t hash = (uint64_t)process * UINT64_C(0x9e3779b97f4a7c15) + id;
	size_t i = (size_t)((hash ^ hash >> 32) * UINT64_C(0xbf58476d1ce4e5b9) >> 32);

	for (i &= n_slots - 1; slots[i].id != 0; i = (i + 1) & (n_slots - 1)) {
		if (slots[i].process == process && slots[i].id == id) {
			break;
		}
	}
	return &slots[i];
}

static bool grow(struct estimates *e)
{
	struct stratum *slots;

	if (2 * (e->n_strata + 1) <= e->n_slots) {
		return true;
	}
	slots = calloc(2 * e->n_slots, sizeof(*slots));
	if (!slots) {
		return false;
	}
	for (size_t i = 0; i < e->n_slots; i++) {
		const struct stratum *s = &e->slots[i];

		if (s->id != 0) {
			*find_slot(slots, 2 * e->n_slots, s->process, s->id) = *s;
		}
	}
	free(e->slots);
	e->slots = slots;
	e->n_slots *= 2;
	return true;
}

static struct stratum *find(struct estimates *e, unsigned process, unsigned id)
{
	struct stratum *s = find_slot(e->slots, e->n_slots, process, id), fresh;

	if (s->id != 0) {
		return s;
	}
	fresh = (struct stratum){ .process = process, .id = id, .kernel = strdup("") };
	fresh.samples = calloc(e->n_columns + 1, sizeof(*fresh.samples));
	if (!fresh.kernel || !fresh.samples || !grow(e)) {
		free(fresh.kernel);
		free(fresh.samples);
		return NULL;
	}
	s = find_slot(e->slots, e->n_slots, process, id);
	*s = fresh;
	e->n_strata++;
	return s;
}

static void name_stratum(struct stratum *s, const struct gpuctr_kernel *kernel)
{
	char *name = kernel && !s->kernel[0] ? strdup(kernel->name) : NULL;

	if (name) {
		free(s->kernel);
		s->kernel = name;
	}
}

void estimates_stratum(struct estimates *e, const struct gpuctr_stratum *stratum)
{
	struct stratum *s = find(e, stratum->process, stratum->id);

	if (s) {
		name_stratum(s, stratum->kernel);
		s->seen = stratum->seen;
		s->told = true;
	}
}

void estimates_record(struct estimates *e, const struct gpuctr_record *record)
{
	struct stratum *s = record->stratum != 0 ? find(e, record->process, record->stratum) : NULL;

	if (!s) {
		return;
	}
	s->measured++;
	for (size_t i = 0; i < e->n_columns; i++) {
		if (isfinite(record->values[i])) {
			estimate_add(&s->samples[i], record->values[i], 0, record->chance);
		}
	}
}

bool estimates_any(const struct estimates *e)
{
	return e && e->n_strata > 0;
}

/* --- rows --------------------------------------------------------------------------------------
 */

/* A process that died has not told of its last second, or of a stratum at all: of that there were
 * more launches than were measured, for all that is known, so it is not told as exact. */
static uint64_t seen_of(const struct stratum *s)
{
	if (!s->told) {
		return s->measured + 1;
	}
	return s->seen > s->measured ? s->seen : s->measured;
}

static struct estimates_row *new_row(struct estimates *e, const char *kernel)
{
	e->rows[e->n_rows].kernel = kernel;
	e->rows[e->n_rows].columns = calloc(e->n_columns + 1, sizeof(struct estimate_total));
	return e->rows[e->n_rows].columns ? &e->rows[e->n_rows++] : NULL;
}

/* More first; equal ones by name, so that the table is the same each time. */
static int compare_rows(const void *a, const void *b)
{
	const struct estimates_row *x = a, *y = b;
	double left = x->columns[0].value[0], right = y->columns[0].value[0];

	if (left != right) {
		return left < right ? 1 : -1;
	}
	return strcmp(x->kernel, y->kernel);
}

static int compare_strata(const void *a, const void *b)
{
	return strcmp((*(const struct stratum *const *)a)->kernel,
		      (*(const struct stratum *const *)b)->kernel);
}

static void add_stratum(struct estimates *e, const struct stratum *s)
{
	struct estimates_row *last = e->n_rows > 0 ? &e->rows[e->n_rows - 1] : NULL;

	/* They come sorted by kernel. */
	if (!last || strcmp(last->kernel, s->kernel) != 0) {
		last = new_row(e, s->kernel);
	}
	for (size_t i = 0; last && i < e->n_columns; i++) {
		const struct estimate_pair pair = estimate_pair(&s->samples[i], seen_of(s));

		estimate_total_add(&last->columns[i], &pair);
	}
}

const struct estimates_row *estimates_rows(struct estimates *e, size_t *ret_n)
{
	const struct stratum **sorted = calloc(e->n_strata + 1, sizeof(*sorted));
	size_t n = 0;

	free_rows(e);
	e->rows = calloc(e->n_strata + 1, sizeof(*e->rows));
	for (size_t i = 0; sorted && i < e->n_slots; i++) {
		if (e->slots[i].id != 0) {
			sorted[n++] = &e->slots[i];
		}
	}
	if (sorted && e->rows) {
		qsort(sorted, n, sizeof(*sorted), compare_strata);
		for (size_t i = 0; i < n; i++) {
			add_stratum(e, sorted[i]);
		}
		qsort(e->rows, e->n_rows, sizeof(*e->rows), compare_rows);
	}
	free(sorted);
	*ret_n = e->n_rows;
	return e->rows;
}

bool estimates_adds_up(const struct estimates *e, size_t column)
{
	return e->adds_up[column];
}

struct estimate estimates_of(const struct estimates *e, const struct estimates_row *row,
			     size_t column)
{
	const struct estimate_total *t = &row->columns[column];

	return e->adds_up[column] ? estimate_total_of(t, 0) : estimate_total_mean(t, 0);
}

const char *estimates_kind_to_string(enum estimate_kind kind)
{
	static const char *const names[] = {
		[ESTIMATE_NONE] = "none",
		[ESTIMATE_ONCE] = "once",
		[ESTIMATE_GUESS] = "estimate",
		[ESTIMATE_EXACT] = "exact",
	};

	return names[kind];
}

/* --- the tables --------------------------------------------------------------------------------
 */

static void add_field(struct buf *b, struct buf *field, size_t width)
{
	size_t has = field->n ? text_width(field->data, field->n) : 0;

	for (; has < width; has++) {
		buf_char(b, ' ');
	}
	buf_add(b, field->data, field->n);
	buf_clear(field);
}

static void add_error(struct buf *field, const struct estimate *x)
{
	if (x->kind == ESTIMATE_EXACT) {
		buf_text(field, "exact");
	} else if (x->kind == ESTIMATE_ONCE) {
		buf_text(field, "measured once");
	} else if (x->kind == ESTIMATE_NONE) {
		buf_text(field, "-");
	} else if (x->value != 0) {
		buf_printf(field, "+-%.2g %%", 100 * x->error / fabs(x->value));
	} else {
		buf_printf(field, "+-%.2g", x->error);
	}
}

static void add_row(const struct estimates *e, const struct estimates_row *row, size_t column,
		    size_t name_width, struct buf *b)
{
	const struct estimate x = estimates_of(e, row, column);
	size_t start = b->n;
	struct buf field = { 0 };

	text_kernel(b, row->kernel[0] ? row->kernel : "(several kernels)", name_width);
	for (size_t has = text_width(b->data + start, b->n - start); has < name_width; has++) {
		buf_char(b, ' ');
	}
	text_count(&field, row->columns[column].seen);
	add_field(b, &field, 12);
	text_count(&field, row->columns[column].measured);
	add_field(b, &field, 10);
	if (x.kind == ESTIMATE_NONE) {
		buf_text(&field, "na");
	} else {
		buf_text(&field, x.kind == ESTIMATE_EXACT ? "" : "est. ");
		text_scaled(&field, x.value, e->units[column]);
	}
	add_field(b, &field, 16);
	add_error(&field, &x);
	add_field(b, &field, 16);
	buf_char(b, '\n');
	buf_deinit(&field);
}

static void add_table(const struct estimates *e, size_t column, size_t n, size_t name_width,
		      struct buf *b)
{
	buf_char(b, '\n');
	text_terminal(b, e->names[column]);
	buf_text(b, e->adds_up[column] ? ", all launches together\n" : ", mean of all launches\n");
	buf_printf(b, "%-*s%12s%10s%16s%16s\n", (int)name_width, "kernel", "launches", "measured",
		   e->adds_up[column] ? "sum" : "mean", "standard error");
	for (size_t i = 0; i < e->n_rows && i < n; i++) {
		add_row(e, &e->rows[i], column, name_width, b);
	}
	if (e->n_rows > n) {
		buf_printf(b, "%zu more kernels: see --summary-rows and --format jsonl\n",
			   e->n_rows - n);
	}
}

void estimates_print(struct estimates *e, size_t n, size_t width, struct buf *b)
{
	size_t name_width = width > NAME_MIN + FIELDS_WIDTH ? width - FIELDS_WIDTH : NAME_MIN;
	size_t rows;

	estimates_rows(e, &rows);
	for (size_t i = 0; i < e->n_columns; i++) {
		add_table(e, i, n, name_width, b);
	}
	buf_text(b, "\nlaunches are counted; \"est.\" is estimated from launches that were chosen "
		    "at random, and right\nto within the standard error in 68 of 100 cases\n");
}
