/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include "tests/system/lines.h"

/* Which launches are measured. fakeapp --nvtx puts four launches, each in "layer 0" to "layer 3",
 * into "step N", and into "epoch" of domain fakeapp; "whole run" is a start/end range around all.
 */

enum { KERNELS = 40 };

/* More options of fakeapp. */
static const char *const no_options[] = { NULL };
static const char *const with_devices[] = { "--devices", "2", NULL };
static const char *const with_steps[] = { "--library-steps", NULL };
static const char *const *app_options = no_options;

/* Measures fakeapp with these options, and returns the launches that were measured, as the indices
 * of their layers and steps: "step/layer step/layer ...". */
static struct program *measure(struct fixture *f, struct lines *l, const char *const *options)
{
	const char *argv[48] = { CLIENT,  "--metrics", "dram__bytes_read.sum",	   "--format",
				 "jsonl", "--output",  fixture_path(f, "records"), "-f" };
	struct program *client;
	size_t n = 8;

	while (*options) {
		argv[n++] = *options++;
	}
	argv[n++] = "--";
	argv[n++] = FAKEAPP;
	argv[n++] = "--kernels";
	argv[n++] = "40";
	argv[n++] = "--nvtx";
	argv[n++] = "--profiler"; /* Start before launch 10 and 30, Stop before 20 */
	argv[n++] = "10";
	for (size_t i = 0; app_options[i]; i++) {
		argv[n++] = app_options[i];
	}
	client = fixture_runv(f, USER_ANN, argv);
	expect_exit(client, 0);
	lines_load(l, fixture_path(f, "records"));
	return client;
}

#define OPTIONS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static uint64_t total(const struct lines *l, const char *key)
{
	return (uint64_t)line_number(lines_at(l, "totals", 0), key);
}

static void expect_launches(const struct lines *l, bool (*wanted)(unsigned i))
{
	size_t n = 0;

	for (unsigned i = 0; i < KERNELS; i++) {
		if (wanted(i)) {
			assert_int_equal(line_number_at(lines_at(l, "kernel", n++), "grid", 0),
					 i % KERNELS + 1);
		}
	}
	assert_int_equal(lines_count(l, "kernel"), n);
	assert_int_equal(total(l, "measured"), n);
	assert_int_equal(total(l, "filtered"), KERNELS - n);
	assert_int_equal(total(l, "seen"), KERNELS);
}

static void expect_chosen(struct fixture *f, const char *const *options, bool (*wanted)(unsigned i))
{
	struct lines l;

	measure(f, &l, options);
	expect_launches(&l, wanted);
	lines_deinit(&l);
}

static bool in_layer_1(unsigned i)
{
	return i % 4 == 1;
}

static bool in_step_2(unsigned i)
{
	return i / 4 == 2;
}

static bool in_layer_1_of_step_2_or_layer_3(unsigned i)
{
	return i == 9 || i % 4 == 3;
}

static bool not_in_step_2(unsigned i)
{
	return i / 4 != 2;
}

static bool in_odd_layers_of_early_steps(unsigned i)
{
	return i % 4 % 2 == 1 && i / 4 < 3;
}

static bool any(unsigned i)
{
	(void)i;
	return true;
}

static bool third_to_sixth_in_layer_1(unsigned i)
{
	return i % 4 == 1 && i / 4 >= 2 && i / 4 < 6;
}

static bool k1_in_steps_below_5(unsigned i)
{
	return i % 8 == 1 && i / 4 < 5;
}

static bool in_profiler_range(unsigned i)
{
	return i / 10 % 2 == 1;
}

static bool in_first_profiler_range(unsigned i)
{
	return i / 10 == 1;
}

static bool in_first_layer_1(unsigned i)
{
	return i == 1;
}

static bool scheduled(unsigned i)
{
	unsigned step = i / 4;

	return step == 3 || step == 4 || step == 7 || step == 8;
}

static bool first_profiler_step(unsigned i)
{
	return i >= 10 && i < 30;
}

static bool two_steps(unsigned i)
{
	return i / 4 < 2;
}

/* A mark comes after each step: launches before the first one are of no step. */
static bool second_step_by_marks(unsigned i)
{
	return i / 4 == 2;
}

static bool second_step_in_layer_1(unsigned i)
{
	return i == 5;
}

static bool k1(unsigned i)
{
	return i % 8 == 1;
}

static bool k1_or_k2(unsigned i)
{
	return i % 8 == 1 || i % 8 == 2;
}

static bool first_of_each_kernel(unsigned i)
{
	return i < 8;
}

static bool second_and_third_of_each_kernel(unsigned i)
{
	return i >= 8 && i < 24;
}

static bool second_of_k1(unsigned i)
{
	return i == 9;
}

static bool each_third(unsigned i)
{
	return i % 3 == 0;
}

static bool two_of_each_third_from_the_second(unsigned i)
{
	return i == 1 || i == 4;
}

/* Kernel and grid repeat after 8 * 3 launches. */
static bool first_two(unsigned i)
{
	return i < 2;
}

static bool last_one(unsigned i)
{
	return i == KERNELS - 1;
}

static bool second_step(unsigned i)
{
	return i / 4 == 1;
}

SYSTEM_TEST(kernels_are_chosen_by_name)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	fixture_start_daemon(f, NULL);
	expect_chosen(f, OPTIONS("--kernel-name", "k1"), k1);
	expect_chosen(f, OPTIONS("-k", "regex:^k[12]$"), k1_or_k2);
	expect_chosen(f, OPTIONS("-k", "k1(float*)", "--kernel-name-base", "demangled"), k1);
	expect_chosen(f, OPTIONS("-k", "_Z2k1Pf", "--kernel-name-base", "mangled"), k1);
	expect_chosen(f, OPTIONS("--kernel", "^_Z2k[12]Pf$", "--kernel-name-base", "mangled"),
		      k1_or_k2);
	expect_chosen(f, OPTIONS("--kernel", "regex:^k1\\("), k1);
	/* A name is compared whole, and those that are shown are what it was compared with. */
	client = measure(f, &l, OPTIONS("--kernel-name", "k"));
	assert_int_equal(total(&l, "filtered"), KERNELS);
	expect_message(client, "kernels that were there, and do not "
			       "match: k0; k1; k2");
	lines_deinit(&l);
}

SYSTEM_TEST(launches_are_counted_by_what_they_are)
{
	struct fixture *f = *state;

	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	fixture_start_daemon(f, NULL);
	expect_chosen(f, OPTIONS("--launch-every", "3"), each_third);
	expect_chosen(f,
		      OPTIONS("--launch-skip", "1", "--launch-every", "3", "--launch-count", "2"),
		      two_of_each_third_from_the_second);
	expect_chosen(f, OPTIONS("-c", "1", "--filter-mode", "per-kernel"), first_of_each_kernel);
	expect_chosen(f, OPTIONS("-s", "1", "-c", "2", "--filter-mode", "per-kernel"),
		      second_and_third_of_each_kernel);
	expect_chosen(f, OPTIONS("-s", "1", "-c", "1", "--filter-mode", "per-kernel", "-k", "k1"),
		      second_of_k1);
	expect_chosen(f, OPTIONS("-c", "2", "--filter-mode", "global"), first_two);
	app_options = with_devices;
	expect_chosen(f, OPTIONS("-c", "1", "--filter-mode", "per-gpu"), first_two);
	app_options = no_options;
}

SYSTEM_TEST(skipping_everything_is_told)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	fixture_start_daemon(f, NULL);
	client = measure(f, &l, OPTIONS("--launch-skip", "40"));
	assert_int_equal(total(&l, "filtered"), KERNELS);
	expect_message(client, "--launch-skip leaves out the first 40 launches of the process, and "
			       "there were 40 that match");
	lines_deinit(&l);
	expect_chosen(f, OPTIONS("--launch-skip", "39"), last_one);
	client = measure(f, &l, OPTIONS("-s", "5", "--filter-mode", "per-kernel"));
	expect_message(client, "the first 5 launches of each kernel, and there were 40 in all");
	lines_deinit(&l);
	client = measure(f, &l, OPTIONS("-s", "4", "--filter-mode", "per-kernel"));
	assert_int_equal(total(&l, "measured"), 8);
	expect_no_message(client, "leaves out");
	lines_deinit(&l);
}

SYSTEM_TEST(the_program_says_where_a_step_begins)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	fixture_start_daemon(f, NULL);
	app_options = with_steps;
	expect_chosen(
		f, OPTIONS("--step", "gpuctr_step", "--schedule", "skip_first=1,active=1,repeat=1"),
		second_step);
	/* A mark as any other. */
	expect_chosen(f, OPTIONS("--step", "gpuctr@step", "--steps", "2"), two_steps);
	app_options = no_options;
	client = measure(f, &l, OPTIONS("--step", "gpuctr_step", "--steps", "1"));
	assert_int_equal(total(&l, "filtered"), KERNELS);
	expect_message(client, "gpuctr_step() was not called");
	lines_deinit(&l);
	/* Nobody listens. */
	client = fixture_run(f, USER_ANN, FAKEAPP, "--library-steps", NULL);
	expect_exit(client, 0);
	expect_output(client, "done 10\n");
}

/* A launch that could not be measured takes no record's place. */
SYSTEM_TEST(what_cannot_be_measured_is_no_record)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	fixture_start_daemon(f, NULL);
	setenv("GPUCTR_FAKE_FAIL", "cuptiRangeProfilerStart:1:26", 1);
	client = fixture_client(f, USER_ANN, "-c", "12", "--format", "jsonl", "-f", "--output",
				fixture_path(f, "records"), "--", FAKEAPP, "--kernels", "400",
				"--sleep-us", "2000", NULL);
	unsetenv("GPUCTR_FAKE_FAIL");
	expect_exit(client, 0);
	lines_load(&l, fixture_path(f, "records"));
	assert_int_equal(lines_count(&l, "kernel"), 12);
	assert_int_equal(total(&l, "measured"), 12);
	assert_true(total(&l, "unready") > 0);
	lines_deinit(&l);
}

/* The duration counts from when the program is measured, and is over while it waits. */
SYSTEM_TEST(a_run_may_have_a_duration)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--duration", "0.5", "--format", "jsonl", "-f",
				"--output", fixture_path(f, "records"), "--", FAKEAPP, "--kernels",
				"40", "--hold", "end", "--exit", "7", NULL);
	fixture_wait_held(f, 1);
	expect_text_soon(client->err, "--duration: 0.5 s are over");
	expect_text_soon(client->err, "the capture is over: the program runs on");
	expect_exit(fixture_client(f, USER_ANN, "--wait", "0", "--", "true", NULL), 0);
	fixture_release(f);
	expect_exit(client, 7);
	lines_load(&l, fixture_path(f, "records"));
	assert_int_equal(lines_count(&l, "kernel"), total(&l, "measured"));
	lines_deinit(&l);
	/* One that ends before is as one without. */
	expect_exit(fixture_client(f, USER_ANN, "--duration", "1000", "--", FAKEAPP, "--kernels",
				   "40", "--exit", "3", NULL),
		    3);
}

SYSTEM_TEST(launches_are_chosen_by_their_ranges)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	expect_chosen(f, OPTIONS("--nvtx-include", "layer 1/"), in_layer_1);
	expect_chosen(f, OPTIONS("--nvtx-include", "step 2/"), in_step_2);
	expect_chosen(f,
		      OPTIONS("--nvtx-include", "step 2/layer 1", "--nvtx-include",
			      "[regex:^step/layer 3]"),
		      in_layer_1_of_step_2_or_layer_3);
	expect_chosen(f, OPTIONS("--nvtx-exclude", "step 2/"), not_in_step_2);
	expect_chosen(f,
		      OPTIONS("--nvtx-include", "regex:layer [13]/", "--nvtx-exclude",
			      "regex:step [3-9]/"),
		      in_odd_layers_of_early_steps);
	expect_chosen(f, OPTIONS("--nvtx-include", "fakeapp@epoch/"), any);
	expect_chosen(f, OPTIONS("--nvtx-include", "whole run"), any);
	expect_chosen(f, OPTIONS("--nvtx-include", "whole run,layer 1/"), in_layer_1);
}

/* Launches that are not in the ranges are neither skipped nor counted. */
SYSTEM_TEST(skip_and_count_are_of_what_was_chosen)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	expect_chosen(f,
		      OPTIONS("--nvtx-include", "layer 1/", "--launch-skip", "2", "--launch-count",
			      "4"),
		      third_to_sixth_in_layer_1);
	expect_chosen(f, OPTIONS("--nvtx-include", "regex:step [0-4]/", "--kernel", "^k1"),
		      k1_in_steps_below_5);
}

SYSTEM_TEST(what_matches_nothing_is_told_with_what_was_there)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	fixture_start_daemon(f, NULL);
	client = measure(f, &l, OPTIONS("--nvtx-include", "epoch/"));
	assert_int_equal(total(&l, "filtered"), KERNELS);
	expect_message(client, "'epoch/' matched no launch");
	expect_message(client, "fakeapp@epoch/");
	expect_message(client, "whole run; step 0/");
	lines_deinit(&l);
	/* One of two: the other has measured. */
	client =
		measure(f, &l, OPTIONS("--nvtx-include", "layer 1/", "--nvtx-exclude", "step 99/"));
	assert_int_equal(total(&l, "measured"), KERNELS / 4);
	expect_message(client, "warning[kernel-no-match]: the NVTX expression 'step 99/'");
	lines_deinit(&l);
	client = measure(f, &l, OPTIONS("--nvtx-include", "layer 1/"));
	expect_no_message(client, "matched no launch");
	lines_deinit(&l);
}

SYSTEM_TEST(what_is_no_expression_is_refused_before_anything_starts)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--nvtx-exclude", "step//layer", "--", FAKEAPP, NULL);
	expect_exit(client, 125);
	expect_message(client, "bad-pattern");
	expect_message(client, "a name is missing, at character 6");
	expect_output(client, "");
}

SYSTEM_TEST(launches_are_chosen_by_phases)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	expect_chosen(f, OPTIONS("--profile-from-start", "off"), in_profiler_range);
	expect_chosen(f, OPTIONS("--profile-from-start", "on"), any);
	expect_chosen(f, OPTIONS("--capture-range", "cudaProfilerApi", "--stop-on-range-end"),
		      in_first_profiler_range);
	expect_chosen(f, OPTIONS("--capture-range", "nvtx:step 2/"), in_step_2);
	expect_chosen(f, OPTIONS("--capture-range", "nvtx:layer 1/"), in_layer_1);
	expect_chosen(f, OPTIONS("--capture-range", "nvtx:layer 1/", "--stop-on-range-end"),
		      in_first_layer_1);
	expect_chosen(f, OPTIONS("--capture-range", "nvtx:whole run"), any);
}

SYSTEM_TEST(launches_are_chosen_by_steps)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	expect_chosen(f,
		      OPTIONS("--step", "regex:^step /", "--schedule",
			      "skip_first=1,wait=1,warmup=1,active=2,repeat=2"),
		      scheduled);
	expect_chosen(f, OPTIONS("--step", "regex:^step /", "--steps", "2"), two_steps);
	expect_chosen(f, OPTIONS("--step", "step done", "--schedule", "wait=1,active=1,repeat=1"),
		      second_step_by_marks);
	expect_chosen(f, OPTIONS("--step", "cudaProfilerStart", "--schedule", "active=1,repeat=1"),
		      first_profiler_step);
	expect_chosen(f,
		      OPTIONS("--step", "regex:^step /", "--schedule",
			      "skip_first=1,active=1,repeat=1", "--nvtx-include", "layer 1/"),
		      second_step_in_layer_1);
}

SYSTEM_TEST(what_never_began_is_told)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	fixture_start_daemon(f, NULL);
	client = measure(f, &l, OPTIONS("--capture-range", "nvtx:stage 1/"));
	expect_message(client, "'stage 1/' matched no range that began; ranges that were there: "
			       "step 0/");
	lines_deinit(&l);
	client = measure(
		f, &l, OPTIONS("--step", "regex:^step /", "--schedule", "skip_first=10,active=1"));
	expect_message(client,
		       "no launch was in a step that --schedule takes; there were 10 steps");
	lines_deinit(&l);
	client = measure(f, &l,
			 OPTIONS("--step", "regex:^step /", "--schedule", "skip_first=9,active=1"));
	assert_int_equal(total(&l, "measured"), 4);
	lines_deinit(&l);
	client = fixture_client(f, USER_ANN, "--profile-from-start", "off", "--", FAKEAPP, NULL);
	expect_exit(client, 0);
	expect_message(client, "no launch came after cudaProfilerStart()");
}

/* It ends by itself, at the next step but two, and can be made again. */
static void wait_registered(struct fixture *f, const char *pid)
{
	uint64_t by = now_ms() + PATIENCE_MS;
	char text[32];
	bool listed = false;

	snprintf(text, sizeof(text), "\"pid\":%s,", pid);
	while (!listed) {
		size_t first = f->n_programs;
		struct program *status = fixture_client(f, USER_ANN, "status", "--json", NULL);

		assert_true(now_ms() < by);
		program_wait(status);
		listed = count_text(status->out, text) > 0;
		fixture_forget_programs(f, first);
	}
}

SYSTEM_TEST(two_steps_of_a_program_that_runs_already)
{
	struct fixture *f = *state;
	struct program *p;
	char pid[16];

	fixture_start_daemon(f, NULL);
	p = fixture_client(f, USER_ANN, "standby", "--", FAKEAPP, "--kernels", "400000",
			   "--sleep-us", "500", "--nvtx", "--hold", "first", NULL);
	fixture_wait_held(f, 1);
	fixture_release(f);
	snprintf(pid, sizeof(pid), "%d", p->pid);
	wait_registered(f, pid);
	for (int i = 0; i < 2; i++) {
		struct lines l;

		expect_exit(fixture_client(f, USER_ANN, "capture", "--pid", pid, "--steps", "2",
					   "--step", "regex:^step /", "--format", "jsonl", "-f",
					   "--output", fixture_path(f, "records"), NULL),
			    0);
		lines_load(&l, fixture_path(f, "records"));
		assert_int_equal(lines_count(&l, "kernel"), 8);
		for (size_t k = 0; k < 8; k++) {
			char ranges[256], layer[16];

			line_ranges(lines_at(&l, "kernel", k), "nvtx", ranges, sizeof(ranges));
			snprintf(layer, sizeof(layer), "/layer %zu", k % 4);
			assert_non_null(strstr(ranges, layer));
		}
		lines_deinit(&l);
	}
	expect_running(p);
}

/* Its processes are let go of, and measured again by the next one. */
SYSTEM_TEST(a_capture_of_what_runs_ends_with_its_last_record)
{
	struct fixture *f = *state;
	struct program *p;
	char pid[16];

	fixture_start_daemon(f, NULL);
	p = fixture_client(f, USER_ANN, "standby", "--", FAKEAPP, "--kernels", "400000",
			   "--sleep-us", "500", "--hold", "first", NULL);
	fixture_wait_held(f, 1);
	fixture_release(f);
	snprintf(pid, sizeof(pid), "%d", p->pid);
	wait_registered(f, pid);
	for (int i = 0; i < 2; i++) {
		struct lines l;

		expect_exit(fixture_client(f, USER_ANN, "capture", "--pid", pid, "-c", "7",
					   "--launch-every", "8", "--format", "jsonl", "-f",
					   "--output", fixture_path(f, "records"), NULL),
			    0);
		lines_load(&l, fixture_path(f, "records"));
		assert_int_equal(lines_count(&l, "kernel"), 7);
		assert_int_equal(total(&l, "measured"), 7);
		lines_deinit(&l);
	}
	expect_running(p);
}

SYSTEM_TEST(phases_that_cannot_be_are_refused)
{
	static const struct {
		const char *options[6];
		const char *message;
	} wrong[] = {
		{ { "--step", "A/" }, "how many of these steps?" },
		{ { "--step", "A/", "--schedule", "wait=1" }, "active=N is missing" },
		{ { "--step", "A/", "--schedule", "active=x" }, "'active=x' is none of" },
		{ { "--step", "A/", "--schedule", "active=1,skip=2" }, "'skip=2' is none of" },
		{ { "--step", "A/", "--steps", "0" }, "not a number above 0" },
		{ { "--step", "A/,B/", "--steps", "1" }, "several between commas" },
		{ { "--step", "A//", "--steps", "1" }, "a name is missing, at character 3" },
		{ { "--step", "A/", "--schedule", "active=4294967296" }, "too many steps" },
		{ { "--stop-on-range-end" }, "of which range" },
		{ { "--capture-range", "step" }, "no such capture range" },
		{ { "--capture-range", "nvtx:" }, "a name is missing, at character 1" },
		{ { "--profile-from-start", "maybe" }, "neither on nor off" },
		{ { "--kernel-name", "" }, "it is missing, at character 1" },
		{ { "--kernel-name", "regex:" }, "the expression is missing, at character 7" },
		{ { "--kernel-name", "regex:a(b" }, "at character 2" },
		{ { "--kernel-name", "gemm<float>" }, "at character 5" },
		{ { "--kernel-name", "ns::gemm(int)" }, "at character 3" },
		{ { "-k", "a", "--kernel", "b" }, "kernels are chosen once" },
		{ { "-k", "a", "--kernel-name-base", "plain" },
		  "'plain' is none of demangled, function and mangled" },
		{ { "--kernel-name-base", "function" }, "of which name" },
		{ { "--launch-every", "0" }, "not a number above 0" },
		{ { "--duration", "0" }, "not a time above 0" },
		{ { "-c", "1", "--filter-mode", "each" },
		  "none of global, per-gpu and per-kernel" },
		{ { "--filter-mode", "per-kernel" }, "what is counted so" },
		{ { "--nvtx-push-pop-scope", "process" }, "--capture-range nvtx:EXPR measures" },
		{ { "--nvtx-include", "A/", "--nvtx-exclude", "A/" }, "no launch can be chosen" },
	};
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		const char *argv[10] = { CLIENT };
		struct program *client;
		size_t n = 1;

		for (size_t k = 0; wrong[i].options[k]; k++) {
			argv[n++] = wrong[i].options[k];
		}
		argv[n++] = "--";
		argv[n++] = FAKEAPP;
		client = fixture_runv(f, USER_ANN, argv);
		expect_exit(client, 125);
		expect_message(client, wrong[i].message);
		expect_output(client, "");
		fixture_forget_programs(f, 1);
	}
}

/* The same launches, played. */
SYSTEM_TEST(a_recording_is_chosen_from_as_its_program)
{
	static const struct {
		const char *options[6];
		bool (*wanted)(unsigned i);
	} choices[] = {
		{ { "--nvtx-include", "layer 1/" }, in_layer_1 },
		{ { "--nvtx-exclude", "step 2/" }, not_in_step_2 },
		{ { "--nvtx-include", "whole run,layer 1/" }, in_layer_1 },
		{ { "--kernel-name", "k1" }, k1 },
		{ { "-c", "1", "--filter-mode", "per-kernel" }, first_of_each_kernel },
		{ { "--launch-every", "3" }, each_third },
	};
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	expect_exit(fixture_client(f, USER_ANN, "--metrics", "memory", "--raw", "-o",
				   fixture_path(f, "recording"), "--", FAKEAPP, "--kernels", "40",
				   "--nvtx", NULL),
		    0);
	for (size_t i = 0; i < ARRAY_SIZE(choices); i++) {
		struct lines l;

		const char *const *o = choices[i].options;

		expect_exit(fixture_client(f, USER_ANN, "--format", "jsonl", "--output",
					   fixture_path(f, "records"), "-f", o[0], o[1],
					   o[2] ? o[2] : "--devices", o[3] ? o[3] : "0", "--",
					   TEST_REPLAY, fixture_path(f, "recording"), NULL),
			    0);
		lines_load(&l, fixture_path(f, "records"));
		expect_launches(&l, choices[i].wanted);
		lines_deinit(&l);
	}
}
