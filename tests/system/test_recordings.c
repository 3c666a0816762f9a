/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <math.h>
#include <unistd.h>

#include "tests/system/query.h"

/* Recordings of runs that were sampled: the fakes', and what somebody made of the bundled one.
 * tests/unit/test_sampled.c compares values of its program with those of ranges. */

#define RECORDING TEST_SOURCE "/client/replay/transformer-h200.gpuctr"
#define BOTH "dram__bytes_read.sum,dram__bytes_write.sum"

enum { KERNELS = 2000 };

/* Kernels of 10 to 130 us, of 13 shapes, one each 400 us. A sampler that is held up takes longer
 * intervals than the first one, so it is tried again. */
static void record(struct fixture *f, const char *path)
{
	double interval_ns = 0;

	for (int i = 0; i < 5 && interval_ns != 10000; i++) {
		expect_exit(fixture_client(f, USER_ANN, "--mode", "sample", "-f", "-o", path,
					   "--metrics", BOTH, "--", FAKEAPP, "--kernels", "2000",
					   "--grids", "13", "--blocks", "6000", "--sleep-us", "400",
					   "--nvtx", NULL),
			    0);
		interval_ns = query_file(path, "SELECT max(interval_ns) FROM sample_block");
	}
}

static struct program *play(struct fixture *f, const char *path, const char *out,
			    const char *option, const char *value)
{
	return fixture_client(f, USER_ANN, option, value, "-f", "-o", out, "--", TEST_REPLAY, path,
			      NULL);
}

static void alter(const char *path, const char *sql)
{
	sqlite3 *db;
	char *message = NULL;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) {
		fail_msg("%s", message);
	}
	sqlite3_close(db);
}

static void copy(const char *from, const char *to)
{
	char command[400];

	snprintf(command, sizeof(command), "cp '%s' '%s' && chmod 644 '%s'", from, to, to);
	assert_int_equal(system(command), 0);
}

/* --- what the fakes have recorded ------------------------------------------------------------ */

SAMPLING_TEST(a_run_that_was_sampled_gives_the_same_values_again)
{
	static const char *const sums[] = {
		"SELECT count(*) FROM record JOIN sampled ON record.id = sampled.record",
		"SELECT sum(idx * duration_ns) FROM record",
		"SELECT round(sum(idx * \"dram__bytes_read.sum\")) FROM record",
		"SELECT round(sum(idx * \"dram__bytes_write.sum\")) FROM record",
		"SELECT round(sum(record * \"dram__bytes_read.sum\")) FROM sampled",
		"SELECT sum(count) FROM sample_block",
		"SELECT count(DISTINCT nvtx) FROM records",
	};
	struct fixture *f = *state;
	char path[FILE_BYTES], out[FILE_BYTES];
	struct program *p;

	begin_with_files(f, path, out);
	record(f, path);
	assert_true(query_file(path, sums[0]) == KERNELS);
	p = play(f, path, out, "--raw", "--raw");
	expect_exit(p, 0);
	expect_message(p, "no GPU is leased");
	expect_message(p, "2,000 kernels seen in 1 process: 2,000 recorded, 0 dropped");
	expect_message(p, "values are SAMPLED: 10.0 us samples of the whole GPU");
	expect_message(p, "RECORDED on Fake H200 (GH100), driver 580.159.04, not measured here");
	for (size_t i = 0; i < ARRAY_SIZE(sums); i++) {
		print_message("%s: %f\n", sums[i], query_file(path, sums[i]));
		assert_true(query_file(path, sums[i]) == query_file(out, sums[i]));
	}
	assert_true(query_file(out, "SELECT count(*) FROM process WHERE recorded_from = 'Fake H200 "
				    "(GH100), driver 580.159.04'") == 1);
	p = fixture_run(f, USER_ANN, TEST_REPLAY, "--info", path, NULL);
	expect_exit(p, 0);
	assert_int_equal(count_text(p->out, "2000 kernels, on Fake H200 (GH100)"), 1);
	assert_int_equal(count_text(p->out, " of the whole GPU, each 10 us"), 1);
}

SAMPLING_TEST(kernels_of_graphs_are_played)
{
	static const char *const sums[] = {
		"SELECT count(*) FROM record",
		"SELECT sum(kind * idx) FROM records",
		"SELECT sum(record * graph) + sum(node) FROM graph_kernel",
		"SELECT round(sum(\"dram__bytes_read.sum\")) FROM record",
	};
	struct fixture *f = *state;
	char path[FILE_BYTES], out[FILE_BYTES];
	struct program *p;

	begin_with_files(f, path, out);
	p = fixture_client(f, USER_ANN, "--mode", "sample", "-o", path, "--metrics", BOTH, "--",
			   FAKEAPP, "--kernels", "10", "--graph", "--graph-nodes", "37",
			   "--graph-launches", "50", NULL);
	expect_exit(p, 0);
	assert_true(query_file(path, "SELECT count(*) FROM graph_kernel") == 37 * 50);
	expect_exit(play(f, path, out, "--metrics", BOTH), 0);
	for (size_t i = 0; i < ARRAY_SIZE(sums); i++) {
		assert_true(query_file(path, sums[i]) == query_file(out, sums[i]));
	}
}

/* One metric of them, and the launches that a filter chooses: what it leaves out runs all the same.
 */
SAMPLING_TEST(a_part_of_it_has_the_values_of_the_whole)
{
	struct fixture *f = *state;
	char path[FILE_BYTES], out[FILE_BYTES];
	struct program *p;
	double off;

	begin_with_files(f, path, out);
	record(f, path);
	expect_exit(play(f, path, out, "--metrics", "dram__bytes_write.sum"), 0);
	assert_true(query_file(out, "SELECT count(*) FROM column_def") == 1);
	assert_true(query_file(path, "SELECT sum(\"dram__bytes_write.sum\") FROM record") ==
		    query_file(out, "SELECT sum(\"dram__bytes_write.sum\") FROM record"));
	p = play(f, path, out, "--every", "2");
	expect_exit(p, 0);
	expect_message(p, "2,000 kernels seen in 1 process: 1,000 recorded, 1,000 filtered");
	off = query_file(out, "SELECT sum(\"dram__bytes_read.sum\") FROM record") /
		      query_file(path, "SELECT sum(\"dram__bytes_read.sum\") FROM record WHERE idx "
				       "% 2 = 0") -
	      1;
	print_message("of every second kernel: %+.4f %%\n", 100 * off);
	assert_true(fabs(off) < 0.001);
}

/* --- refusals -------------------------------------------------------------------------------- */

SAMPLING_TEST(each_recording_is_played_as_it_was_made)
{
	struct fixture *f = *state;
	char path[96], ranges[96], out[96], command[400];
	struct program *p;

	snprintf(path, sizeof(path), "%s", fixture_path(f, "run.gpuctr"));
	snprintf(ranges, sizeof(ranges), "%s", fixture_path(f, "ranges.gpuctr"));
	snprintf(out, sizeof(out), "%s", fixture_path(f, "out.gpuctr"));
	fixture_start_daemon(f, NULL);
	record(f, path);
	p = fixture_client(f, USER_ANN, "--metrics", BOTH, "--raw", "-o", ranges, "--", FAKEAPP,
			   NULL);
	expect_exit(p, 0);
	p = play(f, ranges, out, "--mode", "sample");
	expect_exit(p, 125);
	expect_message(p, "it holds no samples");
	p = play(f, path, out, "--mode", "range");
	expect_exit(p, 125);
	expect_message(p, "it holds samples, and no launch was measured alone");
	p = play(f, path, out, "--metrics", "lts__t_bytes.sum");
	expect_exit(p, 125);
	expect_message(p, "the recording does not hold lts__t_bytes.sum");
	expect_message(p, "It holds dram__bytes_read.sum, dram__bytes_write.sum");
	p = play(f, path, out, "--interval", "20us");
	expect_exit(p, 125);
	expect_message(p, "--recorded and --interval");
	p = play(f, path, out, "--graphs", "whole");
	expect_exit(p, 125);
	expect_message(p, "--recorded and --graphs");
	/* Its file is found where it is a word of the command. */
	snprintf(command, sizeof(command), "%s \"$0\"", TEST_REPLAY);
	p = fixture_client(f, USER_ANN, "--recorded", "--metrics", BOTH, "--", "/bin/sh", "-c",
			   command, path, NULL);
	expect_exit(p, 125);
	expect_message(p, "gpuctr-replay: No such file or directory");
	snprintf(command, sizeof(command), "%s '%s'", TEST_REPLAY, path);
	p = fixture_client(f, USER_ANN, "--recorded", "--metrics", BOTH, "--", "/bin/sh", "-c",
			   command, NULL);
	expect_exit(p, 1);
	expect_message(p, "Play it with --mode sample");
}

/* With the cause, whether it is found before anything was played or later. */
SAMPLING_TEST(a_damaged_recording_is_refused_with_its_cause)
{
	static const struct {
		const char *sql, *text;
		int status;
	} wrong[] = {
		{ "UPDATE sample_block SET crc32 = crc32 + 1 WHERE rowid = 5",
		  "is damaged (table sample_block: checksum of a block)", 125 },
		{ "DELETE FROM sample_block", "it holds no samples", 125 },
		{ "UPDATE sample_block SET start_ns = 5 WHERE rowid = 3",
		  "the recording's samples are not in order", 125 },
		{ "UPDATE sample_block SET gpu = 'GPU-of-somebody'",
		  "6,120 of 6,120 kernels have no value: on GPUs without samples 6,120", 0 },
		{ "UPDATE copy_block SET crc32 = crc32 + 1",
		  "is damaged (table copy_block: checksum of a block)", 1 },
		{ "DROP TABLE copy_block",
		  "is damaged (table copy_block: missing, or not declared as it should be)", 1 },
		{ "UPDATE record SET duration_ns = -5 WHERE idx = 77",
		  "is damaged (table record: column duration_ns is out of range)", 1 },
	};
	struct fixture *f = *state;
	char bad[96], out[96];
	struct program *p;

	snprintf(bad, sizeof(bad), "%s", fixture_path(f, "bad.gpuctr"));
	snprintf(out, sizeof(out), "%s", fixture_path(f, "out.gpuctr"));
	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		copy(RECORDING, bad);
		alter(bad, wrong[i].sql);
		p = play(f, bad, out, "--metrics", BOTH);
		expect_exit(p, wrong[i].status);
		expect_message(p, wrong[i].text);
	}
	copy(RECORDING, bad);
	assert_int_equal(truncate(bad, 500000), 0);
	p = play(f, bad, out, "--metrics", BOTH);
	expect_exit(p, 1);
	expect_message(p, "error[bad-recording]");
	expect_message(p, "is cut off");
}
