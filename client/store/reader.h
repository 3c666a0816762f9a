/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads a capture file. The file is not trusted: store_open() checks the header, the size, the
 * pages and the shape of every table, and each value is checked against its range when it is read,
 * so that a damaged or hostile file gives a STORE_E_* code and never a wild value.
 *
 * What the functions return is borrowed and lives as long as the reader, unless said otherwise.
 *
 *	struct store_error error;
 *	struct store_reader *r;
 *	store_open("run.gpuctr", &error, &r);
 *	const struct store_info *info = store_info(r);
 *	for (size_t i = 0; i < info->n_processes; i++) {
 *		struct store_kernels kernels;
 *		store_load_kernels(r, info->processes[i].process.process, &kernels);
 *		store_images(r, process, 0, 0, &cursor);
 *		while ((rc = store_next_image(cursor, &image)) == 0 && image) ...
 *		store_cursor_free(cursor);
 *	}
 */

#include "client/store/store.h"

/* One process of the capture. */
struct store_process {
	struct gpuctr_process process; /* the process with its devices */
	struct gpuctr_totals totals;
	bool ended; /* the process's totals were delivered */
	bool clean;
	/* 0 until store_count_rows() was called. */
	uint64_t records; /* rows in the file */
	uint64_t images;
	uint64_t first, last; /* smallest and largest record index; 0, 0 when there are none */
	bool has_records, has_marks; /* the file had some when it was opened */
};

struct store_info {
	const char *path;
	const char *version;	 /* version of the client that wrote the file */
	const char *command;	 /* shell-quoted */
	const char *const *argv; /* the command as an array that ends with NULL */
	const char *host, *user;
	const char *driver;
	const char *recorded_from; /* path of the recording; "": measured live */
	int64_t created_ns;
	int64_t first_ns; /* begin of the first kernel; 0: unknown, or before store_find_first() */
	bool complete;	  /* the capture ended as requested, and the totals are final */
	bool is_written;  /* the writer is running: it holds SQLite's lock */
	struct gpuctr_totals totals;
	struct gpuctr_plan plan; /* chip, passes, columns, hardware metrics */
	bool sampled;		 /* values are of samples of whole GPUs, and have errors */
	bool has_samples;	 /* the file has these samples */
	bool graphs;		 /* records may be kernels of graphs */
	uint64_t sample_ns;	 /* the length of a sample; 0: not known */
	const char *unsampled;	 /* how many kernels have no value, by reason; "": not known */
	int end_code;		 /* enum gpuctr_error_code */
	const char *end_message;
	const struct gpuctr_gpu *gpus; /* the leased GPUs */
	size_t n_gpus;
	const struct store_unknown *unknown; /* times without known samples */
	size_t n_unknown;
	const struct store_process *processes; /* sorted by number */
	size_t n_processes;
};

/* The kernels of one process, sorted by id. Ids may have gaps. */
struct store_kernels {
	const struct gpuctr_kernel *items;
	size_t n;
};

struct store_reader;
struct store_cursor;

/* *ret is only written on success. error may be NULL. */
int store_open(const char *path, struct store_error *error, struct store_reader **ret);
/* As store_open(), but returns while the pages are still being checked. The caller must not write
 * output before store_check_pages() has returned 0. */
int store_open_unchecked(const char *path, struct store_error *error, struct store_reader **ret);
int store_check_pages(struct store_reader *r); /* waits for the result; may be called again */
/* Reads what a writer has written so far, committed or not, through the writer's own connection.
 * Rows may be written while others are read. Nothing is checked. The reader must be freed before
 * the store is closed. */
int store_read_back(struct store *s, struct store_error *error, struct store_reader **ret);
struct store_reader *store_reader_free(struct store_reader *r); /* takes NULL, returns NULL */
const struct store_info *store_info(const struct store_reader *r);
/* Reasons why a capture is not complete. */
enum store_lack {
	STORE_LACKS_NOTHING,
	STORE_IS_WRITTEN,
	STORE_WAS_CUT,
	STORE_MAY_BE_CUT,  /* all processes have ended, but the file is not complete */
	STORE_ENDED_EARLY, /* end_message says why */
	STORE_LACKS
};
enum store_lack store_lack(const struct store_info *info);
extern const char *const store_lacks[STORE_LACKS];
/* Counts records and images in a pass over all of them. A caller that reads them anyway should
 * count by itself. */
int store_count_rows(struct store_reader *r);
/* Finds info.first_ns, in a pass over all records. */
int store_find_first(struct store_reader *r);
/* The last failure of any call on this reader or its cursors. */
const struct store_error *store_reader_error(const struct store_reader *r);

/* Makes records brief, which is faster and suffices for sums. Records of later cursors lack
 * correlation, seq, opened and the occurrence: these are 0, NULL or -1. */
void store_be_brief(struct store_reader *r, bool brief);

/* Reads the kernels of a process once; later calls return the same array. Rows of the process's
 * cursors point to these kernels. */
int store_load_kernels(struct store_reader *r, unsigned process, struct store_kernels *ret);

/* Opens a cursor for rows of one process, in the order of their index: rows with first <= index <
 * first + count, or from first to the end if count is 0. Images belong to the interval by their
 * first record. A cursor must be freed before its reader. */
int store_records(struct store_reader *r, unsigned process, uint64_t first, uint64_t count,
		  struct store_cursor **ret);
int store_images(struct store_reader *r, unsigned process, uint64_t first, uint64_t count,
		 struct store_cursor **ret);
int store_marks(struct store_reader *r, unsigned process, struct store_cursor **ret);
struct store_cursor *store_cursor_free(struct store_cursor *c);

/* Blocks of samples, in the order of time for each GPU, and blocks of a process's copies, if the
 * capture keeps samples. A block lives until the next call, which sets *ret to NULL after the last
 * block. struct store_blocks must be freed before the reader. */
struct store_blocks;
int store_samples(struct store_reader *r, struct store_blocks **ret);
/* The UUIDs of sampled GPUs; they live as long as the reader. */
int store_sampled_gpus(struct store_reader *r, const char *const **ret, size_t *ret_n);
int store_copies(struct store_reader *r, unsigned process, struct store_blocks **ret);
int store_next_samples(struct store_blocks *b, const struct store_samples **ret);
int store_next_copies(struct store_blocks *b, const struct gpuctr_copy **ret, size_t *ret_n);
struct store_blocks *store_blocks_free(struct store_blocks *b); /* takes NULL, returns NULL */
/* Calls on_samples for each block of samples. A result other than 0 ends this and is returned. */
int store_each_samples(struct store_reader *r,
		       int (*on_samples)(const struct store_samples *samples, void *userdata),
		       void *userdata);

/* Sets *ret to the next row, or to NULL after the last. A row lives until the next call on the same
 * cursor; its sites live as long as the reader. The checksum of an image was verified. */
int store_next_record(struct store_cursor *c, const struct gpuctr_record **ret);
/* What the file says about the record that was read last. Records with the same launch differ only
 * in index, times, values, graph, step, seq and what a brief record lacks. The other members are
 * attribution that the writer found; -1 and NULL are not known. */
struct store_found {
	unsigned launch; /* launches are numbered from 1, by their first records */
	const struct gpuctr_site *forward; /* site that gives layer and step where the record's own
					      site has none; may be its own */
	int64_t step, seq;
};
const struct store_found *store_record_found(const struct store_cursor *c);
int store_next_image(struct store_cursor *c, const struct gpuctr_image **ret);
int store_next_mark(struct store_cursor *c, const struct gpuctr_mark **ret);
/* The notices of all processes, in order. */
int store_notices(struct store_reader *r, const struct gpuctr_notice **ret, size_t *ret_n);
