/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include "proto/base/clock.h"
#include "tests/system/lines.h"
#include "tests/system/query.h"

/* Times are the kernels' own. tests/fake/README.md says how long a kernel takes, and how much
 * longer a range around it is. */

static void expect_clock(const char *line, const char *clock)
{
	char has[16];

	line_text(line, "clock", has, sizeof(has));
	assert_string_equal(has, clock);
}

static double own_ns(const char *line)
{
	return 200 + (double)((long)line_threads(line) / 64);
}

static double range_ns(const char *line)
{
	return own_ns(line) + 800;
}

static void measure(struct fixture *f, const char *metrics, struct lines *l)
{
	struct program *client = fixture_client(f, USER_ANN, "--metrics", metrics, "-o",
						fixture_path(f, "run.gpuctr"), "-f",
						stream_to(fixture_path(f, "records")), "--",
						FAKEAPP, "--kernels", "200", NULL);

	expect_exit(client, 0);
	expect_message(client, "200 kernels seen in 1 process: 200 measured, 0 dropped");
	lines_load(l, fixture_path(f, "records"));
	assert_int_equal(lines_count(l, "kernel"), 200);
}

/* Also where the range's length is asked for, which stays what it is. */
SYSTEM_TEST(times_are_the_kernels_own)
{
	struct fixture *f = *state;
	double sum = 0, begin = (double)clock_wall_ns();
	struct lines l;

	fixture_start_daemon(f, NULL);
	measure(f, "dram__bytes_read.sum,gpu__time_duration.sum", &l);
	for (size_t i = 0; i < 200; i++) {
		const char *line = lines_at(&l, "kernel", i);

		expect_clock(line, "gpu");
		assert_true(line_number(line, "duration_ns") == own_ns(line));
		assert_true(line_number(line, "gpu__time_duration.sum") == range_ns(line));
		assert_true(line_number(line, "start_ns") >= begin);
		begin = line_number(line, "start_ns");
		sum += own_ns(line);
	}
	assert_true(begin <= (double)clock_wall_ns());
	assert_true(query_run(f, "SELECT sum(duration_ns) FROM records WHERE clock = 'gpu'") ==
		    sum);
	lines_deinit(&l);
}

SYSTEM_TEST(where_cupti_does_not_tell_ranges_do)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	fixture_start_daemon(f, NULL);
	setenv("GPUCTR_FAKE_FAIL", "cuptiActivityEnable:1:25", 1);
	measure(f, "dram__bytes_read.sum", &l);
	for (size_t i = 0; i < 200; i++) {
		const char *line = lines_at(&l, "kernel", i);

		expect_clock(line, "range");
		assert_true(line_number(line, "duration_ns") == range_ns(line));
		assert_null(strstr(line, "gpu__time_duration")); /* nobody asked for it */
	}
	lines_deinit(&l);
	client = fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "--", FAKEAPP,
				NULL);
	expect_exit(client, 0);
	expect_message(client, "CUPTI does not tell when kernels begin and end");
	expect_message(client, "; times are of ranges");
	/* Where it would cost a further pass, there is none. */
	measure(f,
		"dram__bytes_read.sum,dram__bytes_write.sum,sm__inst_executed.sum,lts__t_bytes.sum",
		&l);
	expect_clock(lines_at(&l, "kernel", 0), "none");
	assert_non_null(strstr(lines_at(&l, "kernel", 0), "\"duration_ns\":null,"));
	lines_deinit(&l);
	assert_true(query_run(f, "SELECT count(*) FROM records WHERE duration_ns IS NULL") == 200);
}

/* Tracing costs each launch something: until one is wanted, CUPTI is not asked for it. */
SYSTEM_TEST(nothing_is_traced_until_a_launch_is_wanted)
{
	struct fixture *f = *state;
	struct program *client;

	setenv("GPUCTR_FAKE_FAIL", "cuptiActivityEnable:1:15", 1);
	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "-k",
				"regex:nothing", "--", FAKEAPP, NULL);
	expect_exit(client, 0);
	expect_message(client, "10 kernels seen");
	expect_no_message(client, "CUPTI does not tell");
	client = fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "--skip", "9",
				"--", FAKEAPP, NULL);
	expect_exit(client, 0);
	expect_message(client, "CUPTI does not tell");
	/* Or a graph is captured, whose launch may be. */
	client = fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "-k",
				"regex:nothing", "--", FAKEAPP, "--graph", NULL);
	expect_exit(client, 0);
	expect_message(client, "CUPTI does not tell");
}

/* Nothing is lost but the time: neither the record nor its counters. */
SYSTEM_TEST(times_that_do_not_come_are_not_known)
{
	struct fixture *f = *state;
	struct program *client;
	size_t unknown = 0;
	struct lines l;

	fixture_start_daemon(f, NULL);
	setenv("GPUCTR_FAKE_ACTIVITY_LATE_MS", "60000", 1);
	measure(f, "dram__bytes_read.sum", &l);
	expect_clock(lines_at(&l, "kernel", 0), "none");
	lines_deinit(&l);
	unsetenv("GPUCTR_FAKE_ACTIVITY_LATE_MS");
	setenv("GPUCTR_FAKE_ACTIVITY_DROP", "10", 1); /* of WaitNs, kernel, WaitNs, kernel... */
	measure(f, "dram__bytes_read.sum", &l);
	for (size_t i = 0; i < 200; i++) {
		const char *line = lines_at(&l, "kernel", i);

		unknown += strstr(line, "\"duration_ns\":null,\"clock\":\"none\"") != NULL;
		assert_true(line_number(line, "dram__bytes_read.sum") == 16 * line_threads(line));
	}
	assert_int_equal(unknown, 40);
	lines_deinit(&l);
	client = fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "--", FAKEAPP,
				"--kernels", "100", NULL);
	expect_exit(client, 0);
	expect_message(client, "CUPTI has lost records of when kernels began and ended");
	expect_message(client, "20 of 100 kernels have no time");
}

/* Kernels of CUDA's runtime are loaded at their first launch in each context. */
SYSTEM_TEST(loading_is_not_measured)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--metrics",
				"dram__bytes_read.sum,gpu__time_duration.sum", "-f",
				stream_to(fixture_path(f, "records")), "--", FAKEAPP, "--library",
				"--devices", "2", "--kernels", "41", "--graph", NULL);
	expect_exit(client, 0);
	expect_output(client, "done 41\n");
	lines_load(&l, fixture_path(f, "records"));
	assert_int_equal(lines_count(&l, "kernel"), 43);
	for (size_t i = 0; i < 43; i++) {
		const char *line = lines_at(&l, "kernel", i);

		if (strstr(line, "\"kind\":\"graph\"")) {
			assert_non_null(strstr(line, "\"static_shared_bytes\":null,"));
			assert_non_null(strstr(line, "\"registers\":null,"));
			continue;
		}
		assert_true(line_number(line, "gpu__time_duration.sum") == range_ns(line));
		assert_true(line_number(line, "static_shared_bytes") == 512);
		assert_true(line_number(line, "registers") == 32);
	}
	lines_deinit(&l);
}
