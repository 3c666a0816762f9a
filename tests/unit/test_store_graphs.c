/* SPDX-License-Identifier: Apache-2.0 */

/* Kernels of CUDA graphs come back from a capture with their graph and node. Links client/store. */

#include "tests/unit/store_fixture.h"

static void write_graphs(struct fixture *f, bool graphs)
{
	const struct store_options options = { .path = f->path,
					       .plan = &f->synthetic.plan,
					       .driver = "580.159.04",
					       .version = "0.1.0",
					       .graphs = graphs };
	struct store *s = NULL;

	assert_int_equal(store_create(&options, &f->error, &s), 0);
	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	for (size_t i = 0; i < 4; i++) {
		struct gpuctr_record record = *synthetic_record(&f->synthetic, i);

		if (i % 2) {
			record.kind = GPUCTR_LAUNCH_GRAPH_KERNEL;
			record.graph = 7;
			record.graph_node = UINT64_MAX - i; /* the bits of an unsigned number */
		}
		assert_int_equal(store_write_record(s, &record, NULL), 0);
	}
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);
}

static void change(struct fixture *f, const char *sql)
{
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

FIXTURE_TEST(kernels_of_graphs_come_back)
{
	struct fixture *f = *state;
	const struct gpuctr_record *record;
	struct store_reader *r;
	struct store_cursor *c;

	write_graphs(f, true);
	r = open_file(f);
	assert_true(store_info(r)->graphs);
	assert_int_equal(store_records(r, 1, 0, 0, &c), 0);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(store_next_record(c, &record), 0);
		assert_int_equal(record->kind == GPUCTR_LAUNCH_GRAPH_KERNEL, i % 2);
		assert_int_equal(record->graph, i % 2 ? 7 : 0);
		assert_true(record->graph_node == (i % 2 ? UINT64_MAX - i : 0));
	}
	store_cursor_free(c);
	store_reader_free(r);
}

FIXTURE_TEST(other_captures_are_without)
{
	struct fixture *f = *state;
	const struct gpuctr_record *record;
	struct store_reader *r;
	struct store_cursor *c;

	write_graphs(f, false);
	r = open_file(f);
	assert_false(store_info(r)->graphs);
	assert_int_equal(store_records(r, 1, 1, 1, &c), 0);
	assert_int_equal(store_next_record(c, &record), 0);
	assert_int_equal(record->kind, GPUCTR_LAUNCH_GRAPH_KERNEL);
	assert_int_equal(record->graph, 0);
	store_cursor_free(c);
	store_reader_free(r);
}

/* Whoever wrote it. */
FIXTURE_TEST(another_table_is_refused)
{
	static const char *const changes[] = {
		"DROP TABLE graph_kernel",
		"DROP TABLE graph_kernel; CREATE TABLE graph_kernel(record INTEGER PRIMARY KEY)",
		"DROP TABLE graph_kernel; CREATE VIEW graph_kernel AS SELECT 1 AS record, 2 AS "
		"graph, "
		"3 AS node",
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
		struct store_reader *r = NULL;

		remove(f->path);
		write_graphs(f, true);
		change(f, changes[i]);
		assert_int_equal(store_open(f->path, &f->error, &r), STORE_E_CORRUPT);
	}
}
