/* SPDX-License-Identifier: Apache-2.0 */

/* The tables of a capture file, in the order of gpuctr-capture(5).
 *
 * Definitions (kernel, site, active) have their natural key and no rowid. What launches of the same
 * place have in common is a row of launch. So records are short, and queries that add up records
 * group them by one number first. The table record has one column for each metric under the
 * metric's own name, so that
 *
 *	SELECT kernel, sum("dram__bytes_read.sum") FROM records GROUP BY kernel;
 *
 * is all one has to know. SQLite compares column names without regard to case, and a metric may
 * have the name of one of our columns; then its column gets the prefix "metric:". Programs find the
 * column of a metric by its position, as column_def numbers them. */

#include "client/store/schema.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <strings.h>

const char schema_tables[] =
	"CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
	"CREATE TABLE column_def(idx INTEGER PRIMARY KEY, name TEXT NOT NULL, unit TEXT NOT NULL,"
	" pass_group INTEGER NOT NULL);"
	"CREATE TABLE metric_def(idx INTEGER PRIMARY KEY, name TEXT NOT NULL);"
	"CREATE TABLE process(id INTEGER PRIMARY KEY, pid INTEGER NOT NULL, program TEXT NOT NULL,"
	" cupti TEXT NOT NULL, driver TEXT NOT NULL, recorded_from TEXT NOT NULL,"
	" ended INTEGER NOT NULL DEFAULT 0, clean INTEGER NOT NULL DEFAULT 0,"
	" seen INTEGER NOT NULL DEFAULT 0, measured INTEGER NOT NULL DEFAULT 0,"
	" filtered INTEGER NOT NULL DEFAULT 0, capturing INTEGER NOT NULL DEFAULT 0,"
	" unready INTEGER NOT NULL DEFAULT 0, failed INTEGER NOT NULL DEFAULT 0,"
	" dropped INTEGER NOT NULL DEFAULT 0, lost INTEGER NOT NULL DEFAULT 0);"
	"CREATE TABLE device(process INTEGER NOT NULL, idx INTEGER NOT NULL, uuid TEXT NOT NULL,"
	" name TEXT NOT NULL, chip TEXT NOT NULL, clock_sm_mhz INTEGER NOT NULL,"
	" clock_mem_mhz INTEGER NOT NULL, PRIMARY KEY(process, idx)) WITHOUT ROWID;"
	"CREATE TABLE kernel(process INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT NOT NULL,"
	" mangled TEXT NOT NULL, static_shared_bytes INTEGER NOT NULL, registers INTEGER NOT NULL,"
	" PRIMARY KEY(process, id)) WITHOUT ROWID;"
	"CREATE TABLE site(process INTEGER NOT NULL, id INTEGER NOT NULL, parent INTEGER NOT NULL,"
	" domain TEXT NOT NULL, name TEXT NOT NULL, sizes TEXT NOT NULL, category TEXT NOT NULL,"
	" color INTEGER NOT NULL, kind INTEGER NOT NULL, number INTEGER NOT NULL,"
	" depth INTEGER NOT NULL, PRIMARY KEY(process, id)) WITHOUT ROWID;"
	"CREATE INDEX site_parent ON site(parent, process);"
	"CREATE TABLE place(id INTEGER PRIMARY KEY, op TEXT, sizes TEXT, dir TEXT, layer TEXT);"
	"CREATE TABLE launch(id INTEGER PRIMARY KEY, process INTEGER NOT NULL,"
	" kind INTEGER NOT NULL, kernel INTEGER NOT NULL, grid_x INTEGER NOT NULL,"
	" grid_y INTEGER NOT NULL, grid_z INTEGER NOT NULL, block_x INTEGER NOT NULL,"
	" block_y INTEGER NOT NULL, block_z INTEGER NOT NULL,"
	" dynamic_shared_bytes INTEGER NOT NULL, device INTEGER NOT NULL,"
	" context INTEGER NOT NULL, stream INTEGER NOT NULL, thread INTEGER NOT NULL,"
	" site INTEGER NOT NULL, active_set INTEGER NOT NULL, place INTEGER NOT NULL,"
	" layer_site INTEGER NOT NULL);"
	"CREATE TABLE active(process INTEGER NOT NULL, set_id INTEGER NOT NULL, site INTEGER NOT "
	"NULL,"
	" PRIMARY KEY(process, set_id, site)) WITHOUT ROWID;"
	"CREATE TABLE mark(process INTEGER NOT NULL, site INTEGER NOT NULL, thread INTEGER NOT "
	"NULL,"
	" time_ns INTEGER NOT NULL, payload_type INTEGER NOT NULL, payload INTEGER NOT NULL,"
	" numbers BLOB);"
	"CREATE TABLE image(process INTEGER NOT NULL, first INTEGER NOT NULL, count INTEGER NOT "
	"NULL,"
	" size INTEGER NOT NULL, crc32 INTEGER NOT NULL, data BLOB NOT NULL);"
	"CREATE INDEX image_first ON image(process, first);"
	"CREATE TABLE notice(process INTEGER NOT NULL, code INTEGER NOT NULL, message TEXT NOT "
	"NULL,"
	" remedy TEXT NOT NULL);";

const char schema_sample_tables[] =
	"CREATE TABLE sample_block(gpu TEXT NOT NULL, interval_ns INTEGER NOT NULL,"
	" start_ns INTEGER NOT NULL, count INTEGER NOT NULL, crc32 INTEGER NOT NULL,"
	" data BLOB NOT NULL);"
	"CREATE TABLE copy_block(process INTEGER NOT NULL, count INTEGER NOT NULL,"
	" crc32 INTEGER NOT NULL, data BLOB NOT NULL);";

const char *const schema_record_columns[] = {
	"id",	    "process",	   "idx",   "launch",  "correlation",
	"start_ns", "duration_ns", "clock", "opened",  "payload_type",
	"payload",  "step",	   "seq",   "numbers", NULL,
};

static bool is_record_column(const char *name)
{
	for (size_t i = 0; schema_record_columns[i]; i++) {
		if (strcasecmp(name, schema_record_columns[i]) == 0) {
			return true;
		}
	}
	return false;
}

/* Compares the metric with the columns of table and view. */
const char *schema_mark(const char *metric)
{
	static const char *const of_view[] = { "pid",
					       "program",
					       "mangled",
					       "registers",
					       "static_shared_bytes",
					       "nvtx",
					       "device_name",
					       "uuid",
					       "kind",
					       "kernel",
					       "grid_x",
					       "grid_y",
					       "grid_z",
					       "block_x",
					       "block_y",
					       "block_z",
					       "dynamic_shared_bytes",
					       "device",
					       "context",
					       "stream",
					       "thread" };

	for (size_t i = 0; i < sizeof(of_view) / sizeof(of_view[0]); i++) {
		if (strcasecmp(metric, of_view[i]) == 0) {
			return "metric:";
		}
	}
	return is_record_column(metric) ? "metric:" : "";
}

/* Adds the columns of metrics to a statement, and ends it. */
static char *finish_with_metrics(sqlite3_str *sql, const struct gpuctr_column *columns,
				 size_t n_columns)
{
	for (size_t i = 0; i < n_columns; i++) {
		sqlite3_str_appendf(sql, ", \"%s%w\" REAL", schema_mark(columns[i].name),
				    columns[i].name);
	}
	sqlite3_str_appendall(sql, ");");
	return sqlite3_str_finish(sql);
}

char *schema_format_record(const struct gpuctr_column *columns, size_t n_columns)
{
	sqlite3_str *sql = sqlite3_str_new(NULL);

	sqlite3_str_appendall(sql, "CREATE TABLE record(id INTEGER PRIMARY KEY");
	for (size_t i = 1; schema_record_columns[i]; i++) {
		sqlite3_str_appendf(sql, ", %s %s", schema_record_columns[i],
				    i == STORE_COL_NUMBERS ? "BLOB"
				    : i >= STORE_COL_STEP  ? "INTEGER"
							   : "INTEGER NOT NULL");
	}
	return finish_with_metrics(sql, columns, n_columns);
}

char *schema_format_sampled(const struct gpuctr_column *columns, size_t n_columns)
{
	sqlite3_str *sql = sqlite3_str_new(NULL);

	sqlite3_str_appendall(
		sql, "CREATE TABLE sampled(record INTEGER PRIMARY KEY, alike INTEGER NOT NULL");
	return finish_with_metrics(sql, columns, n_columns);
}

const char schema_graph_kernel[] =
	"CREATE TABLE graph_kernel(record INTEGER PRIMARY KEY, graph INTEGER NOT NULL,"
	" node INTEGER NOT NULL);";

void schema_append_selected(sqlite3_str *sql, const char *table,
			    const struct gpuctr_column *columns, size_t n_columns)
{
	for (size_t i = 0; i < n_columns; i++) {
		sqlite3_str_appendf(sql, ", %s.\"%s%w\"", table, schema_mark(columns[i].name),
				    columns[i].name);
	}
}
