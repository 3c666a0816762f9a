/* SPDX-License-Identifier: Apache-2.0 */

/* The life of a capture file that is being written.
 *
 * Durability. The journal is SQLite's rollback journal (journal_mode=DELETE), synchronous is OFF
 * and cache_spill is OFF. Between two commits, about a second apart, new pages stay in our memory
 * and the file does not change at all: a client that is killed, even with SIGKILL, leaves the file
 * as it was after the last commit, readable on its own even when the journal beside it gets lost in
 * a copy. Only a kill within the few milliseconds of a commit needs the journal, which each reader
 * applies to a copy. WAL was not chosen because it needs shared memory (home directories of
 * clusters are on NFS), writes everything twice and leaves three files. No fsync happens while the
 * program runs, because one slow disk would stall the stream of records; store_finish() syncs once.
 * So a power failure, and nothing less, can cost the file.
 *
 * Memory. Uncommitted rows are held in memory, so the store commits after COMMIT_NS, COMMIT_RECORDS
 * or COMMIT_BYTES of images, whichever is first. Others may query the file while it grows. If a
 * reader's lock prevents a commit, the store goes on and tries again, up to MAX_DELAYS times the
 * bounds.
 *
 * The lock. Each transaction is followed by the next one at once, so that SQLite's lock shows that
 * a file is being written. The lock does not keep readers out.
 *
 * Failure. After the first error the transaction is rolled back and the store is inert, because
 * later records would refer to kernels and ranges of the lost transaction. */

#include "client/store/internal.h"

#include <stdlib.h>
#include <time.h>

#include "client/store/meta.h"
#include "proto/base/clock.h"

#define COMMIT_NS UINT64_C(1000000000)
#define COMMIT_RECORDS (UINT64_C(1) << 17)
#define COMMIT_BYTES ((size_t)64 << 20)

enum { MAX_DELAYS = 8 };

static int step_bare(struct store *s, enum store_statement which)
{
	int rc = sqlite3_step(s->stmt[which]);

	sqlite3_reset(s->stmt[which]);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int store_begin(struct store *s)
{
	int rc;

	if (s->error.code) {
		return s->error.code;
	}
	if (s->in_transaction) {
		return 0;
	}
	rc = step_bare(s, STORE_STMT_BEGIN);
	if (rc != SQLITE_OK) {
		return store_fail(s, rc, "begin");
	}
	s->in_transaction = true;
	s->began_ns = clock_now_ns();
	return 0;
}

int store_commit(struct store *s, bool may_delay)
{
	int rc;

	if (!s->in_transaction) {
		return s->error.code;
	}
	sqlite3_busy_timeout(s->db, may_delay ? 0 : STORE_BUSY_TIMEOUT_MS);
	rc = step_bare(s, STORE_STMT_COMMIT);
	sqlite3_busy_timeout(s->db, STORE_BUSY_TIMEOUT_MS);
	if (rc == SQLITE_BUSY && may_delay) {
		s->began_ns = clock_now_ns();
		return 0;
	}
	if (rc != SQLITE_OK) {
		return store_fail(s, rc, "commit");
	}
	s->in_transaction = false;
	s->pending_records = 0;
	s->pending_values = 0;
	s->pending_bytes = 0;
	return 0;
}

static int commit_and_go_on(struct store *s, bool may_delay)
{
	int r = store_commit(s, may_delay);

	return r ? r : store_begin(s);
}

int store_commit_if_due(struct store *s)
{
	uint64_t rows = s->pending_records + s->pending_values;
	bool large = rows >= COMMIT_RECORDS || s->pending_bytes >= COMMIT_BYTES;
	bool too_large = rows >= MAX_DELAYS * COMMIT_RECORDS ||
			 s->pending_bytes >= MAX_DELAYS * COMMIT_BYTES;

	/* Reads the clock for one record in 64 only: this takes a tenth of a record's time. */
	if (!large && rows % 64 != 0) {
		return 0;
	}
	if (!large && clock_now_ns() - s->began_ns < COMMIT_NS) {
		return 0;
	}
	return commit_and_go_on(s, !too_large);
}

int store_tick(struct store *s)
{
	if (!s->in_transaction || clock_now_ns() - s->began_ns < COMMIT_NS) {
		return s->error.code;
	}
	return commit_and_go_on(s, true);
}

int store_exec(struct store *s, const char *sql)
{
	int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : store_fail(s, rc, "set up");
}

/* --- the end --------------------------------------------------------------------------------- */

int store_finish(struct store *s, const struct gpuctr_end *end)
{
	int r = store_commit(s, false);

	/* The only sync. It is set here because the level cannot be changed inside a transaction.
	 */
	r = r || s->is_temporary ? r : store_exec(s, "PRAGMA synchronous = FULL");
	r = r ? r : store_begin(s);
	r = r ? r : meta_write_end(s, end);
	return r ? r : store_commit(s, false);
}

void store_finalize(struct store *s)
{
	for (int i = 0; i < STORE_STMT_COUNT; i++) {
		sqlite3_finalize(s->stmt[i]);
		s->stmt[i] = NULL;
	}
	sqlite3_close(s->db);
	s->db = NULL;
}

struct store *store_close(struct store *s)
{
	if (!s) {
		return NULL;
	}
	store_commit(s, false);
	store_finalize(s);
	written_deinit(&s->written);
	packed_deinit(&s->packed);
	free(s->path);
	free(s->made_at);
	free(s->chain);
	free(s->numbers);
	free(s->set);
	free(s->planes);
	free(s);
	return NULL;
}

uint64_t store_saved(const struct store *s)
{
	return s->saved;
}

uint64_t store_unsaved(const struct store *s)
{
	return s->unsaved;
}

const struct store_error *store_last_error(const struct store *s)
{
	return &s->error;
}
