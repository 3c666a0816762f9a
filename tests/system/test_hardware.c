/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "tests/system/fixture.h"
#include "tests/system/lines.h"
#include "tests/system/recorder.h"

/* The GPU, its driver and CUPTI where they are less kind than a fake likes to be: late, in another
 * order, smaller than asked for, changed by being watched, busy, or older and newer than today's.
 * tests/fake/README.md says what of this was seen on hardware. */

#define MEMORY "dram__bytes_read.sum"
#define SM "sm__inst_executed.sum"
#define SASS "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
/* fakeapp with these arguments. */
static struct program *measure(struct fixture *f, struct lines *l, const char *metrics,
			       const char *const *arguments)
{
	const char *program[24] = { FAKEAPP };

	for (size_t n = 1; *arguments; n++) {
		program[n] = *arguments++;
	}
	return lines_measure(f, l, ARGUMENTS("--metrics", metrics), program, 0);
}

/* Every launch has a number of threads that its neighbours have not. */
static void expect_values(const struct lines *l, const char *key, double per_thread)
{
	for (size_t i = 0; i < lines_count(l, "kernel"); i++) {
		const char *line = lines_at(l, "kernel", i);

		assert_true(line_number(line, key) == per_thread * line_threads(line));
	}
}

static void expect_all_measured(const struct lines *l, size_t n)
{
	assert_int_equal(lines_total(l, "seen"), n);
	assert_int_equal(lines_total(l, "measured"), n);
	assert_int_equal(lines_count(l, "kernel"), n);
}

/* Times are the kernels' own, joined to the right launches. */
static void expect_times(const struct lines *l)
{
	for (size_t i = 0; i < lines_count(l, "kernel"); i++) {
		const char *line = lines_at(l, "kernel", i);
		char clock[16];

		line_text(line, "clock", clock, sizeof(clock));
		assert_string_equal(clock, "gpu");
		assert_true(line_number(line, "duration_ns") ==
			    200 + (double)((long)line_threads(line) / 64));
	}
}

/* --- late, and in another order --- */

/* Programs launch ahead of the GPU; with metrics of the SMs each launch waits for it. CUPTI
 * promises no order of ranges, which are known by their names, nor of the kernels' times, which are
 * known by their correlation ids. */
SYSTEM_TEST(what_comes_late_or_in_another_order_is_of_its_launch)
{
	static const struct {
		const char *variable, *value, *metric;
		double per_thread;
	} rows[] = {
		{ "GPUCTR_FAKE_LATE_US", "300", MEMORY, 16 },
		{ "GPUCTR_FAKE_LATE_US", "300", SM, 100.0 / 32 },
		{ "GPUCTR_FAKE_DECODE_REVERSED", "1", MEMORY, 16 },
		{ "GPUCTR_FAKE_ACTIVITY_REVERSED", "1", MEMORY, 16 },
	};
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct lines l;

		setenv(rows[i].variable, rows[i].value, 1);
		measure(f, &l, rows[i].metric, ARGUMENTS("--kernels", "200"));
		unsetenv(rows[i].variable);
		expect_all_measured(&l, 200);
		expect_values(&l, rows[i].metric, rows[i].per_thread);
		if (strcmp(rows[i].metric, MEMORY) == 0) {
			expect_times(&l);
		}
		lines_deinit(&l);
	}
}

/* What one stream has launched first may end last. */
SYSTEM_TEST(streams_overtake_each_other)
{
	struct fixture *f = *state;
	size_t on[2] = { 0 }; /* two GPUs at a time, and both are measured */
	struct lines l;

	setenv("GPUCTR_FAKE_LATE_US", "300", 1);
	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	fixture_start_daemon(f, NULL);
	measure(f, &l, MEMORY,
		ARGUMENTS("--kernels", "40", "--threads", "4", "--streams", "3", "--devices", "2",
			  "--graph"));
	assert_int_equal(lines_total(&l, "seen"), 160 + 4 * (4 + 2));
	assert_int_equal(lines_total(&l, "capturing"), 4 * 4);
	assert_int_equal(lines_total(&l, "measured") + lines_total(&l, "unready"), 160 + 4 * 2);
	for (size_t i = 0; i < lines_count(&l, "kernel"); i++) {
		const char *line = lines_at(&l, "kernel", i);

		on[(size_t)line_number(line, "device")]++;
		if (!strstr(line, "\"kind\":\"graph\"")) {
			assert_true(line_number(line, MEMORY) == 16 * line_threads(line));
		}
	}
	assert_true(on[0] > 0 && on[1] > 0);
	lines_deinit(&l);
}

/* Of several threads, whose other kernels may be counted by the range that is open just then: what
 * was measured beside another launch that had not returned is not told as exact. */
SYSTEM_TEST(others_run_beside_ranges)
{
	static const char *const metrics[] = { MEMORY, SM };
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(metrics); i++) {
		struct program *client;
		struct lines l;

		setenv("GPUCTR_FAKE_LATE_US", "20", 1);
		setenv("GPUCTR_FAKE_RETURN_US", "100", 1);
		client = fixture_client(f, USER_ANN, "--metrics", metrics[i], "-k", "regex:^k3\\(",
					"-f", stream_to(fixture_path(f, "records")), "--", FAKEAPP,
					"--kernels", "400", "--threads", "4", "--streams", "3",
					"--sleep-us", "500", NULL);
		expect_exit(client, 0);
		lines_load(&l, fixture_path(f, "records"));
		assert_int_equal(lines_total(&l, "filtered"), 1400);
		assert_int_equal(lines_total(&l, "measured") + lines_total(&l, "unready"), 200);
		assert_true(lines_total(&l, "measured") > 0);
		assert_int_equal(lines_count(&l, "kernel"), lines_total(&l, "measured"));
		expect_values(&l, metrics[i], i == 0 ? 16 : 100.0 / 32);
		lines_deinit(&l);
	}
}

/* --- changed by being watched --- */

/* CUPTI's tracing of kernels adds instructions to each warp, and empties SASS metrics: beside
 * metrics of the SMs the agent does not trace. */
SYSTEM_TEST(the_sms_are_not_traced)
{
	static const char *const metrics[] = { SM, SASS, MEMORY "," SM };
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(metrics); i++) {
		struct lines l;

		measure(f, &l, metrics[i], ARGUMENTS("--kernels", "100"));
		expect_all_measured(&l, 100);
		expect_values(&l, i == 1 ? SASS : SM, i == 1 ? 6 : 100.0 / 32);
		lines_deinit(&l);
	}
}

/* --- busy --- */

static void run_busy(struct fixture *f, struct recorder *r, const char *rule, const char *sleep_us)
{
	struct program *p;

	recorder_connect(r, f, USER_ANN);
	setenv("GPUCTR_FAKE_FAIL", rule, 1);
	p = recorder_start(r, f, FAKEAPP, "--kernels", "200", "--sleep-us", sleep_us, NULL);
	unsetenv("GPUCTR_FAKE_FAIL");
	expect_exit(p, 0);
	expect_output(p, "done 200\n");
	recorder_close(r);
	expect_balance(&r->totals);
	assert_int_equal(r->totals.seen, 200);
	assert_int_equal(r->records, r->totals.measured);
	assert_true(recorder_has_notice(r, GPUCTR_E_HARDWARE_BUSY));
}

/* Whoever has the GPU's counters, a call that CUPTI refuses for it costs the measuring and never
 * the program; the user is told once, and whom to look for. */
SYSTEM_TEST(a_gpu_that_stays_busy_is_told)
{
	static const char *const calls[] = { "cuptiRangeProfilerEnable",
					     "cuptiRangeProfilerSetConfig",
					     "cuptiRangeProfilerStart" };
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	f->violations_expected =
		true; /* an object that could not be configured stays until the end */
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		struct recorder r;
		char rule[96];

		snprintf(rule, sizeof(rule), "%s:0:26", calls[i]);
		run_busy(f, &r, rule, "1000");
		assert_int_equal(r.totals.measured, 0);
		assert_int_equal(r.totals.unready, 200);
		assert_int_equal(r.n_notices, 1);
		recorder_disconnect(&r);
	}
	expect_no_owner(f);
}

/* The other profiler may end: the agent looks again ten times a second. */
SYSTEM_TEST(a_gpu_that_was_busy_is_measured)
{
	static const char *const calls[] = { "cuptiRangeProfilerEnable",
					     "cuptiRangeProfilerStart" };
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		struct recorder r;
		char rule[192];

		snprintf(rule, sizeof(rule), "%s:1:26,%s:2:26", calls[i], calls[i]);
		run_busy(f, &r, rule, "3000");
		assert_true(r.totals.unready > 0);
		assert_true(r.totals.measured > 0);
		recorder_disconnect(&r);
	}
}

/* By name, for users of the client. */
SYSTEM_TEST(a_busy_gpu_names_who_may_hold_it)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	setenv("GPUCTR_FAKE_FAIL", "cuptiRangeProfilerEnable:0:26", 1);
	client = fixture_client(f, USER_ANN, "--metrics", MEMORY, "--", FAKEAPP, NULL);
	expect_exit(client, 0);
	expect_message(client, "hardware-busy");
	expect_message(client, "cuptiRangeProfilerEnable failed on GPU 0");
	expect_message(client, "ncu, DCGM");
}

/* --- NVML --- */

/* What is not known about a GPU is never taken for permission to share it. */
SYSTEM_TEST(nvml_may_fail_in_each_call)
{
	static const struct {
		const char *call;
		bool measures;
	} cases[] = {
		{ "nvmlInit_v2", false },
		{ "nvmlSystemGetDriverVersion", true },
		{ "nvmlSystemGetConfComputeState", true },   /* left to the driver */
		{ "nvmlDeviceGetVirtualizationMode", true }, /* the same */
		{ "nvmlDeviceGetHandleByUUID", false },
		{ "nvmlDeviceGetComputeRunningProcesses_v3", false },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct program *client;
		char rule[80];

		snprintf(rule, sizeof(rule), "%s:999", cases[i].call);
		setenv("GPUCTR_FAKE_NVML_FAIL", rule, 1);
		fixture_start_daemon(f, NULL);
		client = fixture_client(f, USER_ANN, "--metrics", MEMORY, "--", FAKEAPP,
					"--kernels", "5", NULL);
		if (cases[i].measures) {
			expect_exit(client, 0);
			expect_message(client, "5 measured");
		} else {
			program_wait(client);
			expect_message(client, "gpu-shared");
			expect_message(client, "does not tell who runs on the GPU");
			expect_message(client, "remedy: ");
			expect_no_message(client, "measured");
		}
		fixture_stop_daemon(f);
	}
}

/* --- older and newer drivers --- */

/* The request for permission has a shorter form, told from the other by the size in its number. */
SYSTEM_TEST(the_short_request_is_answered)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	setenv("GPUCTR_FAKE_SHORT_IOCTL", "1", 1);
	fixture_start_daemon(f, NULL);
	client = measure(f, &l, MEMORY, ARGUMENTS("--kernels", "50"));
	expect_output(client, "done 50\n");
	expect_all_measured(&l, 50);
	lines_deinit(&l);
	fixture_set_knob(f, "rm_status", 0x1b);
	client = fixture_client(f, USER_ANN, "--metrics", MEMORY, "--", FAKEAPP, NULL);
	expect_exit(client, 0);
	expect_message(client, "grant-refused");
	expect_no_message(client, "10 measured");
}

/* Where the driver makes the object for everybody and refuses later, the daemon is asked all the
 * same: whoever tried the driver first would be told that all is well. */
SYSTEM_TEST(a_driver_that_refuses_later)
{
	struct fixture *f = *state;
	struct lines l;

	fixture_need_perfmon();
	setenv("GPUCTR_FAKE_BLACKWELL", "1", 1);
	fixture_start_daemon(f, NULL);
	measure(f, &l, MEMORY, ARGUMENTS("--kernels", "50"));
	expect_all_measured(&l, 50);
	lines_deinit(&l);
}

/* The daemon goes away before it could be asked: the driver's own answer is told, whenever it
 * comes.
 */
SYSTEM_TEST(a_driver_that_refuses_later_is_heard)
{
	struct fixture *f = *state;
	char away[128];

	fixture_need_perfmon();
	snprintf(away, sizeof(away), "%s.away", f->socket);
	fixture_start_daemon(f, NULL);
	for (int i = 0; i < 2; i++) {
		struct recorder r;
		struct program *p;

		recorder_connect(&r, f, USER_ANN);
		p = recorder_start(&r, f, FAKEAPP, "--kernels", "20", "--hold", "init", NULL);
		fixture_wait_held(f, 1);
		assert_int_equal(rename(f->socket, away), 0);
		fixture_release(f);
		expect_exit(p, 0);
		expect_output(p, "done 20\n");
		assert_int_equal(rename(away, f->socket), 0);
		recorder_close(&r);
		expect_balance(&r.totals);
		assert_int_equal(r.totals.measured, 0);
		assert_true(recorder_has_notice(&r, GPUCTR_E_GRANT_REFUSED));
		recorder_disconnect(&r);
		setenv("GPUCTR_FAKE_BLACKWELL", "1", 1);
	}
}

/* --- what is left at the end of a program --- */

/* How many of this kind the programs since the last look have not given back. */
static int left(struct fixture *f, const char *kind)
{
	CLEAN_FREE char *text = read_file(fixture_path(f, "left.log"));
	int n = 0, sum = 0, used;
	char name[32];

	for (const char *p = text; sscanf(p, "%*d %31s %d%n", name, &n, &used) == 2; p += used) {
		sum += strcmp(name, kind) == 0 ? n : 0;
	}
	return sum;
}

static void run_for_left(struct fixture *f, const char *metrics, const char *const *arguments)
{
	struct lines l;

	unlink(fixture_path(f, "left.log"));
	measure(f, &l, metrics, arguments);
	lines_deinit(&l);
}

/* The agent's object lives as long as the process, and with it one subscriber, two kinds of
 * activity and two host objects a device (for planning and for evaluation). When a program exits
 * CUPTI is left in peace. Nothing of it grows with contexts or launches. */
SYSTEM_TEST(what_is_left_does_not_grow)
{
	struct fixture *f = *state;

	setenv("GPUCTR_FAKE_LATE_US", "100", 1);
	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	fixture_start_daemon(f, NULL);
	run_for_left(f, MEMORY,
		     ARGUMENTS("--kernels", "200", "--contexts", "8", "--streams", "2", "--graph",
			       "--library"));
	assert_int_equal(left(f, "profilers"), 0);
	assert_int_equal(left(f, "buffers"), 0);
	assert_int_equal(left(f, "events"), 0); /* they end with their contexts */
	assert_int_equal(left(f, "hosts"), 2);
	assert_int_equal(left(f, "subscribers"), 1);
	assert_int_equal(left(f, "activities"), 2);
	run_for_left(f, SM, ARGUMENTS("--kernels", "20", "--devices", "2", "--keep-contexts"));
	assert_int_equal(left(f, "profilers"), 0);
	assert_in_range(left(f, "events"), 0, 2 * 32); /* guard.h: GUARD_MARKS a context */
	assert_int_equal(left(f, "hosts"), 4);
	assert_int_equal(left(f, "subscribers"), 1);
	assert_int_equal(left(f, "activities"), 0);
}

/* The program goes on when the capture is over, perhaps for days: CUPTI is free for others. */
SYSTEM_TEST(what_is_left_of_a_capture)
{
	struct fixture *f = *state;
	struct recorder r;
	struct program *p;

	fixture_start_daemon(f, NULL);
	recorder_connect(&r, f, USER_ANN);
	p = recorder_start(&r, f, FAKEAPP, "--kernels", "200", "--hold", "middle",
			   "--keep-contexts", NULL);
	fixture_wait_held(f, 1);
	recorder_close(&r);
	assert_int_equal(r.process_ends, 1);
	recorder_disconnect(&r);
	expect_no_owner(f);
	fixture_release(f);
	expect_exit(p, 0);
	expect_output(p, "done 200\n");
	assert_int_equal(left(f, "profilers"), 0);
	assert_int_equal(left(f, "activities"), 0);
	assert_int_equal(left(f, "buffers"), 0);
	assert_int_equal(left(f, "events"), 0); /* or they would add up over captures */
	assert_int_equal(left(f, "hosts"), 0);
	assert_int_equal(left(f, "subscribers"), 0);
}
