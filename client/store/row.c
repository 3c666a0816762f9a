/* SPDX-License-Identifier: Apache-2.0 */

/* Values of a file that is not trusted. SQLite columns take values of any type, so the type is
 * checked like the range. */

#include "client/store/reader_internal.h"

#include <math.h>
#include <stdio.h>

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
	int64_t value = sqlite3_column_int64(row->stmt, column);

	if (sqlite3_column_type(row->stmt, column) != SQLITE_INTEGER) {
		bad(row, column, "is not a number");
		return min;
	}
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

const char *row_text(struct row *row, int column)
{
	const char *text = (const char *)sqlite3_column_text(row->stmt, column);
	int length = sqlite3_column_bytes(row->stmt, column);
	char *copy;

	if (!text) {
		bad(row, column, "is not text");
		return "";
	}
	copy = store_pool_text(&row->reader->pool, text, (size_t)length);
	if (!copy) {
		row->error = reader_fail(row->reader, SQLITE_NOMEM, "read");
		return "";
	}
	return copy;
}

double row_double(struct row *row, int column)
{
	switch (sqlite3_column_type(row->stmt, column)) {
	case SQLITE_NULL:
		return NAN;
	case SQLITE_FLOAT:
	case SQLITE_INTEGER:
		return sqlite3_column_double(row->stmt, column);
	default:
		bad(row, column, "is not a number");
		return NAN;
	}
}

void row_totals(struct row *row, int column, struct gpuctr_totals *ret)
{
	ret->seen = row_u63(row, column);
	ret->measured = row_u63(row, column + 1);
	ret->filtered = row_u63(row, column + 2);
	ret->capturing = row_u63(row, column + 3);
	ret->unready = row_u63(row, column + 4);
	ret->failed = row_u63(row, column + 5);
	ret->dropped = row_u63(row, column + 6);
	ret->lost = row_u63(row, column + 7);
}

/* --- queries -----------------------------------------------------------------------------------
 */

int reader_count(struct store_reader *r, const char *table, int64_t max, size_t *ret)
{
	struct row row = { .reader = r, .table = table };
	char sql[128];
	bool more;
	int result;

	/* Row by row: SQLite's own counting of a whole table is one step, however long it takes. */
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
