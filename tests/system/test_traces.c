/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <signal.h>

#include "tests/system/lines.h"
#include "tests/system/on_demand.h"
#include "tests/system/query.h"

/* `--mode trace`: when each kernel ran, and no counter. tests/fake/README.md says how long a
 * kernel takes. */

static double own_ns(const char *line)
{
	double threads = line_number_at(line, "grid", 0) * line_number_at(line, "block", 0);

	return 200 + (double)((long)threads / 64);
}

static void trace(struct fixture *f, struct lines *l, const char *option, const char *value)
{
	struct program *client = fixture_client(f, USER_ANN, "--mode", "trace", "-f",
						stream_to(fixture_path(f, "records")), "-o",
						fixture_path(f, "run.gpuctr"), "--", FAKEAPP,
						"--kernels", "3000", "--nvtx", option, value, NULL);

	expect_exit(client, 0);
	expect_message(client, "GH100, GPU 0: when kernels run, no counter is read");
	expect_message(client, "3,000 kernels seen in 1 process: 3,000 measured, 0 dropped");
	lines_load(l, fixture_path(f, "records"));
	assert_int_equal(lines_count(l, "kernel"), 3000);
}

SYSTEM_TEST(each_kernel_has_its_time_and_its_ranges)
{
	struct fixture *f = *state;
	struct lines l;

	setenv("GPUCTR_FAKE_TRACE", "1", 1);
	fixture_start_daemon(f, NULL);
	trace(f, &l, "--grids", "97");
	for (size_t i = 0; i < 3000; i++) {
		const char *line = lines_at(&l, "kernel", i);
		char text[64];

		assert_true(line_number_at(line, "grid", 0) == (double)(i % 97 + 1));
		line_text(line, "clock", text, sizeof(text));
		assert_string_equal(text, "gpu");
		assert_true(line_number(line, "duration_ns") == own_ns(line));
		assert_non_null(strstr(line, "\"metrics\":{}"));
		snprintf(text, sizeof(text), "layer %zu", i % 4);
		assert_non_null(strstr(line, text));
	}
	lines_deinit(&l);
	assert_true(query_run(f, "SELECT count(*) FROM records WHERE clock = 'gpu'") == 3000);
	/* Neither ranges nor a permission were asked for. */
	assert_int_equal(count_text(fixture_path(f, "calls.log"), "cuptiRangeProfiler"), 0);
	/* Kernels, and copies and fills for the sake of graphs. */
	assert_int_equal(count_text(fixture_path(f, "calls.log"), "cuptiActivityEnable"), 3);
	expect_no_objects(f);
}

/* Threads do not wait for each other, and launches run ahead of the GPU. */
SYSTEM_TEST(launches_run_as_they_like)
{
	struct fixture *f = *state;
	struct program *client;

	setenv("GPUCTR_FAKE_LATE_US", "100", 1);
	setenv("GPUCTR_FAKE_ACTIVITY_LATE_MS", "200", 1);
	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--mode", "trace", "-o", fixture_path(f, "run.gpuctr"),
				"--", FAKEAPP, "--kernels", "2500", "--threads", "8", "--streams",
				"4", "--devices", "2", "--mixed", NULL);
	expect_exit(client, 0);
	expect_output(client, "done 20000\n");
	expect_message(client, "20,000 kernels seen in 1 process: 20,000 measured, 0 dropped");
	assert_true(query_run(f, "SELECT count(*) FROM records WHERE clock = 'gpu'") == 20000);
	assert_true(query_run(f, "SELECT count(DISTINCT device) FROM records") == 2);
}

SYSTEM_TEST(the_table_shows_times_alone)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "-v", "--mode", "trace", "-o",
				fixture_path(f, "run.gpuctr"), "--", FAKEAPP, "--kernels", "8",
				"--nvtx", NULL);
	expect_exit(client, 0);
	expect_message(client, "time");
	expect_message(client, "k7            1     216 ns   216 ns  12.9%\n");
	expect_message(client, "no counter was read; GH100");
	expect_no_message(client, "dram");
	expect_no_message(client, "pass");
	client = fixture_client(f, USER_ANN, "report", fixture_path(f, "run.gpuctr"), "--by",
				"nvtx", NULL);
	expect_exit(client, 0);
	assert_true(count_text(client->out, "layer 3 ") == 1); /* of both steps */
	client = fixture_client(f, USER_ANN, "report", fixture_path(f, "run.gpuctr"), "--by",
				"nvtx,step", NULL);
	expect_exit(client, 0);
	assert_true(count_text(client->out, "layer 3 ") == 2);
}

/* A launch of a graph is as many records as the graph has kernels. */
SYSTEM_TEST(kernels_of_graphs_are_records)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--mode", "trace",
				stream_to(fixture_path(f, "records")), "-o",
				fixture_path(f, "run.gpuctr"), "--", FAKEAPP, "--kernels", "1",
				"--graph", NULL);
	expect_exit(client, 0);
	expect_message(client, "13 kernels seen in 1 process: 9 measured, 4 skipped");
	lines_load(&l, fixture_path(f, "records"));
	assert_int_equal(lines_count(&l, "kernel"), 9);
	for (size_t k = 0; k < 8; k++) {
		const char *line = lines_at(&l, "kernel", k + 1),
			   *first = lines_at(&l, "kernel", k / 4 * 4 + 1);
		char text[64];

		snprintf(text, sizeof(text), "\"mangled\":\"_Z2k%zuPf\"", k % 4);
		assert_non_null(strstr(line, text));
		assert_non_null(strstr(line, "\"kind\":\"graph_kernel\""));
		assert_true(line_number(line, "graph") == 1);
		assert_true(line_number(line, "graph_node") == (double)(UINT64_C(1) << 32 | k % 4));
		assert_true(line_number_at(line, "grid", 0) == (double)(k % 4 + 1));
		assert_true(line_number(line, "registers") == 32);
		assert_true(line_number(line, "duration_ns") == own_ns(line));
		assert_true(line_number(line, "correlation") == line_number(first, "correlation"));
		assert_true(line_number(line, "thread") == line_number(first, "thread"));
	}
	lines_deinit(&l);
	assert_true(query_run(f, "SELECT count(*) FROM records WHERE kind = 3") == 8);
}

SYSTEM_TEST(graphs_are_whole_if_asked_for)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--mode", "trace", "--graphs", "whole",
				stream_to(fixture_path(f, "records")), "--", FAKEAPP, "--kernels",
				"1", "--graph", NULL);
	expect_exit(client, 0);
	expect_message(client, "7 kernels seen in 1 process: 3 measured, 4 skipped");
	lines_load(&l, fixture_path(f, "records"));
	for (size_t k = 1; k < 3; k++) {
		assert_true(line_number(lines_at(&l, "kernel", k), "duration_ns") ==
			    4 * 200 + (1 + 2 + 3 + 4) * 128 / 64 + 3 * 100);
	}
	lines_deinit(&l);
}

/* How many kernels have a time, which must be their own; *ret_without: how many have none. */
static size_t count_timed(struct fixture *f, size_t *ret_without)
{
	struct lines l;
	size_t n;

	*ret_without = 0;
	lines_load(&l, fixture_path(f, "records"));
	n = lines_count(&l, "kernel");
	for (size_t i = 0; i < n; i++) {
		const char *line = lines_at(&l, "kernel", i);
		char text[64];

		line_value(line, "duration_ns", text, sizeof(text));
		if (text[0] == '\0') {
			++*ret_without;
		} else {
			assert_true(line_number(line, "duration_ns") == own_ns(line));
		}
	}
	lines_deinit(&l);
	return n - *ret_without;
}

static struct program *capture_one(struct fixture *f, struct program *p, const char *seconds,
				   size_t *ret_timed, size_t *ret_without)
{
	struct program *client = fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p),
						"--mode", "trace", "--duration", seconds, "-f",
						stream_to(fixture_path(f, "records")), NULL);

	expect_exit(client, 0);
	*ret_timed = count_timed(f, ret_without);
	return client;
}

/* Captures two threads that launch each half millisecond. On a busy machine the agent may join them
 * when the capture is almost over, so longer ones are tried until there are enough kernels. Returns
 * how many have a time. */
static size_t capture_two_threads(struct fixture *f, struct program **ret_client,
				  size_t *ret_without)
{
	static const char *const seconds[] = { "3", "6", "12", "24" };
	size_t timed = 0;

	*ret_without = 0;
	for (size_t i = 0; i < ARRAY_SIZE(seconds) && timed + *ret_without < 1000; i++) {
		struct program *p =
			fixture_client(f, USER_ANN, "standby", "--", FAKEAPP, "--kernels",
				       "1000000", "--threads", "2", "--sleep-us", "400", "--grids",
				       "13", "--blocks", "400", NULL);

		on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
		*ret_client = capture_one(f, p, seconds[i], &timed, ret_without);
		program_kill(p, SIGKILL);
	}
	return timed;
}

/* All records of one of the threads name its first launch: its kernels have no time rather than a
 * wrong one. On a busy machine one thread launches more than the other. */
static bool half_is_not_believed(struct fixture *f)
{
	struct program *client = NULL;
	size_t without, timed = capture_two_threads(f, &client, &without);

	expect_message(client, "have the correlation id of another launch");
	expect_message(client, "Start the program again: it stays so in that thread.");
	print_message("%zu kernels have a time, %zu do not\n", timed, without);
	return without >= timed / 2 && without <= 2 * timed;
}

SYSTEM_TEST(records_that_name_wrong_launches_are_not_believed)
{
	struct fixture *f = *state;
	bool as_expected = false;

	setenv("GPUCTR_FAKE_STUCK", "first", 1);
	fixture_start_daemon(f, NULL);
	for (int k = 0; k < 5 && !as_expected; k++) {
		as_expected = half_is_not_believed(f);
	}
	assert_true(as_expected);
}

/* While a launch's callback is turned off no thread is within the launch: CUPTI's records of that
 * thread would name one launch for ever. Nor is one within a fill while tracing is turned on or
 * off, which the fakes see. */
static void capture_launches_and_fills(struct fixture *f, struct program *p)
{
	size_t timed, without;

	for (int i = 0; i < 3; i++) {
		struct program *client = capture_one(f, p, "1.5", &timed, &without);

		expect_no_message(client, "have the correlation id of another launch");
		print_message("%zu kernels have a time, %zu do not\n", timed, without);
		assert_true(timed > 0);
		assert_int_equal(without, 0);
	}
}

SYSTEM_TEST(threads_are_within_launches_and_fills_all_the_time)
{
	struct fixture *f = *state;
	struct program *p;

	setenv("GPUCTR_FAKE_STUCK", "disabled", 1);
	setenv("GPUCTR_FAKE_RETURN_US", "500", 1);
	fixture_start_daemon(f, NULL);
	p = fixture_client(f, USER_ANN, "standby", "--", FAKEAPP, "--kernels", "1000000",
			   "--threads", "2", "--fills", "20", "--grids", "13", "--blocks", "400",
			   NULL);
	on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
	capture_launches_and_fills(f, p);
	program_kill(p, SIGKILL);
}

/* Here launches are watched for a quarter of a second, and left alone from then on. */
SYSTEM_TEST(they_are_from_the_beginning)
{
	struct fixture *f = *state;
	struct program *client;
	size_t timed, without;

	setenv("GPUCTR_FAKE_STUCK", "disabled", 1);
	setenv("GPUCTR_FAKE_RETURN_US", "500", 1);
	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--mode", "trace", "-f",
				stream_to(fixture_path(f, "records")), "--", FAKEAPP, "--kernels",
				"2000", "--threads", "2", "--fills", "5", "--grids", "13",
				"--blocks", "400", NULL);
	expect_exit(client, 0);
	expect_no_message(client, "have the correlation id of another launch");
	timed = count_timed(f, &without);
	assert_int_equal(timed, 4000);
	assert_int_equal(without, 0);
}

SYSTEM_TEST(what_does_not_go_with_it_is_refused)
{
	static const char *const options[][2] = {
		{ "--metrics", "dram__bytes_read.sum" },
		{ "--raw", "--quiet" },
		{ "--recorded", "--quiet" },
	};
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		struct program *client =
			fixture_client(f, USER_ANN, "--mode", "trace", options[i][0], options[i][1],
				       "-o", fixture_path(f, "run.gpuctr"), "--", FAKEAPP, NULL);

		expect_exit(client, 125);
		expect_message(client, "--mode trace reads none");
		expect_output(client, "");
	}
}
