/* SPDX-License-Identifier: Apache-2.0 */

/* Turns failures of SQLite and of the system into our codes, with a sentence and the remedy. */

#include "client/store/internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {
	[STORE_OK] = "store-ok",
	[STORE_E_EXISTS] = "store-exists",
	[STORE_E_PATH] = "store-path",
	[STORE_E_NOT_CAPTURE] = "store-not-capture",
	[STORE_E_VERSION] = "store-version",
	[STORE_E_TRUNCATED] = "store-truncated",
	[STORE_E_CORRUPT] = "store-corrupt",
	[STORE_E_FULL] = "store-full",
	[STORE_E_IO] = "store-io",
	[STORE_E_BUSY] = "store-busy",
	[STORE_E_UNFINISHED] = "store-unfinished",
};

const char *store_error_name(int code)
{
	if (code < 0 || (size_t)code >= sizeof(names) / sizeof(names[0]) || !names[code]) {
		return "store-unknown";
	}
	return names[code];
}

int store_error_set(struct store_error *error, int code, const char *remedy, const char *format,
		    ...)
{
	va_list args;

	if (!error) {
		return code;
	}
	error->code = code;
	va_start(args, format);
	vsnprintf(error->message, sizeof(error->message), format, args);
	va_end(args);
	snprintf(error->remedy, sizeof(error->remedy), "%s", remedy);
	return code;
}

int store_error_errno(struct store_error *error, int err, const char *path, const char *call)
{
	if (err == ENOMEM) {
		return store_error_set(error, -ENOMEM, "", "%s: out of memory.", path);
	}
	if (err == ENOSPC || err == EDQUOT || err == EFBIG) {
		return store_error_set(error, STORE_E_FULL,
				       "Make room, or give -o a path on another file system.",
				       "%s: %s: %s.", path, call, strerror(err));
	}
	return store_error_set(error, STORE_E_PATH,
			       "Check the folder and its permissions, or give another path.",
			       "%s: %s: %s.", path, call, strerror(err));
}

/* Has the file reached a limit of size (RLIMIT_FSIZE, or the file system's)? SQLite has a code for
 * a full disk, but none for this. */
static bool may_not_grow(sqlite3 *db, int rc)
{
	int err = 0;

	return (rc & 0xff) == SQLITE_IOERR && db &&
	       sqlite3_file_control(db, "main", SQLITE_FCNTL_LAST_ERRNO, &err) == SQLITE_OK &&
	       err == EFBIG;
}

int store_error_sqlite(struct store_error *error, sqlite3 *db, int rc, const char *path,
		       const char *call)
{
	const char *text = db ? sqlite3_errmsg(db) : sqlite3_errstr(rc);

	if (may_not_grow(db, rc)) {
		return store_error_set(error, STORE_E_FULL,
				       "Raise the limit on a file's size (ulimit -f), or keep less "
				       "with --kernel or --count.",
				       "%s: %s: the file may not grow further.", path, call);
	}
	/* A capture with -f, on another node with this folder, may replace the file. */
	if (rc == SQLITE_READONLY_DBMOVED) {
		return store_error_set(
			error, STORE_E_PATH,
			"Give every capture a name of its own: %h, %t and %p in it are "
			"host, task and process.",
			"%s: another program has replaced or removed it while it was "
			"written.",
			path);
	}
	switch (rc & 0xff) {
	case SQLITE_NOMEM:
		return store_error_set(error, -ENOMEM, "", "%s: out of memory.", path);
	case SQLITE_FULL:
		return store_error_set(error, STORE_E_FULL,
				       "Make room, or give -o a path on another file system.",
				       "%s: %s: the disk or your quota is full.", path, call);
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return store_error_set(error, STORE_E_BUSY,
				       "Close the program that reads the file.",
				       "%s: %s: another program keeps the file locked.", path,
				       call);
	case SQLITE_NOTADB:
		return store_error_set(error, STORE_E_NOT_CAPTURE,
				       "Give a file that gpuctr-client -o has written.",
				       "%s: not a capture file.", path);
	case SQLITE_CORRUPT:
		return store_error_set(error, STORE_E_CORRUPT,
				       "Record it again, or take an intact copy.",
				       "%s: the file is damaged (%s).", path, text);
	case SQLITE_CANTOPEN:
	case SQLITE_PERM:
	case SQLITE_AUTH:
		return store_error_set(error, STORE_E_PATH, "Check the path and its permissions.",
				       "%s: %s: %s.", path, call, text);
	default:
		return store_error_set(error, STORE_E_IO,
				       "Check the file system, or give another path.",
				       "%s: %s: %s (SQLite %d).", path, call, text, rc);
	}
}

void store_remedy_temporary(struct store *s)
{
	if (s->is_temporary && s->error.code == STORE_E_FULL) {
		snprintf(s->error.message, sizeof(s->error.message),
			 "%s: there is no more room for it; it takes half of what was there.",
			 s->path);
	}
	if (s->is_temporary && s->error.code > 0) {
		snprintf(s->error.remedy, sizeof(s->error.remedy), "%s",
			 "Set TMPDIR to a folder with room, or record with -o where there is.");
	}
}

int store_fail(struct store *s, int rc, const char *call)
{
	int code = store_error_sqlite(&s->error, s->db, rc, s->path, call);

	store_remedy_temporary(s);
	if (s->db && sqlite3_get_autocommit(s->db) == 0) {
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	}
	s->in_transaction = false;
	s->saved -= s->pending_records;
	s->unsaved += s->pending_records;
	s->pending_records = 0;
	s->pending_values = 0;
	s->pending_bytes = 0;
	return code;
}
