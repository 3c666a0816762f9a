/* SPDX-License-Identifier: Apache-2.0 */

/* Opens a capture file and checks it.
 *
 * Checks in this order, each with its own error code: SQLite's header, our application_id and
 * user_version (another file, another format), the size (a copy that was cut off), the tables, and
 * the structure of all pages (quick_check in check.c, which reads the file once).
 *
 * A file may come from anywhere, so the schema is not trusted: no function of ours or of an
 * extension runs from it. Each of our tables must be declared to the letter as we declare it, and
 * there may be no others, because a view under a table's name, a generated column or a CHECK (which
 * quick_check evaluates, in every table) could compute for ever. Until the check is over, SQLite
 * may take only a number of steps in proportion to the file's size.
 *
 * Nothing is written. The file is opened read-only; if its writer was killed in a commit, a copy is
 * rolled back (private.c), which loses its name as soon as it is open. vfs.c says why. */

#include "client/store/reader_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/store/internal.h"
#include "client/store/private.h"
#include "client/store/schema.h"

enum {
	HEADER_BYTES = 100,
	WAL_MODE = 2,	/* value of bytes 18 and 19 of the header */
	OPEN_TRIES = 3, /* tries while another program repairs or rewrites the file */
};

static const char give_capture[] = "Give a file that gpuctr-client -o has written.";

/* --- validation ------------------------------------------------------------------------------ */

static uint32_t load_be32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int truncated(struct store_reader *r, uint64_t has, uint64_t wants)
{
	return store_error_set(&r->error, STORE_E_TRUNCATED, reader_take_intact,
			       "%s is cut off: it has %llu of %llu bytes.", r->path,
			       (unsigned long long)has, (unsigned long long)wants);
}

static int not_capture(struct store_reader *r, const char *why)
{
	return store_error_set(&r->error, STORE_E_NOT_CAPTURE, give_capture,
			       "%s is not a capture file: %s.", r->path, why);
}

static int check_numbers(struct store_reader *r, const unsigned char *header, uint64_t size)
{
	off_t journal = 0;
	uint64_t page = (uint64_t)header[16] << 8 | header[17];
	uint64_t wants;
	uint32_t format;

	page = page == 1 ? 65536 : page;
	wants = page * load_be32(header + 28);
	if (load_be32(header + 68) != STORE_APPLICATION_ID) {
		return not_capture(r, "it is an SQLite database of another program");
	}
	format = load_be32(header + 60);
	if (format != STORE_FORMAT) {
		return store_error_set(&r->error, STORE_E_VERSION, "Use the gpuctr that wrote it.",
				       "%s has capture format %u; this program reads %d.", r->path,
				       format, STORE_FORMAT);
	}
	/* Somebody changed the mode by hand; the log beside the file may hold data. */
	if (header[18] == WAL_MODE || header[19] == WAL_MODE) {
		return store_error_set(
			&r->error, STORE_E_NOT_CAPTURE,
			"Say: sqlite3 FILE 'PRAGMA journal_mode = DELETE'",
			"%s has a write-ahead log of SQLite's, which no capture has.", r->path);
	}
	/* With a journal, rolling back restores the size. */
	if (!store_vfs_has_journal(r->file, &journal) && size < wants) {
		return truncated(r, size, wants);
	}
	r->size = size + (uint64_t)journal;
	return 0;
}

static int check_header(struct store_reader *r)
{
	unsigned char header[HEADER_BYTES] = { 0 };
	int fd = open(r->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0) {
		n = store_error_errno(&r->error, errno, r->path, "open");
		if (fd >= 0) {
			close(fd);
		}
		return (int)n;
	}
	n = S_ISREG(st.st_mode) ? read(fd, header, sizeof(header)) : 0;
	close(fd);
	if (!S_ISREG(st.st_mode)) {
		return not_capture(r, "it is not a regular file");
	}
	if (n == 0) {
		return not_capture(r, "it is empty");
	}
	if (n < 0) {
		return store_error_errno(&r->error, errno, r->path, "read");
	}
	if (memcmp(header, "SQLite format 3", (size_t)n < 16 ? (size_t)n : 16) != 0) {
		return not_capture(r, "it is not an SQLite database");
	}
	if (n < HEADER_BYTES) {
		return truncated(r, (uint64_t)n, HEADER_BYTES);
	}
	return check_numbers(r, header, (uint64_t)st.st_size);
}

/* Is sql one of the statements? These end with semicolons, which SQLite does not keep. */
static bool is_declared(const char *statements, const char *sql)
{
	const char *found = sql ? strstr(statements, sql) : NULL;

	return found && found[strlen(sql)] == ';' && (found == statements || found[-1] == ';');
}

/* Does this row of sqlite_schema belong to a capture? Views may have any text, because they are
 * never read. Indexes that come with a table have no text. */
static bool is_ours(const char *type, const char *name, const char *sql)
{
	if (!type || !name) {
		return false;
	}
	if (strcmp(type, "view") == 0) {
		return true;
	}
	if (strcmp(type, "index") == 0 && !sql) {
		return true;
	}
	return strcmp(name, "record") == 0 || strcmp(name, "sampled") == 0 ||
	       is_declared(schema_tables, sql) || is_declared(schema_sample_tables, sql) ||
	       is_declared(schema_graph_kernel, sql);
}

/* Checks that the file has our tables and nothing else. The columns of record and of sampled are
 * compared later, when they are known. */
static int check_nothing_else(struct store_reader *r)
{
	sqlite3_stmt *stmt;
	int result = reader_prepare(r, "SELECT type, name, sql FROM sqlite_schema", &stmt);
	int rc = SQLITE_DONE, records = 0, sampled = 0, graphs = 0;

	while (result == 0 && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		const char *name = (const char *)sqlite3_column_text(stmt, 1);

		records += name && strcmp(name, "record") == 0;
		sampled += name && strcmp(name, "sampled") == 0;
		graphs += name && strcmp(name, "graph_kernel") == 0;
		if (records > 1 || sampled > 1 || graphs > 1 ||
		    !is_ours((const char *)sqlite3_column_text(stmt, 0), name,
			     (const char *)sqlite3_column_text(stmt, 2))) {
			result = store_error_set(
				&r->error, STORE_E_CORRUPT,
				"Drop it with the program that made it, or take the file as it was "
				"written.",
				"%s: %.80s is no part of a capture file.", r->path,
				name ? name : "a table without a name");
		}
	}
	if (result == 0 && rc != SQLITE_DONE) {
		result = reader_fail(r, rc, "read");
	}
	sqlite3_finalize(stmt);
	return result;
}

/* Checks that the file declares a table by this statement of n characters. */
static int check_table(struct store_reader *r, const char *statement, size_t n)
{
	sqlite3_stmt *stmt;
	char name[32] = "";
	int rc, result = reader_prepare(
			r,
			"SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ? AND sql = ?",
			&stmt);

	if (result) {
		return result;
	}
	sscanf(statement, "CREATE TABLE %31[^(]", name);
	sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 2, statement, (int)n, SQLITE_STATIC);
	rc = sqlite3_step(stmt);
	sqlite3_finalize(stmt);
	return rc == SQLITE_ROW ? 0
	       : rc == SQLITE_DONE
		       ? reader_corrupt(r, name, "missing, or not declared as it should be")
		       : reader_fail(r, rc, "read");
}

/* Checks the tables of the statements. To be called before anything is read from these tables. */
static int check_tables(struct store_reader *r, const char *statements)
{
	int result = 0;

	for (const char *end; result == 0 && (end = strchr(statements, ';'));
	     statements = end + 1) {
		if (strncmp(statements, "CREATE TABLE", strlen("CREATE TABLE")) == 0) {
			result = check_table(r, statements, (size_t)(end - statements));
		}
	}
	return result;
}

/* Checks a table with metrics, whose names may contain semicolons. Frees sql. */
static int check_planned(struct store_reader *r, char *sql)
{
	int result =
		sql ? check_table(r, sql, strlen(sql) - 1) : reader_fail(r, SQLITE_NOMEM, "read");

	sqlite3_free(sql);
	return result;
}

/* Checks the tables whose columns, or presence, info_read_capture() finds. */
static int check_record(struct store_reader *r)
{
	const struct store_info *info = &r->info;
	const struct gpuctr_plan *plan = &info->plan;
	int result = check_planned(r, schema_format_record(plan->columns, plan->n_columns));

	if (result == 0 && info->sampled) {
		result = check_planned(r, schema_format_sampled(plan->columns, plan->n_columns));
	}
	result = result || !info->graphs ? result : check_tables(r, schema_graph_kernel);
	return result || !info->has_samples ? result : check_tables(r, schema_sample_tables);
}

/* --- the reader ------------------------------------------------------------------------------ */

/* Checks tables and reads info, in the caller's transaction, because the file may be growing. */
static int read_once(struct store_reader *r)
{
	int result = check_nothing_else(r);

	result = result ? result : check_tables(r, schema_tables);
	result = result ? result : info_read_capture(r);
	result = result ? result : check_record(r);
	result = result ? result : reader_check_begin(r);
	return result ? result : info_read_processes(r);
}

/* Does a writer hold its lock? Readers do not hold this lock. */
static bool is_written(struct store_reader *r)
{
	sqlite3_file *file = NULL;
	int held = 0;

	sqlite3_file_control(r->db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
	return file && file->pMethods &&
	       file->pMethods->xCheckReservedLock(file, &held) == SQLITE_OK && held;
}

static int open_and_check(struct store_reader *r)
{
	int result = check_header(r), rc;
	bool before;

	result = result ? result : reader_open_db(r);
	if (result) {
		return result;
	}
	/* Looks twice, because a writer releases the lock for a moment between two transactions. */
	before = is_written(r);
	rc = sqlite3_exec(r->db, "BEGIN", NULL, NULL, NULL);
	result = rc == SQLITE_OK ? read_once(r) : reader_fail(r, rc, "read");
	r->info.is_written = before || is_written(r);
	sqlite3_exec(r->db, "COMMIT", NULL, NULL, NULL);
	return result;
}

int store_check_pages(struct store_reader *r)
{
	int result = reader_check_end(r);

	if (result == 0) {
		sqlite3_progress_handler(r->db, 0, NULL, NULL);
	}
	return result;
}

int store_open(const char *path, struct store_error *error, struct store_reader **ret)
{
	struct store_reader *r;
	int result = store_open_unchecked(path, error, &r);

	if (result) {
		return result;
	}
	result = store_check_pages(r);
	if (result) {
		if (error) {
			*error = r->error;
		}
		store_reader_free(r);
		return result;
	}
	*ret = r;
	return 0;
}

static void close_file(struct store_reader *r)
{
	reader_check_free(r);
	r->check = NULL;
	if (!r->is_borrowed) {
		sqlite3_close(r->db);
	}
	r->db = NULL;
	arena_deinit(&r->arena);
}

static int take_copy(struct store_reader *r)
{
	char *copy;
	int result = store_private_copy(r->file, r->path, &r->error, &copy);

	if (result == 0) {
		free(r->file);
		r->file = copy;
		r->is_copy = true;
	}
	return result;
}

static int open_whole(struct store_reader *r)
{
	int result = open_and_check(r);

	for (int i = 0; result == STORE_E_UNFINISHED && !r->is_copy && i < OPEN_TRIES; i++) {
		close_file(r);
		result = take_copy(r);
		if (result == 0 || result == STORE_E_BUSY) {
			result = open_and_check(r);
		}
	}
	if (r->is_copy) {
		r->file = store_private_remove(r->file);
	}
	return result;
}

static struct store_reader *reader_new(const char *path)
{
	struct store_reader *r = calloc(1, sizeof(*r));

	if (!r) {
		return NULL;
	}
	arena_init(&r->arena, ARENA_NO_LIMIT);
	r->path = strdup(path);
	r->file = realpath(path, NULL);
	r->file = r->file ? r->file : strdup(path);
	return r->path && r->file ? r : store_reader_free(r);
}

int store_open_unchecked(const char *path, struct store_error *error, struct store_reader **ret)
{
	struct store_reader *r = reader_new(path);
	int result, wrong;

	if (!r) {
		return store_error_errno(error, ENOMEM, path, "open");
	}
	result = open_whole(r);
	if (result) {
		/* An error of the pages is reported before errors that may result from it. */
		wrong = r->check ? reader_check_end(r) : 0;
		result = wrong ? wrong : result;
		if (error) {
			*error = r->error;
		}
		store_reader_free(r);
		return result;
	}
	*ret = r;
	return 0;
}

int store_read_back(struct store *s, struct store_error *error, struct store_reader **ret)
{
	struct store_reader *r = reader_new(s->path);
	int result;

	if (!r) {
		return store_error_errno(error, ENOMEM, s->path, "read");
	}
	/* Commits, because readers number records by their order, and none may vanish later.
	 * Records that cannot be committed are lost now, and counted. */
	store_commit(s, false);
	r->db = s->db;
	r->is_borrowed = true;
	if (!s->db) { /* store_wake() has failed to open the file */
		*error = s->error;
		store_reader_free(r);
		return s->error.code;
	}
	result = info_read_capture(r);
	result = result ? result : info_read_processes(r);
	if (result) {
		*error = r->error;
		store_reader_free(r);
		return result;
	}
	*ret = r;
	return 0;
}

struct store_reader *store_reader_free(struct store_reader *r)
{
	if (!r) {
		return NULL;
	}
	close_file(r);
	free(r->path);
	free(r->file);
	free(r);
	return NULL;
}

void store_be_brief(struct store_reader *r, bool brief)
{
	r->is_brief = brief;
}

const struct store_info *store_info(const struct store_reader *r)
{
	return &r->info;
}

const struct store_error *store_reader_error(const struct store_reader *r)
{
	return &r->error;
}
