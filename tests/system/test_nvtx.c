/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/clean.h"
#include "tests/system/lines.h"

/* NVTX has many functions that do nearly the same, and each is a callback of ours. fakenvtx calls
 * every one of them and says what it has open at each launch; the records have to agree. */

enum { MESSAGES_BYTES = 40000 };

static struct program *measure(struct fixture *f, const char *option)
{
	struct program *client;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum",
				stream_to(fixture_path(f, "records")), "--", TEST_FAKENVTX, option,
				NULL);
	expect_exit(client, 0);
	return client;
}

/* The next line of the text, without its end; NULL: there is none. */
static char *take_line(char **text)
{
	char *line = *text, *end = strchr(line, '\n');

	if (!end) {
		return NULL;
	}
	*end = '\0';
	*text = end + 1;
	return line;
}

static void expect_mark(const struct lines *l, size_t i, const char *text)
{
	char message[256];

	line_text(lines_at(l, "mark", i), "message", message, sizeof(message));
	assert_string_equal(message, text);
}

/* What is open, as the program has it: PUSHED<tab>STARTED. */
static void expect_open(const struct lines *l, size_t i, char *open)
{
	static char messages[MESSAGES_BYTES];
	const char *line = lines_at(l, "kernel", i);
	char *started = strchr(open, '\t');

	*started++ = '\0';
	line_ranges(line, "nvtx", messages, sizeof(messages));
	assert_string_equal(messages, open);
	line_ranges(line, "ranges", messages, sizeof(messages));
	assert_string_equal(messages, started);
}

SYSTEM_TEST(every_function_is_followed)
{
	struct fixture *f = *state;
	struct program *client = measure(f, NULL);
	CLEAN_FREE char *out = read_file(client->out);
	size_t kernels = 0, marks = 0;
	char *text = out, *line;
	struct lines l;

	lines_load(&l, fixture_path(f, "records"));
	while ((line = take_line(&text)) != NULL) {
		if (strncmp(line, "mark\t", 5) == 0) {
			expect_mark(&l, marks++, line + 5);
		} else {
			expect_open(&l, kernels++, line);
		}
	}
	assert_int_equal(lines_count(&l, "kernel"), kernels);
	assert_int_equal(lines_count(&l, "mark"), marks);
	assert_true(kernels > 100 && marks == 4);
	lines_deinit(&l);
}

/* A child may be forked while another thread is within one of our functions. glibc makes malloc()
 * usable in the child; the allocator of gcc's address sanitizer may stay locked there for ever. */
SYSTEM_TEST(children_do_not_hang)
{
	struct fixture *f = *state;

#ifdef __SANITIZE_ADDRESS__
	fixture_skip("malloc() of the address sanitizer may hang in a child of several threads");
#endif
	expect_output(measure(f, "--fork"), "children 20\n");
}

/* --- steps --- */

enum { FEW = 100, MANY = 20000, GROWN_KIB_MAX = 8192 };

static sqlite3_int64 count(struct fixture *f, const char *name, const char *sql)
{
	sqlite3_stmt *stmt;
	sqlite3_int64 n;
	sqlite3 *db;

	assert_int_equal(sqlite3_open_v2(fixture_path(f, name), &db, SQLITE_OPEN_READONLY, NULL),
			 SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	n = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return n;
}

/* Returns by how many KiB the program's memory has grown. */
static long take_steps(struct fixture *f, int n, const char *name)
{
	CLEAN_FREE char *text = NULL;
	struct program *client;
	char steps[16];
	long grown = 0;

	snprintf(steps, sizeof(steps), "%d", n);
	client = fixture_client(f, USER_ANN, "--mode", "trace", "-o", fixture_path(f, name),
				"--quiet", "--", TEST_FAKENVTX, "--steps", steps, NULL);
	expect_exit(client, 0);
	text = read_file(client->out);
	assert_non_null(text);
	assert_int_equal(sscanf(text, "grown %ld", &grown), 1);
	return grown;
}

/* The agent, the protocol and the file have a training's call sites, however many steps it takes.
 */
SYSTEM_TEST(steps_are_told_in_constant_memory)
{
	static const char *const tables[] = { "SELECT count(*) FROM site",
					      "SELECT count(*) FROM place",
					      "SELECT count(*) FROM active" };
	struct fixture *f = *state;
	long grown;

	fixture_start_daemon(f, NULL);
	take_steps(f, FEW, "few.gpuctr");
	grown = take_steps(f, MANY, "many.gpuctr");
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		assert_int_equal(count(f, "many.gpuctr", tables[i]),
				 count(f, "few.gpuctr", tables[i]));
	}
	assert_int_equal(count(f, "few.gpuctr", tables[0]), 5);
	assert_int_equal(count(f, "many.gpuctr", "SELECT count(DISTINCT step) FROM record"), MANY);
	assert_int_equal(count(f, "many.gpuctr",
			       "SELECT count(*) FROM records WHERE seq = 3 * step + substr(op, 9)"
			       " AND nvtx = 'iteration ' || step || '/' || op"),
			 3 * MANY);
	assert_int_equal(count(f, "many.gpuctr", "SELECT count(*) FROM notice"), 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they keep what is freed */
	if (grown > GROWN_KIB_MAX) {
		fail_msg("the program has grown by %ld KiB", grown);
	}
#else
	(void)grown;
#endif
}
