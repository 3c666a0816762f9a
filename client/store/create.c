/* SPDX-License-Identifier: Apache-2.0 */

/* Creates a capture file. If nothing is at the path, the file is created there, exclusively. A file
 * that is replaced stays whole while the new one, with its tables, is made beside it in a folder of
 * its own; one rename then moves the new file, which stays open, to the path. Either way, the file
 * can be read, without records, from the moment it has its name. */

#include "client/store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "client/store/meta.h"
#include "client/store/private.h"
#include "client/store/schema.h"

enum { PAGE_BYTES = 16384 };

#define PAGES_LEAST 64ull /* enough for the tables */
#define PAGES_MOST 4294967294ull

static int refuse_existing(const char *path, struct store_error *error)
{
	return store_error_set(error, STORE_E_EXISTS, "Give -f to replace it, or another path.",
			       "%s exists.", path);
}

/* Somebody else may have made the link, and chosen the file that it leads to. */
static int refuse_link(const char *path, struct store_error *error)
{
	return store_error_set(error, STORE_E_PATH, "Name the file itself, or remove the link.",
			       "%s: this is a link, and -f replaces files only.", path);
}

/* Refuses what exists at the path, unless it is a file that may be replaced. */
static int check_file(const char *path, const struct stat *st, bool force,
		      struct store_error *error)
{
	if (S_ISLNK(st->st_mode)) {
		return force ? refuse_link(path, error) : refuse_existing(path, error);
	}
	if (!S_ISREG(st->st_mode)) {
		return store_error_set(error, STORE_E_PATH, "Give the path of a file.",
				       "%s is not a regular file.", path);
	}
	return force ? 0 : refuse_existing(path, error);
}

int store_check(const char *path, bool force, struct store_error *error)
{
	char folder[PATH_MAX];
	const char *slash = strrchr(path, '/');
	struct stat st;
	int r;

	if (!*path || strlen(path) + 32 > sizeof(folder)) {
		return store_error_errno(error, *path ? ENAMETOOLONG : ENOENT, path, "create");
	}
	if (lstat(path, &st) == 0) {
		r = check_file(path, &st, force, error);
		if (r) {
			return r;
		}
	} else if (errno != ENOENT) {
		return store_error_errno(error, errno, path, "create");
	}
	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path + 1) : 2,
		 slash ? path : "./");
	if (access(folder, W_OK | X_OK) < 0) {
		return store_error_errno(error, errno, path, "create");
	}
	return 0;
}

/* Does a file or link exist at the path? A link counts wherever it leads. */
static bool is_there(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static int tune(struct store *s)
{
	sqlite3_extended_result_codes(s->db, 1);
	sqlite3_busy_timeout(s->db, STORE_BUSY_TIMEOUT_MS);
	return store_exec(s, "PRAGMA synchronous = OFF; PRAGMA cache_spill = OFF;"
			     "PRAGMA cache_size = -65536; PRAGMA temp_store = MEMORY;");
}

/* Opens the new file. It uses no journal until it has its final name, because a journal beside that
 * name belongs to another file. */
static int open_db(struct store *s)
{
	char sql[96];
	/* With a relative path SQLite asks for the working folder, which may be unreadable. */
	const char *name = s->is_temporary ? "/temporary" : s->path;
	int rc = store_vfs_open(&s->vfs, name, s->made_at, STORE_VFS_CREATE, &s->db);

	if (rc == SQLITE_CANTOPEN && !s->made_at && is_there(s->path)) {
		return refuse_existing(s->path, &s->error);
	}
	if (rc != SQLITE_OK) {
		return store_fail(s, rc, "create");
	}
	snprintf(sql, sizeof(sql), "PRAGMA page_size = %d; PRAGMA journal_mode = MEMORY;",
		 PAGE_BYTES);
	rc = store_exec(s, sql);
	return rc ? rc : tune(s);
}

static int create_sampled(struct store *s, const struct gpuctr_plan *plan)
{
	char *sampled = schema_format_sampled(plan->columns, plan->n_columns);
	int r = sampled ? store_exec(s, sampled) : -ENOMEM;

	sqlite3_free(sampled);
	return r;
}

static int create_tables(struct store *s, const struct gpuctr_plan *plan)
{
	char stamp[96];
	char *record = schema_format_record(plan->columns, plan->n_columns);
	char *views = schema_format_views(plan->columns, plan->n_columns, s->graphs);
	int r = -ENOMEM;

	snprintf(stamp, sizeof(stamp), "PRAGMA application_id = %d; PRAGMA user_version = %d;",
		 STORE_APPLICATION_ID, STORE_FORMAT);
	if (record && views) {
		r = store_exec(s, "BEGIN IMMEDIATE");
		r = r ? r : store_exec(s, stamp);
		r = r ? r : store_exec(s, schema_tables);
		r = r ? r : store_exec(s, record);
		r = r || !s->sampled ? r : create_sampled(s, plan);
		r = r || !s->keeps_samples ? r : store_exec(s, schema_sample_tables);
		r = r || !s->graphs ? r : store_exec(s, schema_graph_kernel);
		r = r ? r : store_exec(s, views);
	}
	sqlite3_free(record);
	sqlite3_free(views);
	return r;
}

/* Prepares an INSERT into a table whose columns depend on the plan, or that not every file has. */
static int prepare_insert(struct store *s, enum store_statement which, const char *table,
			  size_t n_columns)
{
	sqlite3_str *sql = sqlite3_str_new(NULL);
	char *text;
	int rc;

	sqlite3_str_appendf(sql, "INSERT INTO %s VALUES(?", table);
	for (size_t i = 1; i < n_columns; i++) {
		sqlite3_str_appendall(sql, ",?");
	}
	sqlite3_str_appendall(sql, ")");
	text = sqlite3_str_finish(sql);
	rc = sqlite3_prepare_v3(s->db, text ? text : "", -1, SQLITE_PREPARE_PERSISTENT,
				&s->stmt[which], NULL);
	sqlite3_free(text);
	return rc;
}

/* Prepares the UPDATE of a record's values. The columns of values are those behind the fixed ones;
 * their names come from the table, because metrics may have any name. */
static int prepare_values(struct store *s)
{
	sqlite3_str *sql = sqlite3_str_new(NULL);
	sqlite3_stmt *columns;
	char *text;
	int rc = sqlite3_prepare_v2(s->db, "SELECT * FROM record", -1, &columns, NULL);

	sqlite3_str_appendall(sql, "UPDATE record SET ");
	for (int i = 0; rc == SQLITE_OK && i < (int)s->n_columns; i++) {
		sqlite3_str_appendf(sql, "%s\"%w\" = ?%d", i > 0 ? ", " : "",
				    sqlite3_column_name(columns, STORE_COL_METRICS + i), i + 2);
	}
	sqlite3_finalize(columns);
	sqlite3_str_appendall(sql, " WHERE id = ?1");
	text = sqlite3_str_finish(sql);
	rc = rc == SQLITE_OK
		     ? sqlite3_prepare_v3(s->db, text ? text : "", -1, SQLITE_PREPARE_PERSISTENT,
					  &s->stmt[STORE_STMT_VALUES], NULL)
		     : rc;
	sqlite3_free(text);
	return rc;
}

static int prepare(struct store *s)
{
	static const char *const sql[STORE_STMT_COUNT] = {
		[STORE_STMT_BEGIN] = "BEGIN IMMEDIATE",
		[STORE_STMT_COMMIT] = "COMMIT",
		[STORE_STMT_META] = "INSERT OR REPLACE INTO meta VALUES(?,?)",
		[STORE_STMT_PROCESS] =
			"INSERT INTO process(id, pid, program, cupti, driver, recorded_from)"
			" VALUES(?,?,?,?,?,?) ON CONFLICT(id) DO UPDATE SET pid=excluded.pid,"
			" program=excluded.program, cupti=excluded.cupti, driver=excluded.driver,"
			" recorded_from=excluded.recorded_from",
		[STORE_STMT_PROCESS_END] =
			"UPDATE process SET ended=1, clean=?2, seen=?3, measured=?4, filtered=?5,"
			" capturing=?6, unready=?7, failed=?8, dropped=?9, lost=?10 WHERE id=?1",
		[STORE_STMT_DEVICE] = "INSERT OR REPLACE INTO device VALUES(?,?,?,?,?,?,?)",
		[STORE_STMT_KERNEL] = "INSERT INTO kernel VALUES(?,?,?,?,?,?)",
		[STORE_STMT_SITE] = "INSERT INTO site VALUES(?,?,?,?,?,?,?,?,?,?,?)",
		[STORE_STMT_ACTIVE] = "INSERT OR IGNORE INTO active VALUES(?,?,?)",
		[STORE_STMT_MARK] = "INSERT INTO mark VALUES(?,?,?,?,?,?,?)",
		[STORE_STMT_IMAGE] = "INSERT INTO image VALUES(?,?,?,?,?,?)",
		[STORE_STMT_NOTICE] = "INSERT INTO notice VALUES(?,?,?,?)",
		[STORE_STMT_PLACE] = "INSERT INTO place VALUES(?,?,?,?,?)",
	};
	int rc = SQLITE_OK;

	for (int i = 0; i < STORE_STMT_COUNT && rc == SQLITE_OK; i++) {
		if (sql[i]) {
			rc = sqlite3_prepare_v3(s->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT,
						&s->stmt[i], NULL);
		}
	}
	rc = rc == SQLITE_OK ? prepare_insert(s, STORE_STMT_LAUNCH, "launch", STORE_LAUNCH_COLUMNS)
			     : rc;
	rc = rc == SQLITE_OK ? prepare_insert(s, STORE_STMT_RECORD, "record",
					      STORE_COL_METRICS + s->n_columns)
			     : rc;
	if (rc == SQLITE_OK && s->sampled) {
		rc = prepare_insert(s, STORE_STMT_SAMPLED, "sampled", 2 + s->n_columns);
		rc = rc == SQLITE_OK && s->n_columns > 0 ? prepare_values(s) : rc;
	}
	if (rc == SQLITE_OK && s->keeps_samples) {
		rc = prepare_insert(s, STORE_STMT_SAMPLES, "sample_block", 6);
		rc = rc == SQLITE_OK ? prepare_insert(s, STORE_STMT_COPIES, "copy_block", 4) : rc;
	}
	if (rc == SQLITE_OK && s->graphs) {
		rc = prepare_insert(s, STORE_STMT_GRAPH_KERNEL, "graph_kernel", 3);
	}
	return rc == SQLITE_OK ? 0 : store_fail(s, rc, "prepare");
}

/* Removes the journals of a killed client's file, which SQLite would apply to the new file. */
static void remove_journals(const char *path)
{
	static const char *const suffixes[] = { "-journal", "-wal", "-shm" };
	char name[PATH_MAX];

	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		if (snprintf(name, sizeof(name), "%s%s", path, suffixes[i]) < (int)sizeof(name)) {
			unlink(name);
		}
	}
}

static int settle(struct store *s)
{
	remove_journals(s->path);
	store_vfs_placed(&s->vfs);
	return store_exec(s, "PRAGMA journal_mode = DELETE");
}

static int fill(struct store *s, const struct store_options *options)
{
	int r = create_tables(s, options->plan);

	r = r ? r : prepare(s);
	if (r == 0) {
		s->in_transaction = true;
		r = meta_write_head(s, options);
	}
	return r ? r : store_commit(s, false);
}

/* Refuses a file that a client is writing, which then holds SQLite's lock. A file that is no
 * database is not in use. */
static int check_unwritten(struct store *s)
{
	struct store_vfs vfs = { 0 };
	sqlite3 *db = NULL;
	int rc = store_vfs_open(&vfs, s->path, NULL, STORE_VFS_PROBE, &db);

	rc = rc == SQLITE_OK ? sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) : rc;
	sqlite3_close(db);
	if ((rc & 0xff) != SQLITE_BUSY) {
		return 0;
	}
	return store_error_set(
		&s->error, STORE_E_BUSY,
		"Give every capture a name of its own: %h, %t and %p in it are host, "
		"task and process.",
		"%s is being written by another program.", s->path);
}

int store_rest(struct store *s)
{
	int r = store_commit(s, false);

	if (r || !s->db) {
		return r;
	}
	store_finalize(s);
	return 0;
}

/* Is the file that we created still at its path? */
static bool is_in_place(const struct store *s)
{
	struct stat st;

	return lstat(s->path, &st) == 0 && st.st_dev == s->vfs.made.st_dev &&
	       st.st_ino == s->vfs.made.st_ino;
}

int store_wake(struct store *s)
{
	struct stat made = s->vfs.made;
	int r;

	if (s->db || s->error.code) {
		return s->error.code;
	}
	r = is_in_place(s) ? store_vfs_open(&s->vfs, s->path, NULL, STORE_VFS_RECOVER, &s->db)
			   : SQLITE_OK;
	s->vfs.made = made;
	if (r != SQLITE_OK) {
		return store_fail(s, r, "open");
	}
	if (!s->db || !is_in_place(s)) {
		store_finalize(s);
		return store_error_set(&s->error, STORE_E_PATH, "Keep others out of its folder.",
				       "%s was replaced while it was closed.", s->path);
	}
	r = tune(s);
	r = r ? r : store_exec(s, "PRAGMA journal_mode = DELETE");
	return r ? r : prepare(s);
}

static int make_new(struct store *s, const struct store_options *options)
{
	int r = open_db(s);

	if (r) {
		return r;
	}
	r = settle(s);
	r = r ? r : fill(s, options);
	if (r) {
		unlink(s->path);
	}
	return r;
}

static int fill_and_move(struct store *s, const struct store_options *options)
{
	int r = open_db(s);

	r = r ? r : fill(s, options);
	if (r == 0) {
		remove_journals(s->path);
		if (rename(s->made_at, s->path) < 0) {
			r = store_error_errno(&s->error, errno, s->path, "replace");
		}
	}
	return r ? r : settle(s);
}

static int replace(struct store *s, const struct store_options *options)
{
	char prefix[PATH_MAX];
	char *made_at;
	int r = check_unwritten(s);

	if (r) {
		return r;
	}
	if (snprintf(prefix, sizeof(prefix), "%s.new.", s->path) >= (int)sizeof(prefix)) {
		return store_error_errno(&s->error, ENAMETOOLONG, s->path, "create");
	}
	made_at = store_private_make(prefix);
	s->made_at = made_at ? strdup(made_at) : NULL;
	r = s->made_at ? fill_and_move(s, options)
		       : store_error_errno(&s->error, made_at ? ENOMEM : errno, s->path, "create");
	store_private_remove(made_at);
	return r;
}

/* Resolves links in the folder's path now, so that later changes of these do not matter. The last
 * name is not resolved: if somebody puts a link there after store_check(), the link itself is
 * replaced, and not the file it leads to. Free with free(). */
static char *resolve_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	char *real = folder ? realpath(folder, NULL) : NULL;
	char *ret = NULL;

	if (real && asprintf(&ret, "%s/%s", real[1] ? real : "", slash ? slash + 1 : path) < 0) {
		ret = NULL;
	}
	free(folder);
	free(real);
	return ret;
}

static struct store *store_new(const struct store_options *options, char *path)
{
	struct store *s = calloc(1, sizeof(*s));

	if (!s || !path) {
		free(s);
		free(path);
		return NULL;
	}
	s->path = path;
	s->n_columns = options->plan->n_columns;
	s->n_metrics = options->plan->n_metrics;
	s->sampled = options->sampled;
	s->keeps_samples = options->sampled && options->keeps_samples;
	s->graphs = options->graphs;
	s->is_temporary = !options->path;
	return s;
}

/* The user has not asked for this file, so it may take only half of the free room. */
static int bound_temporary(struct store *s, const char *path)
{
	struct statvfs room;
	char sql[64];
	unsigned long long pages;

	if (statvfs(path, &room) < 0) {
		return 0;
	}
	pages = (unsigned long long)room.f_bavail * room.f_frsize / 2 / PAGE_BYTES;
	snprintf(sql, sizeof(sql), "PRAGMA max_page_count = %llu",
		 pages < PAGES_LEAST  ? PAGES_LEAST
		 : pages < PAGES_MOST ? pages
				      : PAGES_MOST);
	return store_exec(s, sql);
}

/* The file loses its name as soon as it is open, so it is gone however the program ends. */
static int make_temporary(struct store *s, const struct store_options *options)
{
	char *path = store_private_temporary();
	int r;

	s->made_at = path ? strdup(path) : NULL;
	if (!s->made_at) {
		r = store_error_errno(&s->error, path ? ENOMEM : errno, s->path, "create");
		store_remedy_temporary(s);
	} else {
		r = open_db(s);
		r = r ? r : bound_temporary(s, path);
	}
	store_private_remove(path);
	return r ? r : fill(s, options);
}

static int make(struct store *s, const struct store_options *options)
{
	if (!options->path) {
		return make_temporary(s, options);
	}
	return options->force && is_there(s->path) ? replace(s, options) : make_new(s, options);
}

int store_create(const struct store_options *options, struct store_error *error, struct store **ret)
{
	const char *name = options->path ? options->path : "a temporary file";
	struct store *s;
	int r = options->path ? store_check(options->path, options->force, error) : 0;

	if (r) {
		return r;
	}
	s = store_new(options, options->path ? resolve_folder(options->path) : strdup(name));
	if (!s) {
		return store_error_errno(error, ENOMEM, name, "create");
	}
	r = make(s, options);
	r = r ? r : store_begin(s);
	if (r) {
		if (error) {
			*error = s->error;
		}
		store_close(s);
		return r;
	}
	*ret = s;
	return 0;
}
