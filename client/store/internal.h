/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by the files of the writer. */

#include <sqlite3.h>
#include <sys/types.h>

#include "client/store/packed.h"
#include "client/store/written.h"
#include "client/store/store.h"
#include "client/store/vfs.h"

enum { STORE_BUSY_TIMEOUT_MS = 2000 };

enum store_statement {
	STORE_STMT_BEGIN,
	STORE_STMT_COMMIT,
	STORE_STMT_META,
	STORE_STMT_PROCESS,
	STORE_STMT_PROCESS_END,
	STORE_STMT_DEVICE,
	STORE_STMT_KERNEL,
	STORE_STMT_SITE,
	STORE_STMT_ACTIVE,
	STORE_STMT_RECORD,
	STORE_STMT_MARK,
	STORE_STMT_IMAGE,
	STORE_STMT_NOTICE,
	STORE_STMT_PLACE,
	STORE_STMT_LAUNCH,
	STORE_STMT_SAMPLED,
	STORE_STMT_VALUES,
	STORE_STMT_SAMPLES,
	STORE_STMT_COPIES,
	STORE_STMT_GRAPH_KERNEL,
	STORE_STMT_COUNT,
};

struct store {
	struct store_vfs vfs;
	sqlite3 *db;
	char *path;
	char *made_at; /* path under which the file was created before it replaced another; or NULL
			*/
	sqlite3_stmt *stmt[STORE_STMT_COUNT];
	size_t n_columns, n_metrics;
	bool sampled, graphs; /* the file has this table */
	bool keeps_samples;   /* the file keeps samples and copies */
	bool is_temporary;    /* the file has no name */
	uint8_t *planes;      /* bytes of the block being written */
	struct written written;
	struct packed packed;		  /* the last image or block */
	const struct gpuctr_site **chain; /* sites to be written, the innermost first */
	size_t max_chain;
	int64_t *set; /* process and active ranges of the record being written */
	size_t max_set;
	uint8_t *numbers; /* encoded numbers of the record being written */
	size_t max_numbers;

	bool in_transaction;
	uint64_t began_ns;
	uint64_t pending_records; /* records in the open transaction */
	uint64_t pending_values;  /* values of earlier records in it */
	size_t pending_bytes;	  /* bytes of images and blocks in it */
	uint64_t saved, unsaved;
	unsigned unknown; /* number of unknown intervals written */
	struct store_error error;
};

/* A count in the form of the file. A program may report any count, and SQLite's integers are
 * signed: larger counts become the largest integer. */
static inline int64_t store_count(uint64_t n)
{
	return n < INT64_MAX ? (int64_t)n : INT64_MAX;
}

/* --- error.c */
__attribute__((format(printf, 4, 5))) int
store_error_set(struct store_error *error, int code, const char *remedy, const char *format, ...);
/* Translates a result of SQLite into a code of ours; call names the operation. */
int store_error_sqlite(struct store_error *error, sqlite3 *db, int rc, const char *path,
		       const char *call);
/* Translates an errno into a code of ours. */
int store_error_errno(struct store_error *error, int err, const char *path, const char *call);
/* Sets the remedy if the store's temporary file could not be made or written. */
void store_remedy_temporary(struct store *s);
/* Makes the store inert because of SQLite's last error; returns the code. */
int store_fail(struct store *s, int rc, const char *call);

/* --- store.c */
/* Begins a transaction where none is open. */
int store_begin(struct store *s);
/* Commits when the transaction is old or large enough. */
int store_commit_if_due(struct store *s);
/* Commits. may_delay: if a reader's lock prevents the commit, the transaction stays open, and that
 * is no failure. */
int store_commit(struct store *s, bool may_delay);
int store_exec(struct store *s, const char *sql);
/* Closes the database and changes nothing else. */
void store_finalize(struct store *s);
