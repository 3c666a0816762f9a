/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a capture file says, as one number. */

#include "tests/system/fixture.h"

#include <sqlite3.h>

static inline double query(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *s = NULL;
	double value;

	if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK ||
	    sqlite3_step(s) != SQLITE_ROW) {
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	}
	value = sqlite3_column_double(s, 0);
	sqlite3_finalize(s);
	return value;
}

static inline double query_file(const char *path, const char *sql)
{
	sqlite3 *db = NULL;
	double value;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	value = query(db, sql);
	sqlite3_close(db);
	return value;
}

/* Of the file that most tests write. */
static inline double query_run(struct fixture *f, const char *sql)
{
	return query_file(fixture_path(f, "run.gpuctr"), sql);
}

/* The daemon, and where a capture is and what is made of it; each of FILE_BYTES. */
enum { FILE_BYTES = 96 };
static inline void begin_with_files(struct fixture *f, char *path, char *out)
{
	snprintf(path, FILE_BYTES, "%s", fixture_path(f, "run.gpuctr"));
	snprintf(out, FILE_BYTES, "%s", fixture_path(f, "again.gpuctr"));
	fixture_start_daemon(f, NULL);
}
