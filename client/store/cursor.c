/* SPDX-License-Identifier: Apache-2.0 */

/* Cursors return rows in order. A cursor owns its statement and the values of its current row.
 * Records and marks point to kernels and sites, which the reader keeps. */

#include "client/store/reader_internal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "client/store/packed.h"
#include "client/store/schema.h"
#include "proto/base/numbers.h"

enum { LAUNCHES_KEPT = 1 << 12 };

struct launch {
	unsigned id; /* 0: the slot is empty */
	struct active_set active;
	const struct gpuctr_site *forward;
	struct gpuctr_record record; /* members that all records of the launch share */
};

/* Columns of a query of records. A brief query lacks those from AT_CORRELATION to AT_NUMBERS.
 * Values, graph and node, and columns of errors follow. */
enum {
	AT_ID,
	AT_PROCESS,
	AT_LAUNCH,
	AT_START,
	AT_DURATION,
	AT_CLOCK,
	AT_STEP,
	AT_CORRELATION,
	AT_OPENED,
	AT_PAYLOAD_TYPE,
	AT_PAYLOAD,
	AT_SEQ,
	AT_NUMBERS,
	AT_END,
};

struct store_cursor {
	struct row row;
	sqlite3_stmt *launch;	 /* statement that reads a launch by id */
	struct launch *launches; /* direct-mapped */
	unsigned process;
	struct store_kernels kernels;
	struct store_sites sites;
	int64_t *numbers; /* numbers of the current row */
	size_t max_numbers;
	struct store_found found; /* attribution of the current row */
	struct packed packed;	  /* the current image */
	double *values;		  /* values of the current row, then errors */
	size_t n_columns;
	/* For a query of records: */
	int first_value;
	bool is_brief;
	bool has_graphs; /* the capture has kernels of graphs */
	bool has_errors; /* the capture has values with errors */
	bool has_active; /* some launch had start/end ranges */
	union {
		struct gpuctr_record record;
		struct gpuctr_image image;
		struct gpuctr_mark mark;
	} item;
};

static int cursor_new(struct store_reader *r, const char *table, unsigned process,
		      struct store_cursor **ret)
{
	struct store_cursor *c = calloc(1, sizeof(*c));

	if (!c) {
		return reader_fail(r, SQLITE_NOMEM, "read");
	}
	c->row = (struct row){ .reader = r, .table = table };
	c->process = process;
	*ret = c;
	return 0;
}

static int load_sites(struct store_cursor *c)
{
	struct store_reader *r = c->row.reader;
	int result = reader_load_sites(r, c->process, &c->sites);

	for (size_t i = 0; result == 0 && i < c->sites.n; i++) {
		size_t n = c->sites.items[i].n_numbers;

		c->max_numbers = n > c->max_numbers ? n : c->max_numbers;
	}
	c->numbers = calloc(c->max_numbers + 1, sizeof(*c->numbers));
	return result || c->numbers ? result : reader_fail(r, SQLITE_NOMEM, "read");
}

/* Makes a cursor whose rows point to kernels and sites. */
static int cursor_new_defined(struct store_reader *r, const char *table, unsigned process,
			      struct store_cursor **ret)
{
	struct store_kernels kernels;
	struct store_cursor *c = NULL;
	int result = store_load_kernels(r, process, &kernels);

	result = result ? result : cursor_new(r, table, process, &c);
	if (result) {
		return result;
	}
	c->kernels = kernels;
	result = load_sites(c);
	if (result) {
		store_cursor_free(c);
		return result;
	}
	*ret = c;
	return 0;
}

struct store_cursor *store_cursor_free(struct store_cursor *c)
{
	if (c) {
		for (size_t i = 0; c->has_active && i < LAUNCHES_KEPT; i++) {
			free(c->launches[i].active.sites);
		}
		free(c->numbers);
		sqlite3_finalize(c->row.stmt);
		sqlite3_finalize(c->launch);
		free(c->launches);
		packed_deinit(&c->packed);
		free(c->values);
		free(c);
	}
	return NULL;
}

/* Finishes a constructor. */
static int cursor_start(struct store_cursor *c, const char *sql, struct store_cursor **ret)
{
	int result = reader_prepare(c->row.reader, sql, &c->row.stmt);

	if (result) {
		store_cursor_free(c);
		return result;
	}
	*ret = c;
	return 0;
}

/* Reads the next row into the item, which may free memory of the row before. *ret is the item, or
 * NULL after the last row. */
static int cursor_next(struct store_cursor *c, void (*take)(struct store_cursor *c),
		       const void **ret)
{
	bool more;
	int result;

	result = row_step(&c->row, &more);
	if (result == 0 && more) {
		take(c);
		result = row_end(&c->row);
	}
	*ret = result == 0 && more ? &c->item : NULL;
	return result;
}

/* Defines a function for each type of row, so that callers need no casts. */
#define DEFINE_NEXT(what)                                                               \
	int store_next_##what(struct store_cursor *c, const struct gpuctr_##what **ret) \
	{                                                                               \
		const void *item;                                                       \
		int result = cursor_next(c, take_##what, &item);                        \
                                                                                        \
		if (result == 0) {                                                      \
			*ret = item;                                                    \
		}                                                                       \
		return result;                                                          \
	}

/* Finds a site of the process. id 0: none. */
static const struct gpuctr_site *find_site(struct store_cursor *c, unsigned id)
{
	const struct gpuctr_site *site = reader_find_site(&c->sites, id);

	if (id && !site && c->row.error == 0) {
		c->row.error = reader_corrupt(c->row.reader, c->row.table, "a site is missing");
	}
	return site;
}

/* Reads an occurrence. The column of the payload's value follows that of its type. */
static void take_occurrence(struct store_cursor *c, const struct gpuctr_site *site,
			    int payload_column, int numbers_column, struct gpuctr_occurrence *ret)
{
	sqlite3_stmt *stmt = c->row.stmt;
	size_t wanted = site ? site->n_numbers : 0, n = 0;
	const uint8_t *bytes = sqlite3_column_blob(stmt, numbers_column);

	if (bytes && !numbers_decode(bytes, (size_t)sqlite3_column_bytes(stmt, numbers_column),
				     c->numbers, wanted, &n)) {
		c->row.error = reader_corrupt(c->row.reader, c->row.table, "numbers of ranges");
	}
	for (; n < wanted; n++) {
		c->numbers[n] = -1;
	}
	ret->numbers = c->numbers;
	ret->payload_type = (unsigned)row_int(&c->row, payload_column, 0, 64);
	ret->payload = (uint64_t)row_i64(&c->row, payload_column + 1);
}

static const struct gpuctr_kernel *find_kernel(struct store_cursor *c, unsigned id)
{
	const struct gpuctr_kernel *kernel = reader_find_kernel(&c->kernels, id);

	if (c->row.error == 0 && id && !kernel) {
		c->row.error = reader_corrupt(c->row.reader, c->row.table, "a kernel is missing");
	}
	return kernel;
}

/* The last index of store_records()'s interval. */
static uint64_t last_index(uint64_t first, uint64_t count)
{
	if (count == 0 || count > STORE_INDEX_MAX || first > STORE_INDEX_MAX - count) {
		return STORE_INDEX_MAX;
	}
	return first + count - 1;
}

/* --- records --------------------------------------------------------------------------------- */

/* NULL: out of memory. */
static char *format_records(const struct store_cursor *c, uint64_t first, uint64_t last)
{
	const struct gpuctr_plan *plan = &c->row.reader->info.plan;
	sqlite3_str *sql = sqlite3_str_new(NULL);

	sqlite3_str_appendf(
		sql, "SELECT record.id, process, launch, start_ns, duration_ns, clock, step%s",
		c->is_brief ? "" : ", correlation, opened, payload_type, payload, seq, numbers");
	schema_append_selected(sql, "record", plan->columns, plan->n_columns);
	sqlite3_str_appendf(sql, ", %s%s",
			    c->has_graphs ? "graph_kernel.graph, graph_kernel.node" : "NULL, NULL",
			    c->has_errors ? ", sampled.alike" : "");
	if (c->has_errors) {
		schema_append_selected(sql, "sampled", plan->columns, plan->n_columns);
	}
	sqlite3_str_appendf(
		sql, " FROM record %s%s",
		c->has_graphs ? "LEFT JOIN graph_kernel ON graph_kernel.record = record.id " : "",
		c->has_errors ? "LEFT JOIN sampled ON sampled.record = record.id " : "");
	sqlite3_str_appendf(sql, "WHERE record.id BETWEEN %llu AND %llu ORDER BY record.id",
			    (unsigned long long)first, (unsigned long long)last);
	return sqlite3_str_finish(sql);
}

/* Finds out whether a table has rows. Most captures have none in some tables, and records are read
 * faster without a join. */
static int find_any(struct store_cursor *c, const char *table, const char *sql, bool *ret)
{
	struct row row = { .reader = c->row.reader, .table = table };
	int result = reader_prepare(row.reader, sql, &row.stmt);

	result = result ? result : row_step(&row, ret);
	sqlite3_finalize(row.stmt);
	return result;
}

static int start_records(struct store_cursor *c, uint64_t first, uint64_t last,
			 struct store_cursor **ret)
{
	struct store_reader *r = c->row.reader;
	char *sql;
	int result;

	c->n_columns = r->info.plan.n_columns;
	c->is_brief = r->is_brief;
	c->first_value = c->is_brief ? AT_CORRELATION : AT_END;
	c->values = calloc(2 * c->n_columns + 1, sizeof(*c->values));
	c->launches = calloc(LAUNCHES_KEPT, sizeof(*c->launches));
	result = r->info.graphs ? find_any(c, "graph_kernel", "SELECT 1 FROM graph_kernel LIMIT 1",
					   &c->has_graphs)
				: 0;
	result = result || !r->info.sampled
			 ? result
			 : find_any(c, "sampled", "SELECT 1 FROM sampled LIMIT 1", &c->has_errors);
	result = result ? result
			: reader_prepare(r, "SELECT * FROM launch WHERE id = ?", &c->launch);
	if (result) {
		store_cursor_free(c);
		return result;
	}
	sql = format_records(c, first, last);
	result = c->values && c->launches && sql ? 0 : reader_fail(r, SQLITE_NOMEM, "read");
	if (result) {
		store_cursor_free(c);
	} else {
		result = cursor_start(c, sql, ret);
	}
	sqlite3_free(sql);
	return result;
}

int store_records(struct store_reader *r, unsigned process, uint64_t first, uint64_t count,
		  struct store_cursor **ret)
{
	uint64_t base = (uint64_t)(process & STORE_PROCESS_MAX) << STORE_INDEX_BITS;
	struct store_cursor *c = NULL;
	int result = cursor_new_defined(r, "record", process, &c);

	first = first > STORE_INDEX_MAX ? STORE_INDEX_MAX : first;
	return result ? result
		      : start_records(c, base + first, base + last_index(first, count), ret);
}

/* --- launches -------------------------------------------------------------------------------- */

static void take_active(struct store_cursor *c, struct row *row, struct launch *launch)
{
	unsigned id = row_u32(row, STORE_LAUNCH_ACTIVE_SET);

	if (id == 0 || row->error) {
		return;
	}
	c->has_active = true;
	row->error = reader_load_set(row->reader, c->process, &c->sites, id, &launch->active);
	launch->record.active = launch->active.sites;
	launch->record.n_active = launch->active.n;
	if (row->error == 0 && launch->active.n == 0) {
		row->error = reader_corrupt(row->reader, "record", "a set of ranges is missing");
	}
}

static void take_launch(struct store_cursor *c, struct row *row, struct launch *launch)
{
	struct gpuctr_record *record = &launch->record;

	*record = (struct gpuctr_record){ 0 };
	record->process = (unsigned)row_int(row, STORE_LAUNCH_PROCESS, c->process, c->process);
	record->kind = (enum gpuctr_launch_kind)row_int(row, STORE_LAUNCH_KIND, 0,
							GPUCTR_LAUNCH_GRAPH_KERNEL);
	for (int i = 0; i < 3; i++) {
		record->grid[i] = row_u32(row, STORE_LAUNCH_GRID + i);
		record->block[i] = row_u32(row, STORE_LAUNCH_BLOCK + i);
	}
	record->dynamic_shared_bytes = row_u32(row, STORE_LAUNCH_DYNAMIC_SHARED);
	record->device = row_u32(row, STORE_LAUNCH_DEVICE);
	record->context = row_u32(row, STORE_LAUNCH_CONTEXT);
	record->stream = (uint64_t)row_i64(row, STORE_LAUNCH_STREAM);
	record->thread = row_u32(row, STORE_LAUNCH_THREAD);
	record->kernel = find_kernel(c, row_u32(row, STORE_LAUNCH_KERNEL));
	record->site = find_site(c, row_u32(row, STORE_LAUNCH_SITE));
	launch->forward = record->site ? find_site(c, row_u32(row, STORE_LAUNCH_LAYER_SITE)) : NULL;
	row->error = row->error ? row->error : c->row.error;
	take_active(c, row, launch);
}

static const struct launch *read_launch(struct store_cursor *c, struct launch *launch, unsigned id)
{
	struct row row = { .reader = c->row.reader, .table = "launch", .stmt = c->launch };
	bool more = false;

	launch->id = id;
	sqlite3_bind_int64(row.stmt, 1, id);
	c->row.error = row_step(&row, &more);
	if (more) {
		take_launch(c, &row, launch);
		c->row.error = row.error;
	} else if (c->row.error == 0) {
		c->row.error = reader_corrupt(row.reader, "record", "a launch is missing");
	}
	sqlite3_reset(row.stmt);
	launch->id = c->row.error ? 0 : id;
	return c->row.error ? NULL : launch;
}

/* NULL: the launch could not be read. */
static const struct launch *find_launch(struct store_cursor *c, unsigned id)
{
	struct launch *launch = &c->launches[id % LAUNCHES_KEPT];

	return launch->id == id && id ? launch : read_launch(c, launch, id);
}

/* A record has values of exactly one group of columns. */
static unsigned group_of(const struct store_cursor *c)
{
	const struct gpuctr_plan *plan = &c->row.reader->info.plan;

	for (size_t i = 0; i < c->n_columns; i++) {
		if (!isnan(c->values[i])) {
			return plan->columns[i].group;
		}
	}
	return 0;
}

static void take_graph(struct store_cursor *c, struct gpuctr_record *record)
{
	int column = c->first_value + (int)c->n_columns;
	bool known = sqlite3_column_type(c->row.stmt, column) != SQLITE_NULL;

	record->graph = known ? row_u32(&c->row, column) : 0;
	record->graph_node = known ? (uint64_t)row_i64(&c->row, column + 1) : 0;
}

static void take_errors(struct store_cursor *c, struct gpuctr_record *record)
{
	int column = c->first_value + (int)c->n_columns + 2;

	record->errors = NULL;
	record->alike = 0;
	if (!c->has_errors || sqlite3_column_type(c->row.stmt, column) == SQLITE_NULL) {
		return;
	}
	record->alike = row_u32(&c->row, column);
	for (size_t i = 0; i < c->n_columns; i++) {
		c->values[c->n_columns + i] = row_double(&c->row, column + 1 + (int)i);
	}
	record->errors = c->values + c->n_columns;
}

/* Reads a number. -1: not known. */
static int64_t take_number(struct row *row, int column)
{
	bool known = sqlite3_column_type(row->stmt, column) != SQLITE_NULL;

	return known ? row_int(row, column, 0, INT64_MAX) : -1;
}

/* Clock and duration are both known or both unknown. */
static void take_time(struct row *row, struct gpuctr_record *record)
{
	record->start_ns = row_i64(row, AT_START);
	record->clock = (enum gpuctr_clock)row_int(row, AT_CLOCK, 0, GPUCTR_CLOCK_GPU);
	record->duration_ns = record->clock == GPUCTR_CLOCK_NONE
				      ? row_int(row, AT_DURATION, -1, -1)
				      : row_int(row, AT_DURATION, 0, INT64_MAX);
}

/* Reads what a brief record lacks. */
static void take_details(struct store_cursor *c, struct gpuctr_record *record)
{
	struct row *row = &c->row;

	record->correlation = row_u32(row, AT_CORRELATION);
	record->opened = row_u32(row, AT_OPENED);
	if (record->opened > (record->site ? record->site->depth + 1 : 0) && row->error == 0) {
		row->error =
			reader_corrupt(row->reader, row->table, "more open ranges than it has");
	}
	take_occurrence(c, record->site, AT_PAYLOAD_TYPE, AT_NUMBERS, &record->at);
	c->found.seq = take_number(row, AT_SEQ);
}

static void take_record(struct store_cursor *c)
{
	struct gpuctr_record *record = &c->item.record;
	struct row *row = &c->row;
	const struct launch *launch =
		find_launch(c, (unsigned)row_int(row, AT_LAUNCH, 1, UINT32_MAX));

	if (!launch) {
		return;
	}
	*record = launch->record;
	row_int(row, AT_PROCESS, c->process, c->process);
	record->index = (uint64_t)row_i64(row, AT_ID) & STORE_INDEX_MAX;
	take_time(row, record);
	for (size_t i = 0; i < c->n_columns; i++) {
		c->values[i] = row_double(row, c->first_value + (int)i);
	}
	record->values = c->values;
	record->group = group_of(c);
	take_graph(c, record);
	take_errors(c, record);
	c->found =
		(struct store_found){ launch->id, launch->forward, take_number(row, AT_STEP), -1 };
	if (!c->is_brief) {
		take_details(c, record);
	}
}

DEFINE_NEXT(record)

const struct store_found *store_record_found(const struct store_cursor *c)
{
	return &c->found;
}

/* --- images ---------------------------------------------------------------------------------- */

int store_images(struct store_reader *r, unsigned process, uint64_t first, uint64_t count,
		 struct store_cursor **ret)
{
	struct store_cursor *c = NULL;
	char sql[192];
	int result = cursor_new(r, "image", process, &c);

	if (result) {
		return result;
	}
	first = first > STORE_INDEX_MAX ? STORE_INDEX_MAX : first;
	snprintf(sql, sizeof(sql),
		 "SELECT first, count, size, crc32, data FROM image WHERE process = %u"
		 " AND first BETWEEN %llu AND %llu ORDER BY first",
		 process, (unsigned long long)first, (unsigned long long)last_index(first, count));
	return cursor_start(c, sql, ret);
}

static void take_image(struct store_cursor *c)
{
	struct gpuctr_image *image = &c->item.image;
	struct row *row = &c->row;
	const void *data = sqlite3_column_blob(row->stmt, 4);
	size_t size = (size_t)sqlite3_column_bytes(row->stmt, 4);
	uint32_t crc;
	int r;

	image->process = c->process;
	image->first = (uint64_t)row_int(row, 0, 0, STORE_INDEX_MAX);
	image->count = row_u32(row, 1);
	image->size = (size_t)row_int(row, 2, 0, INT64_MAX);
	crc = row_u32(row, 3);
	if (row->error != 0) {
		return;
	}
	r = packed_unpack(&c->packed, data ? data : (const uint8_t *)"", size, image->size,
			  &image->data);
	if (r == -ENOMEM) {
		row->error = reader_fail(row->reader, SQLITE_NOMEM, "read image");
	} else if (r < 0 || crc32_z(0, image->data, image->size) != crc) {
		char text[64];

		snprintf(text, sizeof(text), "checksum of the image of record %llu",
			 (unsigned long long)image->first);
		row->error = reader_corrupt(row->reader, row->table, text);
	}
}

DEFINE_NEXT(image)

/* --- marks ----------------------------------------------------------------------------------- */

int store_marks(struct store_reader *r, unsigned process, struct store_cursor **ret)
{
	struct store_cursor *c = NULL;
	char sql[160];
	int result = cursor_new_defined(r, "mark", process, &c);

	snprintf(sql, sizeof(sql),
		 "SELECT site, thread, time_ns, payload_type, payload, numbers FROM mark"
		 " WHERE process = %u ORDER BY rowid",
		 process);
	return result ? result : cursor_start(c, sql, ret);
}

static void take_mark(struct store_cursor *c)
{
	struct gpuctr_mark *mark = &c->item.mark;

	mark->process = c->process;
	mark->site = find_site(c, row_u32(&c->row, 0));
	mark->thread = row_u32(&c->row, 1);
	mark->time_ns = row_i64(&c->row, 2);
	take_occurrence(c, mark->site, 3, 5, &mark->at);
}

DEFINE_NEXT(mark)
