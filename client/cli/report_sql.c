/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/report_sql.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>

#include "client/cli/say.h"
#include "client/report/groups.h"
#include "client/store/reader.h"

/* Columns of the view "records", or of tables joined to it. NULL: no view has this key for each
 * launch. */
static const char *const columns[KEY_END] = {
	[KEY_KERNEL] = "kernel",
	[KEY_OP] = "op",
	[KEY_LAYER] = "layer",
	[KEY_SHAPE] = "coalesce(sizes, printf('grid %dx%dx%d block %dx%dx%d', grid_x, grid_y, "
		      "grid_z, block_x, block_y, block_z))",
	[KEY_DIR] = "dir",
	[KEY_STEP] = "step",
	[KEY_DEVICE] = "uuid",
	[KEY_PROCESS] = "pid",
	[KEY_STREAM] = "stream",
	[KEY_THREAD] = "thread",
};

static bool has_columns(const struct keys *keys)
{
	for (unsigned i = 0; i < keys->n; i++) {
		if (!columns[keys->keys[i]]) {
			say_usage("report: --sql has no '%s': the file's views know it of no "
				  "launch%s",
				  keys_name(keys->keys[i]),
				  keys->keys[i] == KEY_NVTX ? "; ask the view by_nvtx" : "");
			return false;
		}
	}
	return true;
}

static void add_name(struct buf *b, const char *name)
{
	buf_char(b, '"');
	for (; *name; name++) {
		buf_text(b, *name == '"' ? "\"" : "");
		buf_char(b, *name);
	}
	buf_char(b, '"');
}

static void add_query(const struct gpuctr_plan *plan, const struct keys *keys, uint64_t limit,
		      struct buf *b)
{
	if (plan->passes > 1) {
		buf_text(b, "-- Metrics took turns: a sum is of the launches that had the metric. "
			    "The report's is of all.\n");
	}
	buf_text(b, "SELECT ");
	for (unsigned i = 0; i < keys->n; i++) {
		buf_printf(b, "%s AS \"%s\", ", columns[keys->keys[i]], keys_name(keys->keys[i]));
	}
	buf_text(b, "count(*) AS launches,\n       sum(duration_ns) AS time_ns");
	for (size_t i = 0; i < plan->n_columns; i++) {
		buf_text(b, groups_adds_up(plan->columns[i].name) ? ",\n       sum("
								  : ",\n       avg(");
		add_name(b, plan->columns[i].name);
		buf_text(b, ") AS ");
		add_name(b, plan->columns[i].name);
	}
	buf_text(b, "\nFROM records\nGROUP BY ");
	for (unsigned i = 0; i < keys->n; i++) {
		buf_printf(b, "%s%u", i > 0 ? ", " : "", i + 1);
	}
	buf_text(b, "\nORDER BY time_ns DESC");
	if (limit > 0) {
		buf_printf(b, "\nLIMIT %" PRIu64, limit);
	}
	buf_text(b, ";\n");
}

int report_sql(const char *path, const struct keys *keys, uint64_t limit, struct buf *b)
{
	struct store_error error;
	struct store_reader *reader;

	if (!has_columns(keys)) {
		return -EINVAL;
	}
	if (store_open(path, &error, &reader) != 0) {
		say_error(store_error_name(error.code), error.message, error.remedy);
		return -EIO;
	}
	add_query(&store_info(reader)->plan, keys, limit, b);
	store_reader_free(reader);
	return 0;
}
