/* SPDX-License-Identifier: Apache-2.0 */

/* The views of a capture file, for queries by hand; we never read them.
 *
 * Each adds up before it joins names, so that its work is one pass over the records and then goes
 * with the kernels, ranges and attributions that there are, not with the records. */

#include "client/store/schema.h"

#include <sqlite3.h>
#include <string.h>
#include <strings.h>

/* The NVTX path of each range. SQLite takes a primary key for the better index wherever it can: the
 * plus keeps it from reading all ranges of a process for each of them. */
const char schema_path_view[] =
	"CREATE VIEW nvtx_path(process, id, path) AS WITH RECURSIVE path(process, id, text) AS ("
	" SELECT process, id, message FROM range WHERE parent = 0"
	" UNION ALL SELECT r.process, r.id, p.text || '/' || r.message"
	" FROM path p JOIN range r ON r.parent = p.id AND +r.process = p.process)"
	" SELECT process, id, text FROM path;"
	"CREATE INDEX range_parent ON range(parent, process);";

bool schema_adds_up(const char *column)
{
	const char *dot = strrchr(column, '.');

	return !dot || strcmp(dot, ".sum") == 0;
}

/* --- metrics in views ------------------------------------------------------------------------ */

/* A metric may have the name of a view's column as well. */
static const char *mark_in_view(const char *metric)
{
	static const char *const of_views[] = { "op",	    "seq",   "sizes",	 "dir",	  "layer",
						"launches", "depth", "begin_ns", "end_ns" };

	for (size_t i = 0; i < sizeof(of_views) / sizeof(of_views[0]); i++) {
		if (strcasecmp(metric, of_views[i]) == 0) {
			return "metric:";
		}
	}
	return schema_mark(metric);
}

/* Appends the columns of a row that stands for several launches: the sum, or the mean if a sum has
 * no meaning. */
static void append_totals(sqlite3_str *sql, const struct gpuctr_column *columns, size_t n_columns)
{
	for (size_t i = 0; i < n_columns; i++) {
		const char *name = columns[i].name;

		sqlite3_str_appendf(sql, ", %s(r.\"%s%w\") AS \"%s%w\"",
				    schema_adds_up(name) ? "sum" : "avg", schema_mark(name), name,
				    mark_in_view(name), name);
	}
}

/* Appends sums of the sums named by append_parts(). */
static void append_whole(sqlite3_str *sql, const struct gpuctr_column *columns, size_t n_columns)
{
	for (size_t i = 0; i < n_columns; i++) {
		const char *name = columns[i].name;

		if (schema_adds_up(name)) {
			sqlite3_str_appendf(sql, ", sum(s.s%d)", (int)i);
		} else {
			sqlite3_str_appendf(sql, ", sum(s.s%d) / sum(s.n%d)", (int)i, (int)i);
		}
		sqlite3_str_appendf(sql, " AS \"%s%w\"", mark_in_view(name), name);
	}
}

static void append_parts(sqlite3_str *sql, const struct gpuctr_column *columns, size_t n_columns)
{
	for (size_t i = 0; i < n_columns; i++) {
		const char *name = columns[i].name, *mark = schema_mark(name);

		sqlite3_str_appendf(sql, ", sum(r.\"%s%w\") AS s%d", mark, name, (int)i);
		if (!schema_adds_up(name)) {
			sqlite3_str_appendf(sql, ", count(r.\"%s%w\") AS n%d", mark, name, (int)i);
		}
	}
}

/* --- the views ------------------------------------------------------------------------------- */

#define LAUNCHES "count(*) AS launches, sum(nullif(r.duration_ns, -1)) AS duration_ns"
#define BEGIN "min(CASE WHEN r.clock > 0 THEN r.start_ns END)"
#define END "max(CASE WHEN r.clock > 0 THEN r.start_ns + r.duration_ns END)"

#define NAME                                                         \
	"CASE g.domain WHEN '' THEN '' ELSE g.domain || ':' END || " \
	"substr(g.message, 1, g.name_length)"

static void append_records(sqlite3_str *sql, const struct gpuctr_column *columns, size_t n_columns,
			   bool graphs)
{
	sqlite3_str_appendall(
		sql,
		"CREATE VIEW records AS WITH path AS MATERIALIZED (SELECT * FROM nvtx_path)"
		" SELECT r.process, p.pid, p.program, r.idx, r.kind, k.name AS kernel, k.mangled,"
		" r.grid_x, r.grid_y, r.grid_z, r.block_x, r.block_y, r.block_z,"
		" nullif(k.static_shared_bytes, -1) AS static_shared_bytes, r.dynamic_shared_bytes,"
		" nullif(k.registers, -1) AS registers, r.device,"
		" d.name AS device_name, d.uuid, r.context, r.stream, r.correlation, r.thread,"
		" r.start_ns, nullif(r.duration_ns, -1) AS duration_ns, CASE r.clock WHEN 2 THEN "
		"'gpu'"
		" WHEN 1 THEN 'range' ELSE 'none' END AS clock, n.path AS nvtx,"
		" o.op, a.seq, o.sizes, o.dir, o.layer");
	sqlite3_str_appendall(sql, graphs ? ", h.graph, h.node AS graph_node" : "");
	for (size_t i = 0; i < n_columns; i++) {
		const char *name = columns[i].name;

		sqlite3_str_appendf(sql, ", r.\"%s%w\" AS \"%s%w\"", schema_mark(name), name,
				    mark_in_view(name), name);
	}
	sqlite3_str_appendall(
		sql, " FROM record r"
		     " LEFT JOIN process p ON p.id = r.process"
		     " LEFT JOIN kernel k ON k.process = r.process AND k.id = r.kernel"
		     " LEFT JOIN device d ON d.process = r.process AND d.idx = r.device"
		     " LEFT JOIN path n ON n.process = r.process AND n.id = r.range"
		     " LEFT JOIN attribution a ON a.process = r.process AND a.range = r.range"
		     " LEFT JOIN place o ON o.id = a.place");
	sqlite3_str_appendall(sql, graphs ? " LEFT JOIN graph_kernel h ON h.record = r.id;" : ";");
}

static void append_by_kernel(sqlite3_str *sql, const struct gpuctr_column *columns,
			     size_t n_columns)
{
	sqlite3_str_appendall(sql, "CREATE VIEW by_kernel AS SELECT k.name AS kernel, " LAUNCHES);
	append_totals(sql, columns, n_columns);
	sqlite3_str_appendall(sql, " FROM record r LEFT JOIN kernel k"
				   " ON k.process = r.process AND k.id = r.kernel GROUP BY 1;");
}

static void append_by_op(sqlite3_str *sql, const struct gpuctr_column *columns, size_t n_columns)
{
	sqlite3_str_appendall(sql, "CREATE VIEW by_op AS SELECT o.op AS op, " LAUNCHES);
	append_totals(sql, columns, n_columns);
	sqlite3_str_appendall(
		sql, " FROM record r"
		     " LEFT JOIN attribution a ON a.process = r.process AND a.range = r.range"
		     " LEFT JOIN place o ON o.id = a.place GROUP BY 1;");
}

/* A row for each path, with all that was launched within it. Names are without what PyTorch counts
 * in them, so that the same call site is one row in all steps. */
static void append_by_nvtx(sqlite3_str *sql, const struct gpuctr_column *columns, size_t n_columns)
{
	sqlite3_str_appendall(sql, "CREATE VIEW by_nvtx AS WITH RECURSIVE"
				   " own AS MATERIALIZED (SELECT r.process, r.range, " LAUNCHES
				   ", " BEGIN " AS begin_ns, " END " AS end_ns");
	append_parts(sql, columns, n_columns);
	sqlite3_str_appendall(
		sql, " FROM record r WHERE r.range > 0 GROUP BY r.process, r.range),"
		     " within(process, range, enclosing) AS (SELECT process, range, range FROM own"
		     " UNION ALL SELECT w.process, w.range, g.parent FROM within w JOIN range g"
		     " ON g.process = w.process AND g.id = w.enclosing WHERE g.parent > 0),"
		     " path(process, id, depth, text) AS ("
		     " SELECT process, id, depth, " NAME " FROM range g WHERE parent = 0"
		     " UNION ALL SELECT g.process, g.id, g.depth, p.text || '/' || " NAME
		     " FROM path p JOIN range g ON g.parent = p.id AND +g.process = p.process)"
		     " SELECT p.text AS nvtx, min(p.depth) AS depth, sum(s.launches) AS launches,"
		     " sum(s.duration_ns) AS duration_ns, min(s.begin_ns) AS begin_ns,"
		     " max(s.end_ns) AS end_ns");
	append_whole(sql, columns, n_columns);
	sqlite3_str_appendall(sql,
			      " FROM within w JOIN own s ON s.process = w.process AND s.range = "
			      "w.range JOIN path p ON p.process = w.process AND p.id = w.enclosing"
			      " GROUP BY 1;");
}

/* Nothing tells when a range was opened and closed, so its occurrences are those that launches
 * show: an uninterrupted series of launches of one thread within it. Launches of a thread are
 * numbered; in a series the number of the launch and the number of the launch within the range
 * grow alike. */
static const char spans[] =
	"CREATE VIEW nvtx_spans AS WITH RECURSIVE"
	" within(process, range, enclosing) AS ("
	" SELECT DISTINCT process, range, range FROM record WHERE range > 0"
	" UNION ALL SELECT w.process, w.range, g.parent FROM within w JOIN range g"
	" ON g.process = w.process AND g.id = w.enclosing WHERE g.parent > 0),"
	" launched AS (SELECT *, row_number() OVER (PARTITION BY process, thread ORDER BY idx)"
	" AS nth FROM record),"
	" inside AS (SELECT l.process, l.thread, l.idx, l.start_ns, l.duration_ns, l.clock,"
	" w.enclosing, l.nth - row_number() OVER (PARTITION BY l.process, l.thread, w.enclosing"
	" ORDER BY l.nth) AS series FROM launched l JOIN within w"
	" ON w.process = l.process AND w.range = l.range)"
	" SELECT r.process, r.thread, r.enclosing AS range, g.depth, g.domain, g.message,"
	" substr(g.message, 1, g.name_length) AS name, min(r.idx) AS first_idx,"
	" max(r.idx) AS last_idx, count(*) AS launches, " BEGIN " AS begin_ns, " END " AS end_ns"
	" FROM inside r JOIN range g ON g.process = r.process AND g.id = r.enclosing"
	" GROUP BY r.process, r.thread, r.enclosing, r.series;";

char *schema_format_views(const struct gpuctr_column *columns, size_t n_columns, bool graphs)
{
	sqlite3_str *sql = sqlite3_str_new(NULL);

	append_records(sql, columns, n_columns, graphs);
	append_by_kernel(sql, columns, n_columns);
	append_by_op(sql, columns, n_columns);
	append_by_nvtx(sql, columns, n_columns);
	sqlite3_str_appendall(sql, spans);
	return sqlite3_str_finish(sql);
}
