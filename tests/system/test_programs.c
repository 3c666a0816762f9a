/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <sys/prctl.h>

#include "tests/system/lines.h"
#include "tests/system/recorder.h"

/* Programs as they are: with children, threads, graphs, a profiler of their own, or no CUDA. */

/* fakeapp with these arguments. */
static struct program *measure(struct fixture *f, struct lines *l, const char *const *arguments)
{
	const char *program[24] = { FAKEAPP };

	for (size_t n = 1; *arguments; n++) {
		program[n] = *arguments++;
	}
	return lines_measure(f, l,
			     ARGUMENTS("--metrics", "dram__bytes_read.sum,dram__bytes_write.sum"),
			     program, 0);
}

static void expect_all_values(const struct lines *l)
{
	for (size_t i = 0; i < lines_count(l, "kernel"); i++) {
		const char *line = lines_at(l, "kernel", i);

		assert_true(line_number(line, "dram__bytes_read.sum") == 16 * line_threads(line));
		assert_true(line_number(line, "dram__bytes_write.sum") == 8 * line_threads(line));
	}
}

/* Programs inherit a filter, as that of a container. */
static bool is_filtered(void)
{
	return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0;
}

/* A thread of ours measures it, which it may not have. */
SYSTEM_TEST(a_program_that_may_start_no_thread_is_told_of)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_need_two_users(); /* root's processes are not counted */
	if (is_filtered()) {
		fixture_skip("a child process tries what the seccomp filter here allows, and this "
			     "program may have none, so that the agent leaves it alone in silence");
	}
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	fixture_skip("sanitizers start threads of their own");
#endif
	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--", "/bin/bash", "-c",
				"ulimit -u 1; exec \"$0\" --exit 7", FAKEAPP, NULL);
	expect_exit(client, 7);
	expect_output(client, "done 10\n");
	expect_message(client, "no thread could be started in the program");
	expect_message(client, "ulimit");
}

SYSTEM_TEST(children_are_measured_too)
{
	struct fixture *f = *state;
	struct lines l;

	fixture_start_daemon(f, NULL);
	measure(f, &l, ARGUMENTS("--children", "1", "--kernels", "20"));
	assert_int_equal(lines_total(&l, "processes"), 2);
	assert_int_equal(lines_total(&l, "seen"), 40);
	assert_int_equal(lines_total(&l, "measured"), 40);
	assert_int_equal(lines_count(&l, "kernel"), 40);
	assert_int_equal(lines_count(&l, "process_end"), 2);
	expect_all_values(&l);
	for (size_t i = 0; i < 40; i++) { /* the child first, then its parent */
		const char *line = lines_at(&l, "kernel", i);

		assert_true(line_number(line, "process") == (double)(i / 20 + 1));
		assert_true(line_number(line, "index") == (double)(i % 20));
		assert_true((line_number(line, "pid") ==
			     line_number(lines_at(&l, "kernel", 0), "pid")) == (i < 20));
	}
	lines_deinit(&l);
}

/* The hardware serves one process at a time: what it does not serve is counted, and told. */
SYSTEM_TEST(children_at_the_same_time_are_counted)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	fixture_start_daemon(f, NULL);
	client = measure(f, &l,
			 ARGUMENTS("--children", "3", "--kernels", "200", "--sleep-us", "500"));
	assert_int_equal(lines_total(&l, "processes"), 4);
	assert_int_equal(lines_total(&l, "seen"), 800);
	assert_int_equal(lines_total(&l, "measured") + lines_total(&l, "unready"), 800);
	assert_true(lines_total(&l, "measured") >= 400); /* one of the children, and the parent */
	assert_int_equal(lines_count(&l, "kernel"), lines_total(&l, "measured"));
	expect_all_values(&l);
	if (lines_total(&l, "unready") > 0) {
		expect_message(client, "hardware-busy");
	}
	lines_deinit(&l);
}

SYSTEM_TEST(a_fork_without_exec_does_no_harm)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	fixture_start_daemon(f, NULL);
	client = measure(f, &l, ARGUMENTS("--fork", "--kernels", "100"));
	expect_output(client, "done 100\n");
	assert_int_equal(lines_total(&l, "processes"), 1);
	assert_int_equal(lines_total(&l, "measured"), 100);
	assert_true(strstr(lines_at(&l, "process_end", 0), "\"clean\":true") != NULL);
	lines_deinit(&l);
}

SYSTEM_TEST(threads_streams_and_contexts)
{
	struct fixture *f = *state;
	double contexts = 0, streams = 0;
	struct lines l;

	fixture_start_daemon(f, NULL);
	measure(f, &l,
		ARGUMENTS("--threads", "8", "--streams", "4", "--contexts", "3", "--kernels", "100",
			  "--mixed", "--nvtx"));
	assert_int_equal(lines_total(&l, "seen"), 800);
	assert_int_equal(lines_total(&l, "seen"),
			 lines_total(&l, "measured") + lines_total(&l, "unready"));
	assert_int_equal(lines_total(&l, "failed") + lines_total(&l, "dropped") +
				 lines_total(&l, "lost"),
			 0);
	assert_int_equal(lines_count(&l, "kernel"), lines_total(&l, "measured"));
	expect_all_values(&l);
	for (size_t i = 0; i < lines_count(&l, "kernel"); i++) {
		const char *line = lines_at(&l, "kernel", i);

		contexts = line_number(line, "context") > contexts ? line_number(line, "context")
								   : contexts;
		streams = line_number(line, "stream") > streams ? line_number(line, "stream")
								: streams;
		assert_true(line_number(line, "index") == (double)i); /* whole and in order */
	}
	assert_true(contexts >= 1);
	assert_true(streams >= 4);
	lines_deinit(&l);
}

SYSTEM_TEST(a_device_outside_the_lease_is_left_alone)
{
	struct fixture *f = *state;
	struct program *client;

	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--metrics", "memory", "--devices", "1", "--", FAKEAPP,
				"--devices", "2", "--kernels", "50", NULL);
	expect_exit(client, 0);
	expect_message(client, "25 measured");
	expect_message(client, "25 skipped");
	expect_message(client, "not part of this capture's lease");
}

SYSTEM_TEST(a_graph_is_one_record_of_the_sum)
{
	struct fixture *f = *state;
	struct lines l;
	char name[64];

	fixture_start_daemon(f, NULL);
	measure(f, &l, ARGUMENTS("--kernels", "10", "--graph"));
	assert_int_equal(lines_total(&l, "capturing"), 4);
	assert_int_equal(lines_total(&l, "measured"), 12);
	for (size_t i = 10; i < 12; i++) {
		const char *line = lines_at(&l, "kernel", i);

		line_text(line, "kind", name, sizeof(name));
		assert_string_equal(name, "graph");
		assert_true(line_number(line, "dram__bytes_read.sum") ==
			    16 * (1 + 2 + 3 + 4) * 128);
	}
	lines_deinit(&l);
}

/* CUPTI takes one subscriber a process. When the program was first, it keeps it, and the user is
 * told. */
SYSTEM_TEST(a_program_that_uses_cupti_first_runs_and_is_told)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	setenv("GPUCTR_FAKE_FAIL", "cuptiSubscribe:1:39", 1);
	client = fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, "--kernels",
				"30", NULL);
	expect_exit(client, 0);
	expect_output(client, "done 30\n");
	expect_message(client, "cupti-in-use");
	expect_message(client, "torch.profiler");
	expect_no_owner(f);
}

SYSTEM_TEST(a_program_that_uses_cupti_later_runs_on)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, "--own-cupti",
				"--kernels", "30", NULL);
	expect_exit(client, 0);
	expect_output(client, "done 30\n");
	expect_message(client, "30 measured");
	expect_no_owner(f);
}

SYSTEM_TEST(a_program_without_cuda_never_meets_the_agent)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, "--no-cuda",
				"--exit", "4", NULL);
	expect_exit(client, 4);
	expect_message(client, "CUDA");
	assert_int_equal(count_text(f->daemon->err, "grant:"), 0);
}

/* The driver or CUPTI may fail any call: counted, told, and the program runs on. */
SYSTEM_TEST(failures_of_cupti_are_counted)
{
	struct fixture *f = *state;
	static const char *const calls[] = {
		"cuptiProfilerInitialize",
		"cuptiRangeProfilerEnable",
		"cuptiRangeProfilerGetCounterDataSize",
		"cuptiRangeProfilerCounterDataImageInitialize",
		"cuptiRangeProfilerSetConfig",
		"cuptiRangeProfilerStart",
		"cuptiRangeProfilerStop",
		"cuptiRangeProfilerDecodeData",
		"cuptiRangeProfilerPushRange",
		"cuptiRangeProfilerPopRange",
		"cuptiSubscribe",
		"cuptiEnableCallback",
		"cuptiProfilerHostInitialize",
		"cuptiProfilerHostEvaluateToGpuValues",
		"cuptiProfilerHostConfigAddMetrics",
	};

	fixture_start_daemon(f, NULL);
	f->violations_expected = true; /* a call that failed leaves the fake's rules unmet */
	fixture_check_leaks(false);    /* the agent's thread may end as it begins */
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		struct recorder r;
		struct program *p;
		char fail[128];

		recorder_connect(&r, f, USER_ANN);
		snprintf(fail, sizeof(fail), "%s:1:999", calls[i]);
		setenv("GPUCTR_FAKE_FAIL", fail, 1);
		p = recorder_start(&r, f, FAKEAPP, "--kernels", "200", NULL);
		unsetenv("GPUCTR_FAKE_FAIL");
		expect_exit(p, 0);
		expect_output(p, "done 200\n");
		recorder_close(&r);
		expect_balance(&r.totals);
		assert_int_equal(r.records, r.totals.measured);
		assert_int_equal(r.totals.lost, 0);
		if (r.totals.measured < 200 && r.n_notices == 0) {
			fail_msg("%s failed, %llu were measured, and nobody was told", calls[i],
				 (unsigned long long)r.totals.measured);
		}
		recorder_disconnect(&r);
	}
	expect_no_owner(f);
	expect_service(f, 1000);
}
