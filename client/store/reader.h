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
	struct gpuctr_process process; /* with its devices */
	struct gpuctr_totals totals;
	bool ended; /* the process's totals were delivered */
	bool clean;
	/* 0 until store_count_rows() was called. */
	uint64_t records; /* rows in the file */
	uint64_t images;
	uint64_t first, last; /* smallest and largest record index; 0, 0 when there are none */
	bool has_records, has_marks; /* when the file was opened */
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
	int64_t first_ns; /* when the first kernel began; 0: no record says it, or not asked for */
	bool complete;	  /* the capture ended as requested, and the totals are final */
	bool is_written;  /* by its writer, who holds SQLite's lock */
	struct gpuctr_totals totals;
	struct gpuctr_plan plan; /* chip, passes, columns, hardware metrics */
	bool sampled;		 /* values are of samples of whole GPUs, and have errors */
	bool has_samples;	 /* which are in the file */
	bool graphs;		 /* records may be kernels of graphs */
	uint64_t sample_ns;	 /* the length of a sample; 0: not known */
	const char *unsampled;	 /* how many kernels have no value, by reason; "": not known */
	int end_code;		 /* enum gpuctr_error_code */
	const char *end_message;
	const struct gpuctr_gpu *gpus; /* that were leased */
	size_t n_gpus;
	const struct store_unknown *unknown; /* of the samples */
	size_t n_unknown;
	const struct store_process *processes; /* by number */
	size_t n_processes;
};

/* Of one process, sorted by id. Ids may have gaps. */
struct store_kernels {
	const struct gpuctr_kernel *items;
	size_t n;
};

struct store_reader;
struct store_cursor;

/* *ret is only written on success. error may be NULL. */
int store_open(const char *path, struct store_error *error, struct store_reader **ret);
/* The same while the pages are still being checked: the caller must not write output before
 * store_check_pages() has returned 0. */
int store_open_unchecked(const char *path, struct store_error *error, struct store_reader **ret);
int store_check_pages(struct store_reader *r); /* waits for the result; may be called again */
/* What a writer has written so far, committed or not, by the writer's own connection: rows may be
 * written while others are read. Nothing of it is checked. To be freed before the store is closed.
 */
int store_read_back(struct store *s, struct store_error *error, struct store_reader **ret);
struct store_reader *store_reader_free(struct store_reader *r); /* takes NULL, returns NULL */
const struct store_info *store_info(const struct store_reader *r);
/* Why a capture is not complete, and the words for it. */
enum store_lack {
	STORE_LACKS_NOTHING,
	STORE_IS_WRITTEN,
	STORE_WAS_CUT,
	STORE_MAY_BE_CUT,  /* its processes have ended, and its writer may have closed it meanwhile
			    */
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

/* For sums: records of cursors that are made from then on lack, to save time, correlation, seq,
 * opened and the occurrence, which are 0 or NULL, or -1. */
void store_be_brief(struct store_reader *r, bool brief);

/* Reads the kernels of a process once; later calls return the same, and the rows of its cursors
 * point to them. */
int store_load_kernels(struct store_reader *r, unsigned process, struct store_kernels *ret);

/* Rows of one process in the order of their index: those with first <= index < first + count, or
 * from first to the end when count is 0. Images: those whose first record lies in that interval. A
 * cursor must be freed before its reader. */
int store_records(struct store_reader *r, unsigned process, uint64_t first, uint64_t count,
		  struct store_cursor **ret);
int store_images(struct store_reader *r, unsigned process, uint64_t first, uint64_t count,
		 struct store_cursor **ret);
int store_marks(struct store_reader *r, unsigned process, struct store_cursor **ret);
struct store_cursor *store_cursor_free(struct store_cursor *c);

/* The samples of a capture that keeps them, in the order of time for each GPU, and what moved bytes
 * beside the kernels of a process. In blocks, which live until the next call; NULL after the last.
 * To be freed before the reader. */
struct store_blocks;
int store_samples(struct store_reader *r, struct store_blocks **ret);
/* Their GPUs; items live as long as the reader. */
int store_sampled_gpus(struct store_reader *r, const char *const **ret, size_t *ret_n);
int store_copies(struct store_reader *r, unsigned process, struct store_blocks **ret);
int store_next_samples(struct store_blocks *b, const struct store_samples **ret);
int store_next_copies(struct store_blocks *b, const struct gpuctr_copy **ret, size_t *ret_n);
struct store_blocks *store_blocks_free(struct store_blocks *b); /* takes NULL, returns NULL */
/* Calls it for each block of samples, until it returns other than 0, which is returned. */
int store_each_samples(struct store_reader *r,
		       int (*on_samples)(const struct store_samples *samples, void *userdata),
		       void *userdata);

/* The next row, or NULL after the last. Rows live until the next call on the same cursor, and the
 * sites that they point to as long as the reader. The checksum of an image has been verified. */
int store_next_record(struct store_cursor *c, const struct gpuctr_record **ret);
/* What the file has of the record that was read last: the row of launch, whose records differ in
 * nothing but index, times, values, graph, step, seq and what a brief record lacks; and what the
 * writer has found if the record has a site: -1 and NULL are not known. */
struct store_found {
	unsigned launch;		   /* from 1, in the order of their first records */
	const struct gpuctr_site *forward; /* whose layer and step the record has, where its own
					      site has none; may be its own */
	int64_t step, seq;
};
const struct store_found *store_record_found(const struct store_cursor *c);
int store_next_image(struct store_cursor *c, const struct gpuctr_image **ret);
int store_next_mark(struct store_cursor *c, const struct gpuctr_mark **ret);
/* Of all processes, in order. */
int store_notices(struct store_reader *r, const struct gpuctr_notice **ret, size_t *ret_n);
