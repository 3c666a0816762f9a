/* SPDX-License-Identifier: Apache-2.0 */

/* Samples and copies, in blocks of up to STORE_BLOCK_MAX rows. At a million samples a second, most
 * bytes of a row equal those of the row before. So a block has, for each column, the lowest byte of
 * all rows, then the next byte, and so on: equal bytes form long runs, which zlib packs well.
 *
 * A sample is stored as the time since the end of the sample before it, its length, and the bits of
 * its values. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "client/store/internal.h"
#include "client/store/reader_internal.h"
#include "proto/base/clock.h"

enum {
	CELL_BYTES = sizeof(uint64_t),
	SAMPLE_VALUES = 2, /* column of the first value */
	COPY_COLUMNS = 7,
	SAMPLED_GPUS_MOST = 64,
};

/* --- writing --------------------------------------------------------------------------------- */

static void put(uint8_t *planes, size_t n, size_t row, size_t column, uint64_t cell)
{
	uint8_t *at = planes + column * CELL_BYTES * n + row;

	for (size_t i = 0; i < CELL_BYTES; i++) {
		at[i * n] = (uint8_t)(cell >> (8 * i));
	}
}

/* Begins a block. NULL: the block cannot be written, and *ret_result says why. */
static uint8_t *begin_block(struct store *s, size_t n, size_t columns, int *ret_result)
{
	uint8_t *room;

	*ret_result = s->keeps_samples && n > 0 && n <= STORE_BLOCK_MAX ? store_begin(s) : -EINVAL;
	if (*ret_result) {
		return NULL;
	}
	room = realloc(s->planes, n * columns * CELL_BYTES);
	if (!room) {
		*ret_result = store_fail(s, SQLITE_NOMEM, "write");
		return NULL;
	}
	s->planes = room;
	return room;
}

/* Writes the block's row. column: parameter of the number of rows; checksum and bytes follow. */
static int write_block(struct store *s, enum store_statement which, int column, size_t n,
		       size_t columns)
{
	sqlite3_stmt *stmt = s->stmt[which];
	size_t bytes = n * columns * CELL_BYTES, size;
	const uint8_t *data = packed_pack(&s->packed, s->planes, bytes, &size);
	int rc;

	if (!data) {
		return store_fail(s, SQLITE_NOMEM, "write");
	}
	sqlite3_bind_int64(stmt, column, (int64_t)n);
	sqlite3_bind_int64(stmt, column + 1, (int64_t)crc32_z(0, s->planes, bytes));
	sqlite3_bind_blob64(stmt, column + 2, data, size, SQLITE_STATIC);
	rc = sqlite3_step(stmt);
	sqlite3_reset(stmt);
	if (rc != SQLITE_DONE) {
		return store_fail(s, rc, "write");
	}
	s->pending_bytes += size;
	return store_commit_if_due(s);
}

int store_write_samples(struct store *s, const struct store_samples *samples)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_SAMPLES];
	size_t n = samples->n, columns = SAMPLE_VALUES + s->n_metrics;
	int r;
	uint8_t *planes = begin_block(s, n, columns, &r);

	for (size_t i = 0; planes && i < n; i++) {
		const int64_t *times = samples->times[i];
		int64_t before = i > 0 ? samples->times[i - 1][1] : times[0];

		put(planes, n, i, 0, (uint64_t)times[0] - (uint64_t)before);
		put(planes, n, i, 1, (uint64_t)times[1] - (uint64_t)times[0]);
		for (size_t k = 0; k < s->n_metrics; k++) {
			uint64_t bits;

			memcpy(&bits, &samples->values[i * s->n_metrics + k], sizeof(bits));
			put(planes, n, i, SAMPLE_VALUES + k, bits);
		}
	}
	if (!planes) {
		return r;
	}
	sqlite3_bind_text(stmt, 1, samples->gpu, -1, SQLITE_STATIC);
	sqlite3_bind_int64(stmt, 2, (int64_t)samples->interval_ns);
	sqlite3_bind_int64(stmt, 3, samples->times[0][0]);
	return write_block(s, STORE_STMT_SAMPLES, 4, n, columns);
}

int store_drop_samples(struct store *s, const char *gpu, int64_t *since_ns)
{
	sqlite3_stmt *stmt = NULL;
	int rc, r = store_begin(s);

	if (r || !s->keeps_samples) {
		return r;
	}
	rc = sqlite3_prepare_v2(
		s->db,
		"DELETE FROM sample_block WHERE gpu = ?1 AND rowid >= (SELECT ifnull(max(rowid), 0)"
		" FROM sample_block WHERE gpu = ?1 AND start_ns < ?2) RETURNING start_ns",
		-1, &stmt, NULL);
	sqlite3_bind_text(stmt, 1, gpu, -1, SQLITE_STATIC);
	sqlite3_bind_int64(stmt, 2, *since_ns);
	while (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		int64_t start_ns = sqlite3_column_int64(stmt, 0);

		*since_ns = start_ns < *since_ns ? start_ns : *since_ns;
		rc = SQLITE_OK;
	}
	sqlite3_finalize(stmt);
	return rc == SQLITE_DONE ? 0 : store_fail(s, rc, "write");
}

int store_write_copies(struct store *s, const struct gpuctr_copy *copies, size_t n)
{
	int r;
	uint8_t *planes = begin_block(s, n, COPY_COLUMNS, &r);

	for (size_t i = 0; planes && i < n; i++) {
		const struct gpuctr_copy *c = &copies[i];
		const uint64_t cells[COPY_COLUMNS] = { c->kind,
						       c->device,
						       c->context,
						       c->stream,
						       c->bytes,
						       (uint64_t)c->start_ns,
						       (uint64_t)c->duration_ns };

		for (size_t k = 0; k < COPY_COLUMNS; k++) {
			put(planes, n, i, k, cells[k]);
		}
	}
	if (!planes) {
		return r;
	}
	sqlite3_bind_int64(s->stmt[STORE_STMT_COPIES], 1, copies[0].process);
	return write_block(s, STORE_STMT_COPIES, 2, n, COPY_COLUMNS);
}

/* --- reading --------------------------------------------------------------------------------- */

struct store_blocks {
	struct row row;
	struct packed packed;
	unsigned process;
	struct store_samples samples;
	int64_t (*times)[2];
	double *values;
	struct gpuctr_copy *copies;
};

struct store_blocks *store_blocks_free(struct store_blocks *b)
{
	if (b) {
		sqlite3_finalize(b->row.stmt);
		packed_deinit(&b->packed);
		free(b->times);
		free(b->values);
		free(b->copies);
		free(b);
	}
	return NULL;
}

static int start(struct store_reader *r, struct store_blocks *b, const char *table, const char *sql,
		 struct store_blocks **ret)
{
	int result;

	b->row.reader = r;
	b->row.table = table;
	/* A file without samples has no such tables. */
	result = r->info.has_samples ? reader_prepare(r, sql, &b->row.stmt) : 0;
	if (result) {
		store_blocks_free(b);
		return result;
	}
	*ret = b;
	return 0;
}

int store_samples(struct store_reader *r, struct store_blocks **ret)
{
	struct store_blocks *b = calloc(1, sizeof(*b));
	size_t n = r->info.plan.n_metrics;

	if (b) {
		b->times = calloc(STORE_BLOCK_MAX, sizeof(*b->times));
		b->values = calloc(STORE_BLOCK_MAX * n + 1, sizeof(*b->values));
	}
	if (!b || !b->times || !b->values) {
		store_blocks_free(b);
		return reader_fail(r, SQLITE_NOMEM, "read");
	}
	return start(r, b, "sample_block",
		     "SELECT gpu, interval_ns, start_ns, count, crc32, data FROM sample_block"
		     " ORDER BY rowid",
		     ret);
}

static void take_gpu(struct row *row, size_t i, void *items)
{
	((const char **)items)[i] = row_text(row, 0);
}

int store_sampled_gpus(struct store_reader *r, const char *const **ret, size_t *ret_n)
{
	static const struct reader_list list = {
		.columns = "gpu",
		.from = "(SELECT DISTINCT gpu FROM sample_block)",
		.order = "gpu",
		.max = SAMPLED_GPUS_MOST,
		.size = sizeof(const char *),
		.take = take_gpu,
	};

	*ret = NULL;
	*ret_n = 0;
	return r->info.has_samples ? reader_list(r, &list, ret, ret_n) : 0;
}

int store_copies(struct store_reader *r, unsigned process, struct store_blocks **ret)
{
	struct store_blocks *b = calloc(1, sizeof(*b));
	char sql[128];

	if (b) {
		b->process = process;
		b->copies = calloc(STORE_BLOCK_MAX, sizeof(*b->copies));
	}
	if (!b || !b->copies) {
		store_blocks_free(b);
		return reader_fail(r, SQLITE_NOMEM, "read");
	}
	snprintf(sql, sizeof(sql),
		 "SELECT count, crc32, data FROM copy_block WHERE process = %u ORDER BY rowid",
		 process);
	return start(r, b, "copy_block", sql, ret);
}

static int corrupt(struct store_blocks *b, const char *what)
{
	return reader_corrupt(b->row.reader, b->row.table, what);
}

static uint64_t get(const uint8_t *planes, size_t n, size_t row, size_t column)
{
	const uint8_t *at = planes + column * CELL_BYTES * n + row;
	uint64_t cell = 0;

	for (size_t i = 0; i < CELL_BYTES; i++) {
		cell |= (uint64_t)at[i * n] << (8 * i);
	}
	return cell;
}

/* Sets *ret to the bytes of a block, and *ret_n to its number of rows. */
static int read_block(struct store_blocks *b, int column, size_t columns, const uint8_t **ret,
		      size_t *ret_n)
{
	size_t n = (size_t)row_int(&b->row, column, 1, STORE_BLOCK_MAX);
	uint32_t crc = row_u32(&b->row, column + 1);
	const void *data = sqlite3_column_blob(b->row.stmt, column + 2);
	size_t bytes = n * columns * CELL_BYTES;
	int r = row_end(&b->row);

	if (r) {
		return r;
	}
	r = packed_unpack(&b->packed, data ? data : (const uint8_t *)"",
			  (size_t)sqlite3_column_bytes(b->row.stmt, column + 2), bytes, ret);
	if (r == -ENOMEM) {
		return reader_fail(b->row.reader, SQLITE_NOMEM, "read");
	}
	if (r < 0 || crc32_z(0, *ret, bytes) != crc) {
		return corrupt(b, "checksum of a block");
	}
	*ret_n = n;
	return 0;
}

/* Each sample begins at the end of the sample before, or later. */
static int take_times(struct store_blocks *b, const uint8_t *planes, size_t n, int64_t start_ns)
{
	uint64_t at = (uint64_t)start_ns;

	for (size_t i = 0; i < n; i++) {
		uint64_t gap = get(planes, n, i, 0), length = get(planes, n, i, 1);

		if (gap > CLOCK_NS_MOST - at || length == 0 || length > CLOCK_NS_MOST - at - gap) {
			return corrupt(b, "time of a sample");
		}
		b->times[i][0] = (int64_t)(at + gap);
		at += gap + length;
		b->times[i][1] = (int64_t)at;
	}
	return 0;
}

int store_next_samples(struct store_blocks *b, const struct store_samples **ret)
{
	size_t n = 0, length, n_metrics = b->row.reader->info.plan.n_metrics;
	const uint8_t *planes = NULL;
	struct store_samples *s = &b->samples;
	bool more = false;
	int64_t start_ns;
	int r = b->row.stmt ? row_step(&b->row, &more) : 0;

	if (r || !more) {
		*ret = NULL;
		return r;
	}
	s->gpu = row_borrow_text(&b->row, 0, &length);
	s->interval_ns = (uint64_t)row_int(&b->row, 1, 1, CLOCK_NS_MOST);
	start_ns = row_int(&b->row, 2, 1, CLOCK_NS_MOST);
	r = read_block(b, 3, SAMPLE_VALUES + n_metrics, &planes, &n);
	r = r ? r : take_times(b, planes, n, start_ns);
	if (r) {
		return r;
	}
	for (size_t i = 0; i < n * n_metrics; i++) {
		uint64_t bits = get(planes, n, i / n_metrics, SAMPLE_VALUES + i % n_metrics);

		memcpy(&b->values[i], &bits, sizeof(bits));
	}
	s->n = n;
	s->times = (const int64_t(*)[2])b->times;
	s->values = b->values;
	*ret = s;
	return 0;
}

static bool take_copy(struct store_blocks *b, const uint8_t *planes, size_t n, size_t i)
{
	uint64_t kind = get(planes, n, i, 0), device = get(planes, n, i, 1),
		 context = get(planes, n, i, 2), start_ns = get(planes, n, i, 5),
		 duration_ns = get(planes, n, i, 6);

	b->copies[i] = (struct gpuctr_copy){ .process = b->process,
					     .kind = (enum gpuctr_copy_kind)kind,
					     .device = (unsigned)device,
					     .context = (unsigned)context,
					     .stream = get(planes, n, i, 3),
					     .bytes = get(planes, n, i, 4),
					     .start_ns = (int64_t)start_ns,
					     .duration_ns = (int64_t)duration_ns };
	return kind <= GPUCTR_COPY_LOST && device <= UINT32_MAX && context <= UINT32_MAX &&
	       start_ns <= CLOCK_NS_MOST && duration_ns <= CLOCK_NS_MOST - start_ns;
}

int store_next_copies(struct store_blocks *b, const struct gpuctr_copy **ret, size_t *ret_n)
{
	const uint8_t *planes = NULL;
	bool more = false;
	size_t n = 0;
	int r = b->row.stmt ? row_step(&b->row, &more) : 0;

	r = r || !more ? r : read_block(b, 0, COPY_COLUMNS, &planes, &n);
	for (size_t i = 0; r == 0 && i < n; i++) {
		r = take_copy(b, planes, n, i) ? 0 : corrupt(b, "a copy");
	}
	if (r == 0) {
		*ret = more ? b->copies : NULL;
		*ret_n = n;
	}
	return r;
}

int store_each_samples(struct store_reader *r,
		       int (*on_samples)(const struct store_samples *samples, void *userdata),
		       void *userdata)
{
	const struct store_samples *samples;
	struct store_blocks *blocks;
	int e = store_samples(r, &blocks);

	if (e) {
		return e;
	}
	while ((e = store_next_samples(blocks, &samples)) == 0 && samples) {
		e = on_samples(samples, userdata);
		if (e) {
			break;
		}
	}
	store_blocks_free(blocks);
	return e;
}
