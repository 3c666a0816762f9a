/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by the files of the reader. */

#include <sqlite3.h>

#include "proto/base/arena.h"
#include "client/store/reader.h"
#include "client/store/vfs.h"

/* The sites of one process, sorted by id. Ids may have gaps. */
struct store_sites {
	const struct gpuctr_site *items;
	size_t n;
};

struct store_reader {
	struct store_vfs vfs;
	sqlite3 *db;
	bool is_borrowed;    /* the connection is the writer's */
	char *path;	     /* path in messages */
	char *file;	     /* the file that is read: path with links resolved, or the copy */
	bool is_copy;	     /* the file is a copy, because its writer was killed in a commit */
	uint64_t size;	     /* sizes of the file and its journal at opening */
	uint64_t steps_left; /* remaining steps of SQLite's, in thousands, until the file was
				checked */
	struct arena arena;
	struct store_info info;
	struct store_process *processes;
	struct store_kernels *kernels; /* kernels of each process; items NULL: not read yet */
	struct store_sites *sites;     /* sites of each process, likewise */
	bool is_brief;
	struct store_check *check; /* the check of the pages; NULL: not begun */
	struct store_error error;
};

/* --- reader_db.c */
int reader_fail(struct store_reader *r, int rc, const char *call);
extern const char reader_take_intact[]; /* the remedy for a damaged file */
/* Sets and returns STORE_E_CORRUPT. table: the text behind FROM, which begins with its name. */
int reader_corrupt(struct store_reader *r, const char *table, const char *what);
int reader_prepare(struct store_reader *r, const char *sql, sqlite3_stmt **ret);
/* Opens the connection to r->file, and limits its steps. */
int reader_open_db(struct store_reader *r);

/* --- check.c: checks all pages in a thread, beside the reader. */
int reader_check_begin(struct store_reader *r);
int reader_check_end(struct store_reader *r); /* waits for the result; may be called again */
void reader_check_free(struct store_reader *r);

/* --- row.c: a row whose values are checked. The first bad value is remembered, and every getter
 * still returns something harmless, so that one check per row, row_end(), is enough. */
struct row {
	struct store_reader *reader;
	sqlite3_stmt *stmt;
	const char *table;
	int error; /* 0, -ENOMEM or STORE_E_CORRUPT */
};

int row_step(struct row *row, bool *ret_more);
int64_t row_int(struct row *row, int column, int64_t min, int64_t max);
uint32_t row_u32(struct row *row, int column);
uint64_t row_u63(struct row *row, int column);
int64_t row_i64(struct row *row, int column);
/* Valid until the next row. */
const char *row_borrow_text(struct row *row, int column, size_t *ret_length);
/* Returns a copy in the reader's pool. */
const char *row_text(struct row *row, int column);
double row_double(struct row *row, int column); /* returns NaN for NULL */
void row_totals(struct row *row, int column, struct gpuctr_totals *ret);
/* Returns 0 if all values read from this row were valid, else the error. */
int row_end(const struct row *row);

/* Counts the rows of a table ("device WHERE process = 1"); more than max is an error. */
int reader_count(struct store_reader *r, const char *table, int64_t max, size_t *ret);
/* Passes the rows of a query to take(), one by one; there must be exactly n. */
int reader_rows(struct store_reader *r, const char *table, const char *sql, size_t n,
		void (*take)(struct row *row, size_t i, void *userdata), void *userdata);

/* A query whose rows become an array. */
struct reader_list {
	const char *columns, *from, *order; /* "id, name", "kernel WHERE process = 1", "id" */
	int64_t max;			    /* most rows; more are an error */
	size_t size;			    /* size of an item */
	void (*take)(struct row *row, size_t i, void *items);
};
/* ret: address of a pointer to items. The items lie in the reader's pool, with a zeroed one behind
 * the last. Both results are set before the rows are taken. */
int reader_list(struct store_reader *r, const struct reader_list *list, void *ret, size_t *ret_n);

/* --- info.c */
int info_read_capture(struct store_reader *r);
int info_read_processes(struct store_reader *r);
/* NULL: the file has no such process, though it may have rows of it. */
struct store_process *info_find_process(const struct store_reader *r, int64_t id);

/* --- kernels.c */
const struct gpuctr_kernel *reader_find_kernel(const struct store_kernels *kernels, unsigned id);

/* --- sites.c */
/* Reads the sites of a process once, as store_load_kernels() does kernels. */
int reader_load_sites(struct store_reader *r, unsigned process, struct store_sites *ret);
const struct gpuctr_site *reader_find_site(const struct store_sites *sites, unsigned id);
/* Start/end ranges that were open at a record. Zero-initialised by the caller, who frees sites. */
struct active_set {
	unsigned id;
	const struct gpuctr_site **sites;
	size_t n, max;
};
int reader_load_set(struct store_reader *r, unsigned process, const struct store_sites *sites,
		    unsigned id, struct active_set *set);
