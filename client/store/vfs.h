/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Opens a database with SQLite, which may touch no other file than the database and its journal. */

#include <sqlite3.h>
#include <stdbool.h>
#include <sys/stat.h>

enum store_vfs_use {
	STORE_VFS_READ,	   /* writes nothing; SQLITE_READONLY if a journal must be applied */
	STORE_VFS_RECOVER, /* applies the journal */
	STORE_VFS_PROBE,   /* for a caller that only needs a lock; ignores journals */
	STORE_VFS_CREATE,  /* makes the file; ignores journals until store_vfs_placed() */
};

/* Zero-initialised by the caller; stays where it is until the database is closed. */
struct store_vfs {
	sqlite3_vfs vfs;
	sqlite3_vfs *base;
	sqlite3_io_methods methods; /* used if the database is made at made_at */
	const sqlite3_io_methods *base_methods;
	char name[32];
	enum store_vfs_use use;
	bool placed;
	const char *path, *made_at;
	struct stat made;
};

/* Returns the result of sqlite3_open_v2(). made_at: where to make the file, which the caller then
 * moves to path; NULL: at path. Both texts must live until the database is closed. */
int store_vfs_open(struct store_vfs *v, const char *path, const char *made_at,
		   enum store_vfs_use use, sqlite3 **ret);
/* Tells that the new file is now at path. Ignores a journal of an earlier file there. */
void store_vfs_placed(struct store_vfs *v);

/* Is there a journal beside the file at path that belongs to the file? Sets the journal's size. */
bool store_vfs_has_journal(const char *path, off_t *ret_size);
/* As store_vfs_has_journal(), from the status of both files. */
bool store_vfs_is_journal_of(const struct stat *journal, const struct stat *database);
