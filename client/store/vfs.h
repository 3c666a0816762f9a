/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Opens a database with SQLite, which may touch no other file than the database and its journal. */

#include <sqlite3.h>
#include <stdbool.h>
#include <sys/stat.h>

enum store_vfs_use {
	STORE_VFS_READ,	   /* writes nothing; a journal that is to be applied is SQLITE_READONLY */
	STORE_VFS_RECOVER, /* applies the journal */
	STORE_VFS_PROBE,   /* for a caller that only needs a lock: no journal is looked at */
	STORE_VFS_CREATE,  /* makes the file; no journal is looked at until store_vfs_placed() */
};

/* Zero-initialised by the caller; stays where it is until the database is closed. */
struct store_vfs {
	sqlite3_vfs vfs;
	sqlite3_vfs *base;
	sqlite3_io_methods methods; /* of a database that is made elsewhere than at path */
	const sqlite3_io_methods *base_methods;
	char name[32];
	enum store_vfs_use use;
	bool placed;
	const char *path, *made_at;
	struct stat made;
};

/* The result of sqlite3_open_v2(). made_at: where the file is made that the caller will move to
 * path, or NULL: at path. Both live until the database is closed. */
int store_vfs_open(struct store_vfs *v, const char *path, const char *made_at,
		   enum store_vfs_use use, sqlite3 **ret);
/* The new file is now at path. A journal that was there before belongs to another file and is not
 * looked at. */
void store_vfs_placed(struct store_vfs *v);

/* Does the owner of the file at path have a journal beside it? Sets its size. */
bool store_vfs_has_journal(const char *path, off_t *ret_size);
/* The same for files that were opened or looked at already. */
bool store_vfs_is_journal_of(const struct stat *journal, const struct stat *database);
