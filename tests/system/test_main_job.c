/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <signal.h>

#include "tests/system/lines.h"

/* The main job: a user without privileges runs a program and gets the counters of every kernel. */

static double threads_of(const char *line)
{
	double threads = 1;

	for (size_t i = 0; i < 3; i++) {
		threads *= line_number_at(line, "grid", i) * line_number_at(line, "block", i);
	}
	return threads;
}

/* tests/fake/README.md says what a kernel of so many threads counts. */
static void expect_values(const char *line)
{
	double threads = threads_of(line), read = 16 * threads, write = 8 * threads;
	double ns = 1000 + (double)((long)threads / 64),
	       instructions = (double)((long)threads / 32) * 100;
	char clock[16];

	assert_true(line_number(line, "dram__bytes_read.sum") == read);
	assert_true(line_number(line, "dram__bytes_write.sum") == write);
	assert_true(line_number(line, "sm__inst_executed.sum") == instructions);
	assert_true(line_number(line, "duration_ns") == ns);
	line_text(line, "clock", clock, sizeof(clock));
	assert_string_equal(clock, "range"); /* beside instructions nothing is traced */
}

/* Launch i of fakeapp, on one thread. */
static void expect_launch(const char *line, size_t i)
{
	char name[64], expected[64];

	line_text(line, "mangled", name, sizeof(name));
	snprintf(expected, sizeof(expected), "_Z2k%zuPf", i % 8);
	assert_string_equal(name, expected);
	line_text(line, "kernel", name, sizeof(name));
	snprintf(expected, sizeof(expected), "k%zu(float*)", i % 8);
	assert_string_equal(name, expected);
	assert_true(line_number(line, "index") == (double)i);
	assert_true(line_number_at(line, "grid", 0) == (double)(i % 97 + 1));
	assert_true(line_number_at(line, "block", 0) == 128);
	assert_true(line_number(line, "device") == 0);
}

SYSTEM_TEST(every_kernel_has_its_values)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;
	double before = 0;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--metrics",
				"dram__bytes_read.sum,dram__bytes_write.sum,sm__inst_executed.sum",
				"--format", "jsonl", "--output", fixture_path(f, "records"), "--",
				FAKEAPP, "--kernels", "300", NULL);
	expect_exit(client, 0);
	expect_output(client, "done 300\n");
	expect_message(client, "300 kernels seen in 1 process: 300 measured, 0 dropped");
	lines_load(&l, fixture_path(f, "records"));
	assert_int_equal(lines_count(&l, "kernel"), 300);
	for (size_t i = 0; i < 300; i++) {
		const char *line = lines_at(&l, "kernel", i);

		expect_launch(line, i);
		expect_values(line);
		assert_true(line_number(line, "start_ns") >= before);
		before = line_number(line, "start_ns");
	}
	lines_deinit(&l);
	expect_no_owner(f);
}

SYSTEM_TEST(every_kernel_has_its_ranges)
{
	struct fixture *f = *state;
	struct program *client;
	char path[256], expected[256];
	struct lines l;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--metrics", "memory", "--format", "jsonl", "--output",
				fixture_path(f, "records"), "--", FAKEAPP, "--kernels", "100",
				"--nvtx", NULL);
	expect_exit(client, 0);
	lines_load(&l, fixture_path(f, "records"));
	for (size_t i = 0; i < 100; i++) {
		const char *line = lines_at(&l, "kernel", i);

		line_ranges(line, "nvtx", path, sizeof(path));
		snprintf(expected, sizeof(expected), "step %zu/epoch/layer %zu", i / 4, i % 4);
		assert_string_equal(path, expected);
		line_ranges(line, "ranges", path, sizeof(path));
		assert_string_equal(path, "whole run");
		assert_non_null(strstr(line, "{\"domain\":\"fakeapp\",\"message\":\"epoch\""));
	}
	assert_int_equal(lines_count(&l, "mark"), 25);
	line_text(lines_at(&l, "mark", 0), "message", path, sizeof(path));
	assert_string_equal(path, "step done");
	lines_deinit(&l);
}

SYSTEM_TEST(a_derived_metric_is_its_weighted_sum)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--metrics", "kineto__cuda_core_flops", "--format",
				"jsonl", "--output", fixture_path(f, "records"), "--", FAKEAPP,
				"--kernels", "20", NULL);
	expect_exit(client, 0);
	lines_load(&l, fixture_path(f, "records"));
	for (size_t i = 0; i < 20; i++) {
		const char *line = lines_at(&l, "kernel", i);

		/* hadd hmul hfma fadd fmul ffma dadd dmul dfma count 1 to 9 a thread, an fma twice.
		 */
		assert_true(line_number(line, "kineto__cuda_core_flops") ==
			    (1 + 2 + 2 * 3 + 4 + 5 + 2 * 6 + 7 + 8 + 2 * 9) * threads_of(line));
	}
	lines_deinit(&l);
}

SYSTEM_TEST(filters_choose_launches)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--metrics", "memory", "--kernel", "^k[23]\\(",
				"--launch-skip", "3", "--launch-count", "5", "--format", "jsonl",
				"--output", fixture_path(f, "records"), "--", FAKEAPP, "--kernels",
				"80", NULL);
	expect_exit(client, 0);
	lines_load(&l, fixture_path(f, "records"));
	assert_int_equal(lines_count(&l, "kernel"), 5);
	for (size_t i = 0; i < 5; i++) { /* matching: 2 3 10 11 18 19 26 27 34 ... */
		static const unsigned launches[] = { 11, 18, 19, 26, 27 };

		assert_true(line_number_at(lines_at(&l, "kernel", i), "grid", 0) ==
			    launches[i] + 1);
	}
	assert_true(line_number(lines_at(&l, "totals", 0), "seen") == 80);
	assert_true(line_number(lines_at(&l, "totals", 0), "filtered") == 75);
	lines_deinit(&l);
}

/* --- refused and allowed --- */

SYSTEM_TEST(refused_without_the_daemon_and_allowed_with_it)
{
	struct fixture *f = *state;
	struct program *p;

	fixture_need_perfmon();
	p = fixture_run(f, USER_ANN, TEST_ENABLE, NULL);
	expect_exit(p, 0);
	expect_output(p, "enable 35\n"); /* CUPTI_ERROR_INSUFFICIENT_PRIVILEGES */
	fixture_start_daemon(f, NULL);
	p = fixture_run(f, USER_ANN, TEST_ENABLE, NULL);
	expect_exit(p, 0);
	expect_output(p, "enable 35\n"); /* a daemon alone opens nothing */
	p = fixture_client(f, USER_ANN, "--", TEST_ENABLE, NULL);
	expect_exit(p, 0);
	expect_output(p, "enable 0\n");
	p = fixture_run(f, USER_ANN, TEST_ENABLE, NULL);
	expect_exit(p, 0);
	expect_output(p, "enable 35\n"); /* and it is over afterwards */
}

SYSTEM_TEST(a_daemon_without_the_capability_says_so)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_need_perfmon();
	f->daemon = fixture_run(f, USER_BOB, TEST_DAEMON, "-s", f->socket, "-v", "--set",
				"allow-users=*", NULL);
	expect_text_soon(f->daemon->err, "listening on");
	expect_message(f->daemon, "without CAP_PERFMON");
	client = fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, "--kernels",
				"10", NULL);
	expect_exit(client, 0);
	expect_output(client, "done 10\n");
	expect_message(client, "grant-refused");
	expect_message(client, "CAP_PERFMON");
	expect_message(client, "10 kernels seen in 1 process: 10 skipped");
}

/* --- the program is left alone --- */

static void expect_same_output(struct program *a, struct program *b)
{
	CLEAN_FREE char *text = read_file(a->out);

	expect_output(b, text);
	assert_true(strlen(text) > 0);
}

static void expect_silence(struct program *p)
{
	CLEAN_FREE char *err = read_file(p->err);

	assert_string_equal(err, "");
}

SYSTEM_TEST(output_is_the_programs_own)
{
	struct fixture *f = *state;
	struct program *plain, *measured;

	fixture_start_daemon(f, NULL);
	plain = fixture_run(f, USER_ANN, FAKEAPP, "--kernels", "50", "--print", "--exit", "3",
			    NULL);
	expect_exit(plain, 3);
	measured = fixture_client(f, USER_ANN, "-q", "--metrics", "memory", "--", FAKEAPP,
				  "--kernels", "50", "--print", "--exit", "3", NULL);
	expect_exit(measured, 3);
	expect_same_output(plain, measured);
	expect_silence(
		measured); /* the program says nothing there, and -q keeps the client silent */
}

SYSTEM_TEST(a_crash_is_passed_on)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, "--kernels",
				"200", "--sleep-us", "200", "--crash-after", "150", NULL);
	expect_exit(client, 128 + SIGSEGV);
	expect_output(client, "");
	expect_no_owner(f);
	expect_service(f, 1000);
}

SYSTEM_TEST(exit_in_a_signal_handler)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, "--kernels",
				"200", "--exit-in-signal", "--exit", "5", NULL);
	expect_exit(client, 5);
	expect_message(client, "kernels seen");
	expect_no_owner(f);
}

SYSTEM_TEST(a_program_that_cannot_run)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--metrics", "memory", "--", "/nonexistent/program",
				NULL);
	expect_exit(client, 127);
	expect_message(client, "/nonexistent/program");
	client = fixture_client(f, USER_ANN, "--metrics", "memory", "--", f->folder, NULL);
	expect_exit(client, 126);
	expect_service(f, 1000);
}

SYSTEM_TEST(what_cannot_be_measured_is_refused_before_it_runs)
{
	struct fixture *f = *state;
	static const struct {
		const char *metrics, *code, *hint;
	} wrong[] = {
		{ "dram__bytes_raed.sum", "metric-unknown", "dram__bytes_read.sum" },
		{ "nothing__*.sum", "metric-no-match", "nothing__*.sum" },
		{ "regex:(", "bad-pattern", "regex:(" },
		{ "sm__inst_executed_pipe_fp16.sum", "metric-other-chip", "TU102" },
		{ "dram__bytes_read.sum,sm__throughput.avg.pct_of_peak_sustained_elapsed",
		  "too-many-passes", "needs several passes by itself" },
	};

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct program *client = fixture_client(f, USER_ANN, "--metrics", wrong[i].metrics,
							"--", FAKEAPP, NULL);

		expect_exit(client, 125);
		expect_output(client, "");
		expect_message(client, wrong[i].code);
		expect_message(client, wrong[i].hint);
	}
	expect_service(f, 1000);
}
