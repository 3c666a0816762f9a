/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <gpuctr/gpuctr.h>

struct sqlite3_str;

/* "GPct"; user_version is the format. A reader refuses every other one. */
#define STORE_APPLICATION_ID 0x47506374
#define STORE_FORMAT 8
#define STORE_FORMAT_NAME "gpuctr-capture"

/* record.id is (process << STORE_INDEX_BITS) + idx. So SQLite appends to one b-tree, records of a
 * process lie in order, and no record can be written twice. */
#define STORE_INDEX_BITS 40
#define STORE_INDEX_MAX ((UINT64_C(1) << STORE_INDEX_BITS) - 1)
#define STORE_PROCESS_MAX ((1u << 22) - 1)

/* Columns of the table record. The metrics follow. */
enum store_record_column {
	STORE_COL_ID,
	STORE_COL_PROCESS,
	STORE_COL_IDX,
	STORE_COL_LAUNCH,
	STORE_COL_CORRELATION,
	STORE_COL_START_NS,
	STORE_COL_DURATION_NS,
	STORE_COL_CLOCK,
	STORE_COL_OPENED,
	STORE_COL_PAYLOAD_TYPE,
	STORE_COL_PAYLOAD,
	STORE_COL_STEP, /* this column and the following may be NULL */
	STORE_COL_SEQ,
	STORE_COL_NUMBERS,
	STORE_COL_METRICS,
};

/* Columns of the table launch. A launch is what records have in common that the program launched at
 * the same place and in the same way. */
enum store_launch_column {
	STORE_LAUNCH_ID,
	STORE_LAUNCH_PROCESS,
	STORE_LAUNCH_KIND,
	STORE_LAUNCH_KERNEL,
	STORE_LAUNCH_GRID,
	STORE_LAUNCH_BLOCK = STORE_LAUNCH_GRID + 3,
	STORE_LAUNCH_DYNAMIC_SHARED = STORE_LAUNCH_BLOCK + 3,
	STORE_LAUNCH_DEVICE,
	STORE_LAUNCH_CONTEXT,
	STORE_LAUNCH_STREAM,
	STORE_LAUNCH_THREAD,
	STORE_LAUNCH_SITE,
	STORE_LAUNCH_ACTIVE_SET,
	STORE_LAUNCH_PLACE,
	STORE_LAUNCH_LAYER_SITE,
	STORE_LAUNCH_COLUMNS,
};

/* CREATE TABLE of all tables but record, and of those for captures that keep samples. */
extern const char schema_tables[], schema_sample_tables[];

/* Names of the fixed columns of record, in order. NULL-terminated. */
extern const char *const schema_record_columns[];

/* Prefix of a metric's column: "metric:" if one of our columns has the metric's name, else "". */
const char *schema_mark(const char *metric);

/* CREATE TABLE record, and all views with metrics. Free with sqlite3_free(); NULL: out of memory.
 */
char *schema_format_record(const struct gpuctr_column *columns, size_t n_columns);
char *schema_format_views(const struct gpuctr_column *columns, size_t n_columns, bool graphs);
/* CREATE TABLE sampled, the errors of records, with a column for each metric. */
char *schema_format_sampled(const struct gpuctr_column *columns, size_t n_columns);
extern const char schema_graph_kernel[]; /* CREATE TABLE graph_kernel */
/* Appends the table's columns of metrics to a SELECT, each after a comma. */
void schema_append_selected(struct sqlite3_str *sql, const char *table,
			    const struct gpuctr_column *columns, size_t n_columns);

/* Does a sum over launches have a meaning? For bytes it has one, for ratios none. */
bool schema_adds_up(const char *column);
