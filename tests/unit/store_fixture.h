/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A capture file in a folder of its own, for the tests of client/store. */

#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/store/meta.h"
#include "client/store/reader.h"
#include "client/store/schema.h"
#include "tests/bench/synthetic.h"

struct fixture {
	struct synthetic synthetic;
	char folder[64];
	char path[96];
	struct store_error error;
};

static inline int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	synthetic_init(&f->synthetic);
	snprintf(f->folder, sizeof(f->folder), "/tmp/test_store.XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	snprintf(f->path, sizeof(f->path), "%s/run.gpuctr", f->folder);
	*state = f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", f->folder);
	assert_int_equal(system(command), 0);
	free(f);
	return 0;
}

static inline struct store *create(struct fixture *f)
{
	static const char *const command[] = { "python", "net.py", "it's", "", NULL };
	const struct store_options options = { .path = f->path,
					       .plan = &f->synthetic.plan,
					       .command = command,
					       .driver = "580.159.04",
					       .version = "0.1.0" };
	struct store *s = NULL;

	assert_int_equal(store_create(&options, &f->error, &s), 0);
	return s;
}

static const struct gpuctr_end all_well = { .totals = { .seen = 12, .measured = 10, .filtered = 2 },
					    .processes = 1,
					    .error = { 0, "", "" } };

/* A finished file with n records. */
static inline void write_file(struct fixture *f, unsigned n)
{
	struct store *s = create(f);

	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(store_write_record(s, synthetic_record(&f->synthetic, i), NULL),
				 0);
	}
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);
}

static inline struct store_reader *open_file(struct fixture *f)
{
	struct store_reader *r = NULL;
	int result = store_open(f->path, &f->error, &r);

	if (result) {
		print_message("%s\n", f->error.message);
	}
	assert_int_equal(result, 0);
	return r;
}

static inline void expect_refused(struct fixture *f, int code)
{
	struct store_reader *r = NULL;

	f->error.code = 0;
	assert_int_equal(store_open(f->path, &f->error, &r), code);
	assert_null(r);
	assert_int_equal(f->error.code, code);
	assert_non_null(strstr(f->error.message, f->path));
	assert_true(f->error.remedy[0] != '\0');
}

/* What another program does to the file. */
static inline void alter(struct fixture *f, const char *sql)
{
	sqlite3 *db;
	char *message = NULL;

	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 0, NULL);
	if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) {
		fail_msg("%s", message);
	}
	sqlite3_close(db);
}

static inline int64_t query(struct fixture *f, const char *sql)
{
	sqlite3 *db;
	sqlite3_stmt *stmt;
	int64_t value;

	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	value = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return value;
}

#define FIXTURE_TEST(name) TEST_WITH(name, setup, teardown)
