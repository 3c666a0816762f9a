/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include "tests/system/lines.h"

/* Which launches are measured. fakeapp --nvtx puts four launches, each in "layer 0" to "layer 3",
 * into "step N", and into "epoch" of domain fakeapp; "whole run" is a start/end range around all.
 */

enum { KERNELS = 40 };

/* Measures fakeapp with these options, and returns the launches that were measured, as the indices
 * of their layers and steps: "step/layer step/layer ...". */
static struct program *measure(struct fixture *f, struct lines *l, const char *const *options)
{
	const char *argv[40] = { CLIENT,  "--metrics", "dram__bytes_read.sum",	   "--format",
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

/* Launch i of fakeapp has a grid of i + 1 blocks. */
static void expect_launches(const struct lines *l, bool (*wanted)(unsigned i))
{
	size_t n = 0;

	for (unsigned i = 0; i < KERNELS; i++) {
		if (wanted(i)) {
			assert_int_equal(line_number_at(lines_at(l, "kernel", n++), "grid", 0),
					 i + 1);
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

static void launches_are_chosen_by_their_ranges(void **state)
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
static void skip_and_count_are_of_what_was_chosen(void **state)
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

static void what_matches_nothing_is_told_with_what_was_there(void **state)
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

static void what_is_no_expression_is_refused_before_anything_starts(void **state)
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

static void launches_are_chosen_by_phases(void **state)
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

static void launches_are_chosen_by_steps(void **state)
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

static void what_never_began_is_told(void **state)
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
		struct program *ps = fixture_client(f, USER_ANN, "ps", "--json", NULL);

		assert_true(now_ms() < by);
		program_wait(ps);
		listed = count_text(ps->out, text) > 0;
		fixture_forget_programs(f, first);
	}
}

static void two_steps_of_a_program_that_runs_already(void **state)
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

static void phases_that_cannot_be_are_refused(void **state)
{
	static const struct {
		const char *options[5];
		const char *message;
	} wrong[] = {
		{ { "--schedule", "active=1" }, "give both" },
		{ { "--step", "A/" }, "give both" },
		{ { "--step", "A/", "--schedule", "wait=1" }, "active=N is missing" },
		{ { "--step", "A/", "--schedule", "active=x" }, "'active=x' is none of" },
		{ { "--step", "A/", "--schedule", "active=1,skip=2" }, "'skip=2' is none of" },
		{ { "--step", "A/", "--steps", "0" }, "no number above 0" },
		{ { "--step", "A/,B/", "--steps", "1" }, "several between commas" },
		{ { "--step", "A//", "--steps", "1" }, "a name is missing, at character 3" },
		{ { "--step", "A/", "--schedule", "active=4294967296" }, "too many steps" },
		{ { "--stop-on-range-end" }, "of which range" },
		{ { "--capture-range", "step" }, "no such capture range" },
		{ { "--capture-range", "nvtx:" }, "a name is missing, at character 1" },
		{ { "--profile-from-start", "maybe" }, "neither on nor off" },
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
static void a_recording_is_chosen_from_as_its_program(void **state)
{
	const char *choices[][2] = { { "--nvtx-include", "layer 1/" },
				     { "--nvtx-exclude", "step 2/" },
				     { "--nvtx-include", "whole run,layer 1/" } };
	bool (*wanted[])(unsigned i) = { in_layer_1, not_in_step_2, in_layer_1 };
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	expect_exit(fixture_client(f, USER_ANN, "--metrics", "memory", "--raw", "-o",
				   fixture_path(f, "recording"), "--", FAKEAPP, "--kernels", "40",
				   "--nvtx", NULL),
		    0);
	for (size_t i = 0; i < ARRAY_SIZE(choices); i++) {
		struct lines l;

		expect_exit(fixture_client(f, USER_ANN, "--format", "jsonl", "--output",
					   fixture_path(f, "records"), "-f", choices[i][0],
					   choices[i][1], "--", TEST_REPLAY,
					   fixture_path(f, "recording"), NULL),
			    0);
		lines_load(&l, fixture_path(f, "records"));
		expect_launches(&l, wanted[i]);
		lines_deinit(&l);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SYSTEM_TEST(launches_are_chosen_by_their_ranges),
		SYSTEM_TEST(skip_and_count_are_of_what_was_chosen),
		SYSTEM_TEST(what_matches_nothing_is_told_with_what_was_there),
		SYSTEM_TEST(what_is_no_expression_is_refused_before_anything_starts),
		SYSTEM_TEST(launches_are_chosen_by_phases),
		SYSTEM_TEST(launches_are_chosen_by_steps),
		SYSTEM_TEST(what_never_began_is_told),
		SYSTEM_TEST(two_steps_of_a_program_that_runs_already),
		SYSTEM_TEST(phases_that_cannot_be_are_refused),
		SYSTEM_TEST(a_recording_is_chosen_from_as_its_program),
	};

	return SYSTEM_RUN(tests);
}
