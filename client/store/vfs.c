/* SPDX-License-Identifier: Apache-2.0 */

/* Between SQLite and the files around a capture.
 *
 * A capture may lie where others write: in their folder, or in a sticky one as /tmp. What they put
 * beside it under the name of its journal SQLite would take for what a killed writer has left: it
 * would roll the pages in it back into the file, and remove the file that it names as
 * super-journal, whosever that is. Nor is a write-ahead log any part of a capture. So a connection
 * knows two files, the database and its journal:
 *
 * - A journal is looked at only when it is a regular file with one name, of who owns the database,
 *   of root or of us. A reader does not open it at all: SQLite then takes it for one that is to be
 *   applied, may not write, and says so (private.c makes the copy in which it may).
 * - A writer makes its journal anew each time, exclusively. What lies under the name is removed:
 *   SQLite makes one while it holds the lock and has found none to apply.
 * - A super-journal, which we never write, is neither opened nor removed.
 * - The path of a file that is made or replaced has no link in it: SQLite would put the journal
 *   beside what that leads to.
 *
 * A file that takes the place of another is made in a folder of its own and moved into place under
 * the open connection, so nobody can exchange it in between. SQLite knows it by its last name from
 * the beginning; until it is there it has no journal, and when SQLite asks whether the file was
 * moved or replaced, which it does before it makes a journal, our answer is about that name. */

#include "client/store/vfs.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct store_vfs *vfs_of(sqlite3_vfs *vfs)
{
	return (struct store_vfs *)vfs; /* its first member */
}

static bool ends_with(const char *name, const char *end)
{
	size_t n = strlen(name), n_end = strlen(end);

	return n >= n_end && strcmp(name + n - n_end, end) == 0;
}

/* --- journals -------------------------------------------------------------------------------- */

bool store_vfs_is_journal_of(const struct stat *journal, const struct stat *database)
{
	return S_ISREG(journal->st_mode) && journal->st_nlink == 1 &&
	       (journal->st_uid == database->st_uid || journal->st_uid == geteuid() ||
		journal->st_uid == 0);
}

bool store_vfs_has_journal(const char *path, off_t *ret_size)
{
	char name[PATH_MAX];
	struct stat journal, database;

	if (snprintf(name, sizeof(name), "%s-journal", path) >= (int)sizeof(name) ||
	    lstat(name, &journal) < 0 || stat(path, &database) < 0 ||
	    !store_vfs_is_journal_of(&journal, &database)) {
		return false;
	}
	*ret_size = journal.st_size;
	return true;
}

static bool looks_at_journals(const struct store_vfs *v)
{
	return v->use == STORE_VFS_READ || v->use == STORE_VFS_RECOVER || v->placed;
}

static int open_journal(struct store_vfs *v, const char *name, sqlite3_file *file, int flags,
			int *ret_flags)
{
	int got = 0, rc;

	if (v->use == STORE_VFS_READ) {
		return SQLITE_CANTOPEN;
	}
	if ((flags & SQLITE_OPEN_CREATE) != 0) {
		unlink(name);
		flags |= SQLITE_OPEN_EXCLUSIVE;
	}
	rc = v->base->xOpen(v->base, name, file, flags, &got);
	/* Where it may not write it falls back to reading. */
	if (rc == SQLITE_OK && (flags & SQLITE_OPEN_CREATE) != 0 &&
	    (got & SQLITE_OPEN_READONLY) != 0) {
		file->pMethods->xClose(file);
		file->pMethods = NULL;
		return SQLITE_CANTOPEN;
	}
	if (ret_flags) {
		*ret_flags = got;
	}
	return rc;
}

/* --- the database ---------------------------------------------------------------------------- */

/* Another may have taken the place of the file that we have moved there. */
static int on_control(sqlite3_file *file, int op, void *arg)
{
	struct store_vfs *v =
		(struct store_vfs *)((char *)file->pMethods - offsetof(struct store_vfs, methods));
	struct stat st;

	if (op != SQLITE_FCNTL_HAS_MOVED) {
		return v->base_methods->xFileControl(file, op, arg);
	}
	*(int *)arg = v->placed && (stat(v->path, &st) < 0 || st.st_dev != v->made.st_dev ||
				    st.st_ino != v->made.st_ino);
	return SQLITE_OK;
}

static int create_database(struct store_vfs *v, const char *name, sqlite3_file *file, int flags,
			   int *ret_flags)
{
	int got = 0, rc;

	flags |= SQLITE_OPEN_CREATE | SQLITE_OPEN_EXCLUSIVE;
	rc = v->base->xOpen(v->base, v->made_at ? v->made_at : name, file, flags, &got);
	if (rc != SQLITE_OK) {
		return rc;
	}
	if ((got & SQLITE_OPEN_READONLY) != 0 ||
	    lstat(v->made_at ? v->made_at : name, &v->made) < 0) {
		file->pMethods->xClose(file);
		file->pMethods = NULL;
		return SQLITE_CANTOPEN;
	}
	if (v->made_at) {
		v->base_methods = file->pMethods;
		v->methods = *file->pMethods;
		v->methods.xFileControl = on_control;
		file->pMethods = &v->methods;
	}
	if (ret_flags) {
		*ret_flags = got;
	}
	return SQLITE_OK;
}

/* --- what SQLite calls ----------------------------------------------------------------------- */

static int on_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
		   int *ret_flags)
{
	struct store_vfs *v = vfs_of(vfs);

	file->pMethods = NULL;
	if ((flags & SQLITE_OPEN_SUPER_JOURNAL) != 0) {
		return SQLITE_CORRUPT;
	}
	if ((flags & SQLITE_OPEN_WAL) != 0) {
		return SQLITE_CANTOPEN;
	}
	if ((flags & SQLITE_OPEN_MAIN_JOURNAL) != 0) {
		return open_journal(v, name, file, flags, ret_flags);
	}
	if ((flags & SQLITE_OPEN_MAIN_DB) != 0 && v->use == STORE_VFS_CREATE) {
		return create_database(v, name, file, flags, ret_flags);
	}
	return v->base->xOpen(v->base, name, file, flags, ret_flags);
}

static int on_delete(sqlite3_vfs *vfs, const char *name, int sync_folder)
{
	struct store_vfs *v = vfs_of(vfs);

	return v->use != STORE_VFS_READ && ends_with(name, "-journal")
		       ? v->base->xDelete(v->base, name, sync_folder)
		       : SQLITE_IOERR_DELETE;
}

/* SQLite asks for a journal, for a log, and for the super-journal that a journal names. */
static int on_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret)
{
	struct store_vfs *v = vfs_of(vfs);
	size_t n = strlen(name) - (ends_with(name, "-journal") ? strlen("-journal") : 0);
	char path[PATH_MAX];
	off_t size;

	*ret = 0;
	if (ends_with(name, "-wal")) {
		return SQLITE_OK;
	}
	if (name[n] == '\0' || n >= sizeof(path)) {
		return SQLITE_CORRUPT;
	}
	memcpy(path, name, n);
	path[n] = '\0';
	*ret = looks_at_journals(v) && store_vfs_has_journal(path, &size);
	return SQLITE_OK;
}

int store_vfs_open(struct store_vfs *v, const char *path, const char *made_at,
		   enum store_vfs_use use, sqlite3 **ret)
{
	int flags = SQLITE_OPEN_NOMUTEX |
		    (use == STORE_VFS_READ ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE) |
		    (use == STORE_VFS_CREATE || use == STORE_VFS_PROBE ? SQLITE_OPEN_NOFOLLOW : 0);
	int rc;

	*ret = NULL;
	*v = (struct store_vfs){
		.base = sqlite3_vfs_find(NULL), .use = use, .path = path, .made_at = made_at
	};
	if (!v->base) {
		return SQLITE_MISUSE;
	}
	snprintf(v->name, sizeof(v->name), "gpuctr-%p", (void *)v);
	v->vfs = *v->base;
	v->vfs.zName = v->name;
	v->vfs.xOpen = on_open;
	v->vfs.xDelete = on_delete;
	v->vfs.xAccess = on_access;
	rc = sqlite3_vfs_register(&v->vfs, 0);
	if (rc == SQLITE_OK) {
		rc = sqlite3_open_v2(path, ret,
				     flags | (use == STORE_VFS_CREATE ? SQLITE_OPEN_CREATE : 0),
				     v->name);
		sqlite3_vfs_unregister(&v->vfs); /* the connection keeps it */
	}
	return rc;
}

void store_vfs_placed(struct store_vfs *v)
{
	v->placed = true;
}
