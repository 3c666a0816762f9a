/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <zlib.h>

#include "client/store/packed.h"
#include "tests/fake/metric.h"
#include "tests/system/query.h"

/* gpuctr-replay plays what the fakes have measured, and what somebody made of it. */

enum { KERNELS = 200 };

static void record(struct fixture *f, const char *path)
{
	struct program *p = fixture_client(f, USER_ANN, "--metrics", "memory", "--raw", "-o", path,
					   "--", FAKEAPP, "--kernels", "200", NULL);

	expect_exit(p, 0);
}

static struct program *play(struct fixture *f, const char *path, const char *out)
{
	return fixture_client(f, USER_ANN, "--metrics", "memory", "-o", out, "--", TEST_REPLAY,
			      path, NULL);
}

static sqlite3 *open_file(const char *path)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	return db;
}

/* The image that begins with launch first says that it holds more metrics than there can be: the
 * fake CUPTI follows it out of its memory, as the real one does. Its checksum is right. */
static void make_deadly(const char *path, unsigned first)
{
	sqlite3 *db = open_file(path);
	struct packed packed = { 0 };
	struct data_image *image;
	const uint8_t *data;
	sqlite3_stmt *stmt;
	int size;

	assert_int_equal(sqlite3_prepare_v2(db, "SELECT data, size FROM image WHERE first = ?", -1,
					    &stmt, NULL),
			 SQLITE_OK);
	sqlite3_bind_int64(stmt, 1, first);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	size = sqlite3_column_int(stmt, 1);
	assert_int_equal(packed_unpack(&packed, sqlite3_column_blob(stmt, 0),
				       (size_t)sqlite3_column_bytes(stmt, 0), (size_t)size, &data),
			 0);
	image = malloc((size_t)size);
	memcpy(image, data, (size_t)size);
	packed_deinit(&packed);
	sqlite3_finalize(stmt);
	assert_true(image->magic == DATA_MAGIC);
	image->set.count = METRIC_MAX + 1;
	assert_int_equal(sqlite3_prepare_v2(db,
					    "UPDATE image SET data = ?, crc32 = ? WHERE first = ?",
					    -1, &stmt, NULL),
			 SQLITE_OK);
	sqlite3_bind_blob(stmt, 1, image, size, SQLITE_STATIC);
	sqlite3_bind_int64(stmt, 2, (int64_t)crc32_z(0, (void *)image, (size_t)size));
	sqlite3_bind_int64(stmt, 3, first);
	assert_int_equal(sqlite3_step(stmt), SQLITE_DONE);
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	free(image);
}

SYSTEM_TEST(a_recording_gives_the_values_it_was_made_with)
{
	static const char *const sums[] = {
		"SELECT count(*) FROM record",
		"SELECT sum(idx * \"dram__bytes_read.sum\") FROM record",
		"SELECT sum(idx * \"dram__bytes_write.sum\") FROM record",
		"SELECT sum(idx * duration_ns) FROM record",
	};
	struct fixture *f = *state;
	char path[FILE_BYTES], out[FILE_BYTES];

	begin_with_files(f, path, out);
	record(f, path);
	expect_exit(play(f, path, out), 0);
	assert_int_equal(query_file(path, sums[0]), KERNELS);
	for (size_t i = 0; i < ARRAY_SIZE(sums); i++) {
		assert_true(query_file(path, sums[i]) == query_file(out, sums[i]));
	}
}

SYSTEM_TEST(metrics_that_a_recording_does_not_hold_are_refused)
{
	struct fixture *f = *state;
	char path[FILE_BYTES], out[FILE_BYTES];
	struct program *p;

	begin_with_files(f, path, out);
	record(f, path);
	p = fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum,lts__t_bytes.sum", "-o",
			   out, "--", TEST_REPLAY, path, NULL);
	expect_exit(p, 1);
	expect_message(p, "the recording does not hold lts__t_bytes.sum");
	expect_message(p, "It holds dram__bytes_read.sum, ");
}

/* The length of the ranges is a column like others, and the times are those that were recorded. */
SYSTEM_TEST(a_recording_may_hold_the_length_of_its_ranges)
{
	static const char *const sums[] = {
		"SELECT count(*) FROM record",
		"SELECT sum(idx * \"gpu__time_duration.sum\") FROM record",
		"SELECT sum(idx * duration_ns) FROM record",
	};
	struct fixture *f = *state;
	char path[FILE_BYTES], out[FILE_BYTES];
	struct program *p;

	begin_with_files(f, path, out);
	p = fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum,gpu__time_duration.sum",
			   "--raw", "-o", path, "--", FAKEAPP, "--kernels", "200", NULL);
	expect_exit(p, 0);
	p = fixture_client(f, USER_ANN, "-o", out, "--", TEST_REPLAY, path, NULL);
	expect_exit(p, 0);
	expect_message(p, "200 measured");
	assert_int_equal(query_file(out, sums[0]), KERNELS);
	for (size_t i = 0; i < ARRAY_SIZE(sums); i++) {
		assert_true(query_file(path, sums[i]) == query_file(out, sums[i]));
	}
}

SYSTEM_TEST(a_recording_is_not_replaced_by_what_it_plays)
{
	static const char says[] = "this is the file that is read, and writing would replace it";
	struct fixture *f = *state;
	struct program *p;
	char path[96], other[96];

	snprintf(path, sizeof(path), "%s", fixture_path(f, "run.gpuctr"));
	snprintf(other, sizeof(other), "%s", fixture_path(f, "other.gpuctr"));
	fixture_start_daemon(f, NULL);
	record(f, path);
	assert_int_equal(link(path, other), 0);
	assert_int_equal(link(path, fixture_path(f, "other.%.gpuctr")), 0);
	p = fixture_client(f, USER_ANN, "-f", "-o", other, "--", TEST_REPLAY, path, NULL);
	expect_exit(p, 125);
	expect_message(p, says);
	p = fixture_client(f, USER_ANN, "-f", "-o", fixture_path(f, "other.%%.gpuctr"), "--",
			   TEST_REPLAY, path, NULL);
	expect_exit(p, 125);
	expect_message(p, says);
	p = fixture_client(f, USER_ANN, "-f", stream_to(path), "--", TEST_REPLAY, path, NULL);
	expect_exit(p, 125);
	expect_message(p, says);
	assert_int_equal(query_file(path, "SELECT count(*) FROM record"), KERNELS);
}

SYSTEM_TEST(an_image_that_crashes_cupti_costs_its_own_kernels)
{
	struct fixture *f = *state;
	struct program *p;
	char path[FILE_BYTES], out[FILE_BYTES], text[128];
	unsigned second, n;

	begin_with_files(f, path, out);
	record(f, path);
	second = (unsigned)query_file(path, "SELECT min(first) FROM image WHERE first > 0");
	n = (unsigned)query_file(path,
				 "SELECT count FROM image WHERE first > 0 ORDER BY first LIMIT 1");
	make_deadly(path, second);
	p = play(f, path, out);
	expect_exit(p, 0);
	snprintf(text, sizeof(text), "the recording's kernels %u to %u (the first is k0(float*))",
		 second, second + n - 1);
	expect_message(p, text);
	expect_message(p, "could not be evaluated: CUPTI crashed on them (signal 11)");
	assert_int_equal(query_file(out, "SELECT count(*) FROM record"), KERNELS - n);
	assert_int_equal(query_file(out, "SELECT failed FROM process"), n);
}

/* What a terminal would obey: a title, the clipboard, C1's forms of the same, a line of its own. */
SYSTEM_TEST(a_recording_says_nothing_to_the_terminal)
{
	struct fixture *f = *state;
	struct program *p;
	char path[96];
	sqlite3 *db;

	snprintf(path, sizeof(path), "%s", fixture_path(f, "run.gpuctr"));
	fixture_start_daemon(f, NULL);
	record(f, path);
	db = open_file(path);
	assert_int_equal(
		sqlite3_exec(db,
			     "UPDATE process SET program = char(27) || ']52;c;ZXZpbA==' || char(7);"
			     "UPDATE device SET name = char(27) || ']0;evil' || char(155) || '2J';"
			     "UPDATE meta SET value = char(10) || 'evil' || char(27) || '[2J' WHERE"
			     " key IN ('command', 'driver', 'version');"
			     "UPDATE column_def SET unit = char(27) || 'c'",
			     NULL, NULL, NULL),
		SQLITE_OK);
	sqlite3_close(db);
	p = fixture_run(f, USER_ANN, TEST_REPLAY, "--info", path, NULL);
	expect_exit(p, 0);
	assert_int_equal(count_text(p->out, "\033") + count_text(p->out, "\302\233"), 0);
	assert_int_equal(count_text(p->out, "\nevil"), 0);
	assert_true(count_text(p->out, "\\x1b]52;c;ZXZpbA==\\x07") > 0);
	p = fixture_client(f, USER_ANN, "--metrics", "memory", "--", TEST_REPLAY, path, NULL);
	expect_exit(p, 0);
	expect_message(p, "evil");
	assert_int_equal(count_text(p->out, "\033") + count_text(p->err, "\033"), 0);
	db = open_file(path);
	assert_int_equal(sqlite3_exec(db, "ALTER TABLE mark RENAME TO \"\033]0;evil\a\"", NULL,
				      NULL, NULL),
			 SQLITE_OK);
	sqlite3_close(db);
	p = fixture_run(f, USER_ANN, TEST_REPLAY, "--info", path, NULL);
	expect_exit(p, 1);
	expect_message(p, "evil");
	assert_int_equal(count_text(p->err, "\033"), 0);
}

/* On a full disk, and where there is no standard output at all. */
SYSTEM_TEST(what_cannot_be_printed_is_told)
{
	struct fixture *f = *state;
	char path[96], command[512];
	struct program *p;

	snprintf(path, sizeof(path), "%s", fixture_path(f, "run.gpuctr"));
	fixture_start_daemon(f, NULL);
	record(f, path);
	snprintf(command, sizeof(command), "exec %s --info %s >/dev/full", TEST_REPLAY, path);
	p = fixture_run(f, USER_ANN, "/bin/sh", "-c", command, NULL);
	expect_exit(p, 1);
	expect_message(p, "gpuctr-replay: standard output: No space left on device");
	snprintf(command, sizeof(command), "exec %s --info %s >&-", TEST_REPLAY, path);
	p = fixture_run(f, USER_ANN, "/bin/sh", "-c", command, NULL);
	expect_exit(p, 1);
	expect_message(p, "gpuctr-replay: standard output: ");
}
