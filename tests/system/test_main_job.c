/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include "tests/system/lines.h"

/* The main job: a user without privileges runs a program and gets the counters of every kernel. */

/* tests/fake/README.md says what a kernel of so many threads counts. */
static void expect_values(const char *line)
{
	double threads = line_threads(line), read = 16 * threads, write = 8 * threads;
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
				stream_to(fixture_path(f, "records")), "--", FAKEAPP, "--kernels",
				"300", NULL);
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
