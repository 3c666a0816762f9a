/* SPDX-License-Identifier: Apache-2.0 */

/* The reader's connection to SQLite, with a bound on its work, and failures as our codes. */

#include <sqlite3.h>
#include <string.h>

#include "client/store/internal.h"
#include "client/store/reader_internal.h"

enum {
	MAX_BLOB_BYTES = 512 << 20,
	MAX_SQL_BYTES = 1 << 20,
	/* Each column of a row takes a byte or more in the file, and fewer steps. */
	STEPS_PER_BYTE = 64,
	STEPS_AT_ONCE = 1000,
	STEPS_MIN = 1000 * 1000,
};

const char reader_take_intact[] = "Record it again, or take an intact copy.";

int reader_fail(struct store_reader *r, int rc, const char *call)
{
	if (rc == SQLITE_READONLY_ROLLBACK || rc == SQLITE_READONLY_RECOVERY ||
	    rc == SQLITE_READONLY_CANTLOCK) {
		return store_error_set(
			&r->error, STORE_E_UNFINISHED,
			"Read it again: what is missing is then completed in a copy.",
			"%s: its writer was killed in the middle of a commit.", r->path);
	}
	if (rc == SQLITE_INTERRUPT) {
		return store_error_set(&r->error, STORE_E_CORRUPT, reader_take_intact,
				       "%s: the file is damaged (reading it would not end).",
				       r->path);
	}
	return store_error_sqlite(&r->error, r->db, rc, r->path, call);
}

int reader_corrupt(struct store_reader *r, const char *table, const char *what)
{
	return store_error_set(&r->error, STORE_E_CORRUPT, reader_take_intact,
			       "%s: the file is damaged (table %.*s: %s).", r->path,
			       (int)strcspn(table, " "), table, what);
}

int reader_prepare(struct store_reader *r, const char *sql, sqlite3_stmt **ret)
{
	int rc = sqlite3_prepare_v2(r->db, sql, -1, ret, NULL);

	if (rc == SQLITE_OK) {
		return 0;
	}
	if ((rc & 0xff) == SQLITE_ERROR) { /* a table or column does not exist */
		return reader_corrupt(r, "schema", sqlite3_errmsg(r->db));
	}
	return reader_fail(r, rc, "read");
}

/* SQLite calls this after each thousand steps. */
static int count_steps(void *userdata)
{
	struct store_reader *r = userdata;

	return r->steps_left == 0 || --r->steps_left == 0;
}

static void bound_steps(struct store_reader *r)
{
	r->steps_left = (STEPS_MIN + r->size * STEPS_PER_BYTE) / STEPS_AT_ONCE;
	sqlite3_progress_handler(r->db, STEPS_AT_ONCE, count_steps, r);
}

int reader_open_db(struct store_reader *r)
{
	int rc = store_vfs_open(&r->vfs, r->file, NULL,
				r->is_copy ? STORE_VFS_RECOVER : STORE_VFS_READ, &r->db);

	if (rc != SQLITE_OK) {
		return reader_fail(r, rc, "open");
	}
	sqlite3_extended_result_codes(r->db, 1);
	sqlite3_busy_timeout(r->db, 2000);
	sqlite3_limit(r->db, SQLITE_LIMIT_LENGTH, MAX_BLOB_BYTES);
	sqlite3_limit(r->db, SQLITE_LIMIT_SQL_LENGTH, MAX_SQL_BYTES);
	sqlite3_limit(r->db, SQLITE_LIMIT_ATTACHED, 0);
	sqlite3_db_config(r->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(r->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(r->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	bound_steps(r);
	rc = sqlite3_exec(
		r->db, "PRAGMA cell_size_check = ON; PRAGMA query_only = ON; PRAGMA mmap_size = 0;",
		NULL, NULL, NULL);
	return rc == SQLITE_OK ? 0 : reader_fail(r, rc, "open");
}
