/* SPDX-License-Identifier: Apache-2.0 */

/* Reads values of a file that is not trusted. */

#include "client/store/reader_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void bad(struct row *row, int column, const char *what)
{
	if (row->error == 0) {
		char text[128];

		sqlite3_snprintf(sizeof(text), text, "column %s %s",
				 sqlite3_column_name(row->stmt, column), what);
		row->error = reader_corrupt(row->reader, row->table, text);
	}
}

int row_step(struct row *row, bool *ret_more)
{
	int rc = sqlite3_step(row->stmt);

	row->error = 0;
	*ret_more = rc == SQLITE_ROW;
	return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : reader_fail(row->reader, rc, "read");
}

int row_end(const struct row *row)
{
	return row->error;
}

int64_t row_int(struct row *row, int column, int64_t min, int64_t max)
{
	/* One look-up for type and value: connections are used by one thread at a time. */
	sqlite3_value *found = sqlite3_column_value(row->stmt, column);
	int64_t value;

	if (sqlite3_value_type(found) != SQLITE_INTEGER) {
		bad(row, column, "is not a number");
		return min;
	}
	value = sqlite3_value_int64(found);
	if (value < min || value > max) {
		bad(row, column, "is out of range");
		return min;
	}
	return value;
}

uint32_t row_u32(struct row *row, int column)
{
	return (uint32_t)row_int(row, column, 0, UINT32_MAX);
}

uint64_t row_u63(struct row *row, int column)
{
	return (uint64_t)row_int(row, column, 0, INT64_MAX);
}

int64_t row_i64(struct row *row, int column)
{
	return row_int(row, column, INT64_MIN, INT64_MAX);
}

const char *row_borrow_text(struct row *row, int column, size_t *ret_length)
{
	const char *text = (const char *)sqlite3_column_text(row->stmt, column);

	*ret_length = (size_t)sqlite3_column_bytes(row->stmt, column);
	if (!text) {
		bad(row, column, "is not text");
		*ret_length = 0;
		return "";
	}
	return text;
}

const char *row_text(struct row *row, int column)
{
	size_t length;
	const char *text = row_borrow_text(row, column, &length);
	char *copy;

	if (length == 0) {
		return "";
	}
	copy = arena_text(&row->reader->arena, text, length);
	if (!copy) {
		row->error = reader_fail(row->reader, SQLITE_NOMEM, "read");
		return "";
	}
	return copy;
}

double row_double(struct row *row, int column)
{
	sqlite3_value *found = sqlite3_column_value(row->stmt, column);

	switch (sqlite3_value_type(found)) {
	case SQLITE_NULL:
		return NAN;
	case SQLITE_FLOAT:
	case SQLITE_INTEGER:
		return sqlite3_value_double(found);
	default:
		bad(row, column, "is not a number");
		return NAN;
	}
}

void row_totals(struct row *row, int column, struct gpuctr_totals *ret)
{
#define READ(name) ret->name = row_u63(row, column++);
	GPUCTR_TOTALS(READ)
#undef READ
}

/* --- queries --------------------------------------------------------------------------------- */

int reader_count(struct store_reader *r, const char *table, int64_t max, size_t *ret)
{
	struct row row = { .reader = r, .table = table };
	char sql[128];
	bool more;
	int result;

	/* Row by row, because SQLite counts a whole table in one step, however long. */
	snprintf(sql, sizeof(sql), "SELECT count(*) FROM (SELECT 1 FROM %s LIMIT %lld)", table,
		 (long long)max + 1);
	result = reader_prepare(r, sql, &row.stmt);
	result = result ? result : row_step(&row, &more);
	if (result == 0) {
		*ret = (size_t)row_int(&row, 0, 0, max);
		result = row_end(&row);
	}
	sqlite3_finalize(row.stmt);
	return result;
}

int reader_rows(struct store_reader *r, const char *table, const char *sql, size_t n,
		void (*take)(struct row *row, size_t i, void *userdata), void *userdata)
{
	struct row row = { .reader = r, .table = table };
	int result = reader_prepare(r, sql, &row.stmt);
	bool more = true;
	size_t i = 0;

	while (result == 0) {
		result = row_step(&row, &more);
		if (result || !more) {
			break;
		}
		if (i >= n) {
			result = reader_corrupt(r, table, "more rows than were counted");
			break;
		}
		take(&row, i++, userdata);
		result = row_end(&row);
	}
	if (result == 0 && i != n) {
		result = reader_corrupt(r, table, "fewer rows than were counted");
	}
	sqlite3_finalize(row.stmt);
	return result;
}

static int read_list(struct store_reader *r, const struct reader_list *list, void *ret,
		     size_t *ret_n)
{
	char sql[768];
	void *items;
	size_t n;
	int result = reader_count(r, list->from, list->max, &n);

	if (result) {
		return result;
	}
	items = arena_zalloc_array(&r->arena, n + 1, list->size);
	if (!items) {
		return reader_fail(r, SQLITE_NOMEM, "read");
	}
	snprintf(sql, sizeof(sql), "SELECT %s FROM %s ORDER BY %s", list->columns, list->from,
		 list->order);
	memcpy(ret, &items, sizeof(items));
	*ret_n = n;
	return reader_rows(r, list->from, sql, n, list->take, items);
}

/* Counts and reads in one transaction, because the file may be growing. */
int reader_list(struct store_reader *r, const struct reader_list *list, void *ret, size_t *ret_n)
{
	bool begun = sqlite3_get_autocommit(r->db) &&
		     sqlite3_exec(r->db, "BEGIN", NULL, NULL, NULL) == SQLITE_OK;
	int result = read_list(r, list, ret, ret_n);

	if (begun) {
		sqlite3_exec(r->db, "COMMIT", NULL, NULL, NULL);
	}
	return result;
}
