/* SPDX-License-Identifier: Apache-2.0 */

/* Checks the structure of all pages. This takes as long as reading the file, so a thread with a
 * connection of its own does it while the reader reads already. The reader checks each value, and
 * reads only as many as the file's size allows, so a damaged file is harmless meanwhile. But no
 * output may be written before the result, for which store_check_pages() waits. If no thread can be
 * started, the pages are checked at once. */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "client/store/internal.h"
#include "client/store/reader_internal.h"

struct store_check {
	struct store_reader own; /* borrows path and file of the reader */
	pthread_t thread;
	bool running;
	int result;
};

static int check_pages(struct store_reader *r)
{
	sqlite3_stmt *stmt;
	const char *verdict;
	int result = reader_prepare(r, "PRAGMA quick_check(1)", &stmt);
	int rc;

	if (result) {
		return result;
	}
	rc = sqlite3_step(stmt);
	verdict = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
	if (rc != SQLITE_ROW) {
		result = reader_fail(r, rc, "check");
	} else if (!verdict || strcmp(verdict, "ok") != 0) {
		result = store_error_set(&r->error, STORE_E_CORRUPT, reader_take_intact,
					 "%s: the file is damaged (%s).", r->path,
					 verdict ? verdict : "no verdict");
	}
	sqlite3_finalize(stmt);
	return result;
}

static void *run(void *userdata)
{
	struct store_check *c = userdata;

	c->result = check_pages(&c->own);
	return NULL;
}

int reader_check_begin(struct store_reader *r)
{
	struct store_check *c = calloc(1, sizeof(*c));

	if (!c) {
		return reader_fail(r, SQLITE_NOMEM, "check");
	}
	r->check = c;
	c->own = (struct store_reader){
		.path = r->path, .file = r->file, .is_copy = r->is_copy, .size = r->size
	};
	c->result = reader_open_db(&c->own);
	if (c->result == 0) {
		c->running = pthread_create(&c->thread, NULL, run, c) == 0;
		if (!c->running) {
			run(c);
		}
	}
	return 0;
}

int reader_check_end(struct store_reader *r)
{
	struct store_check *c = r->check;

	if (!c) {
		return 0; /* a file of our own needs no check */
	}
	if (c->running) {
		pthread_join(c->thread, NULL);
		c->running = false;
	}
	if (c->result) {
		r->error = c->own.error;
	}
	return c->result;
}

void reader_check_free(struct store_reader *r)
{
	struct store_check *c = r->check;

	if (!c) {
		return;
	}
	if (c->running) {
		sqlite3_interrupt(c->own.db);
		pthread_join(c->thread, NULL);
	}
	sqlite3_close(c->own.db);
	free(c);
}
