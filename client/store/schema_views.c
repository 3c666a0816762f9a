/* SPDX-License-Identifier: Apache-2.0 */

/* Makes the views of views.sql with the metrics of a plan. */

#include "client/store/schema.h"

#include <sqlite3.h>
#include <string.h>
#include <strings.h>

extern const char *const store_views[];

bool schema_adds_up(const char *column)
{
	const char *dot = strrchr(column, '.');

	return !dot || strcmp(dot, ".sum") == 0;
}

/* As schema_mark(), but a metric may also have the name of a view's column. */
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

/* Appends a column for each metric of a row of several launches: the sum of the parts that
 * append_parts() names, or the mean if a sum has no meaning. */
static void append_sums(sqlite3_str *sql, const struct gpuctr_column *columns, size_t n_columns)
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

static void append_values(sqlite3_str *sql, const struct gpuctr_column *columns, size_t n_columns)
{
	for (size_t i = 0; i < n_columns; i++) {
		const char *name = columns[i].name;

		sqlite3_str_appendf(sql, ", r.\"%s%w\" AS \"%s%w\"", schema_mark(name), name,
				    mark_in_view(name), name);
	}
}

char *schema_format_views(const struct gpuctr_column *columns, size_t n_columns, bool graphs)
{
	static const char of_graphs[] = "@graphs";
	sqlite3_str *sql = sqlite3_str_new(NULL);

	for (const char *const *line = store_views; *line; line++) {
		if (strcmp(*line, "@values\n") == 0) {
			append_values(sql, columns, n_columns);
		} else if (strcmp(*line, "@parts\n") == 0) {
			append_parts(sql, columns, n_columns);
		} else if (strcmp(*line, "@sums\n") == 0) {
			append_sums(sql, columns, n_columns);
		} else if (strncmp(*line, of_graphs, strlen(of_graphs)) != 0) {
			sqlite3_str_appendall(sql, *line);
		} else if (graphs) {
			sqlite3_str_appendall(sql, *line + strlen(of_graphs));
		}
	}
	return sqlite3_str_finish(sql);
}
