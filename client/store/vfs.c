/* SPDX-License-Identifier: Apache-2.0 */

/* Controls which files around a capture SQLite opens, removes and looks at.
 *
 * A capture may lie in a folder where other users write, such as /tmp. If one of them puts a file
 * there under the name of the capture's journal, SQLite would take this for the journal of a killed
 * writer: it would roll pages from it back into the capture, and remove any file that it names as
 * super-journal. So a connection knows two files, the database and its journal, and no write-ahead
 * log:
 *
 * - A journal counts only if it is a regular file with one name, owned by the database's owner, by
 *   root or by us. A reader never opens it: SQLite then reports that it may not apply the journal,
 *   and private.c makes a copy in which SQLite may.
 * - A writer makes its journal anew each time, exclusively, and removes any file of that name:
 *   SQLite makes a journal while it holds the lock and has found none to apply.
 * - A super-journal, which we never write, is neither opened nor removed.
 * - The path of a file that is made or replaced must not contain a link: SQLite would put the
 *   journal beside the link's target.
 *
 * A file that replaces another is made in a folder of its own and moved into place while the
 * connection is open, so nobody can exchange it in between. SQLite knows the file by its final path
 * from the beginning. Before the move, the file has no journal. When SQLite asks whether the file
 * was moved, which it does before it makes a journal, our answer is about the final path. */

#include "client/store/vfs.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct store_vfs *vfs_of(sqlite3_vfs *vfs)
{
	return (struct store_vfs *)vfs; /* vfs is the first member */
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
	/* SQLite falls back to reading if it may not write. */
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

/* Answers whether another file has replaced the one that we have moved to path. */
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

/* SQLite asks whether a journal exists, a log, or the super-journal that a journal names. */
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
