/* SPDX-License-Identifier: Apache-2.0 */

/* A capture may have tens of thousands of processes, as of a program that starts others, and most
 * have no rows. These queries cost less than a cursor, for which SQLite compiles statements. Marks
 * have no index, so one pass over all marks finds the processes that have some. */

#include "client/store/reader_internal.h"

#include "client/store/schema.h"

int store_has_records(struct store_reader *r, unsigned process, bool *ret)
{
	int64_t low = (int64_t)process << STORE_INDEX_BITS;
	int rc, result = r->has_records
				 ? 0
				 : reader_prepare(r,
						  "SELECT 1 FROM record WHERE id BETWEEN ?1 AND ?2",
						  &r->has_records);

	if (result) {
		return result;
	}
	sqlite3_bind_int64(r->has_records, 1, low);
	sqlite3_bind_int64(r->has_records, 2, low + STORE_INDEX_MAX);
	rc = sqlite3_step(r->has_records);
	*ret = rc == SQLITE_ROW;
	sqlite3_reset(r->has_records);
	return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : reader_fail(r, rc, "read");
}

static int find_marks(struct store_reader *r)
{
	struct row row = { .reader = r, .table = "mark" };
	int result = reader_prepare(r, "SELECT process FROM mark", &row.stmt);
	bool more = true;

	while (result == 0 && (result = row_step(&row, &more)) == 0 && more) {
		struct store_process *p =
			info_find_process(r, row_int(&row, 0, 0, STORE_PROCESS_MAX));

		if (p) {
			p->has_marks = true;
		}
		result = row_end(&row);
	}
	sqlite3_finalize(row.stmt);
	return result;
}

int store_has_marks(struct store_reader *r, unsigned process, bool *ret)
{
	const struct store_process *p = info_find_process(r, process);
	int result = r->found_marks ? 0 : find_marks(r);

	r->found_marks = result == 0;
	*ret = !p || p->has_marks;
	return result;
}

void reader_has_free(struct store_reader *r)
{
	sqlite3_finalize(r->has_records);
	r->has_records = NULL;
}
