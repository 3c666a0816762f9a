/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include "tests/system/lines.h"
#include "tests/system/on_demand.h"

/* Which launches are measured. fakeapp --nvtx puts four launches, each in "layer 0" to "layer 3",
 * into "step N", and into "epoch" of domain fakeapp; "whole run" is a start/end range around all; a
 * mark "step done" follows each step. cudaProfilerStart() comes before launches 10 and 30, and
 * cudaProfilerStop() before 20. */

enum { KERNELS = 40, OPTIONS_MAX = 8 };

/* A digit for each launch, 1 for those that are wanted: over and over, or with a point behind them
 * once, and none of the rest. */
#define EACH "1"
#define NONE "0"
#define K1 "01000000"
#define LAYER_1 "0100"
#define STEP_2 "000000001111."

struct choice {
	const char *options[OPTIONS_MAX];
	const char *wanted;
	const char *message; /* NULL: nothing is said of what was chosen */
};

static const struct choice by_name[] = {
	{ { "-k", "k1" }, K1, NULL },
	{ { "-k", "regex:^k[12]\\(" }, "01100000", NULL },
	{ { "--kernel-name", "regex:k1" }, K1, NULL }, /* as ncu has it */
	/* A name is compared whole, and those that are shown are what it was compared with. */
	{ { "-k", "k" }, NONE, "kernels that were there, and do not match: k0; k1; k2" },
};

static const struct choice by_count[] = {
	{ { "--every", "3" }, "100", NULL },
	{ { "--skip", "1", "--every", "3", "--count", "2" }, "01001.", NULL },
	{ { "-c", "1", "--per", "kernel" }, "11111111.", NULL },
	{ { "-s", "1", "-c", "2", "--per", "kernel" }, "000000001111111111111111.", NULL },
	{ { "-s", "1", "-c", "1", "--per", "kernel", "-k", "k1" }, "0000000001.", NULL },
	{ { "-c", "2", "--per", "process" }, "11.", NULL },
	{ { "--skip", "40" },
	  NONE,
	  "--skip leaves out the first 40 launches of the process, and there were 40 that "
	  "match" },
	{ { "-s", "5", "--per", "kernel" },
	  NONE,
	  "the first 5 launches of each kernel, and there were 40 in all" },
	{ { "-s", "4", "--per", "kernel" }, "0000000000000000000000000000000011111111.", NULL },
};

static const struct choice by_range[] = {
	{ { "--nvtx", "layer 1/" }, LAYER_1, NULL },
	{ { "--nvtx", "step 2/layer 1", "--nvtx", "[regex:^step/layer 3]" },
	  "0001000101010001000100010001000100010001.",
	  NULL },
	{ { "--no-nvtx", "step 2/" }, "1111111100001111111111111111111111111111.", NULL },
	{ { "--nvtx", "regex:layer [13]/", "--no-nvtx", "regex:step [3-9]/" },
	  "010101010101.",
	  NULL },
	{ { "--nvtx", "fakeapp@epoch/" }, EACH, NULL },
	{ { "--nvtx", "whole run,layer 1/" }, LAYER_1, NULL },
	/* Launches that are not in the ranges are neither skipped nor counted. */
	{ { "--nvtx", "layer 1/", "--skip", "2", "--count", "4" },
	  "0000000001000100010001.",
	  NULL },
	{ { "--nvtx", "regex:step [0-4]/", "-k", "regex:^k1" }, "010000000100000001.", NULL },
	{ { "--nvtx", "epoch/" }, NONE, "'epoch/' matched no launch" },
	{ { "--nvtx", "epoch/" }, NONE, "fakeapp@epoch/" },
	{ { "--nvtx", "epoch/" }, NONE, "whole run; step 0/" },
	/* One of two: the other has measured. */
	{ { "--nvtx", "layer 1/", "--no-nvtx", "step 99/" },
	  LAYER_1,
	  "warning[kernel-no-match]: the NVTX expression 'step 99/' matched no launch" },
};

#define STEPS "--step", "regex:^step /"

static const struct choice by_phase[] = {
	{ { "--profile-from-start", "off" }, "00000000001111111111", NULL },
	{ { "--profile-from-start", "on" }, EACH, NULL },
	/* As nsys has it. */
	{ { "--capture-range", "cudaProfilerApi", "--capture-range-end", "repeat" },
	  "00000000001111111111",
	  NULL },
	{ { "-c", "cudaProfilerApi", "--capture-range-end", "stop" },
	  "00000000001111111111.",
	  NULL },
	{ { "--within", "nvtx:step 2/" }, STEP_2, NULL },
	{ { "--within", "nvtx:layer 1/", "--capture-range-end", "stop" }, "01.", NULL },
	{ { "--within", "nvtx:whole run" }, EACH, NULL },
	{ { STEPS, "--schedule", "skip_first=1,wait=1,warmup=1,active=2,repeat=2" },
	  "000000000000111111110000000011111111.",
	  NULL },
	{ { STEPS, "--steps", "2" }, "11111111.", NULL },
	/* A mark comes after each step: launches before the first one are of no step. */
	{ { "--step", "step done", "--schedule", "wait=1,active=1,repeat=1" }, STEP_2, NULL },
	{ { "--step", "cudaProfilerStart", "--schedule", "active=1,repeat=1" },
	  "000000000011111111111111111111.",
	  NULL },
	{ { STEPS, "--steps", "1+1", "--nvtx", "layer 1/" }, "000001.", NULL },
	{ { "--within", "nvtx:stage 1/" },
	  NONE,
	  "'stage 1/' matched no range that began; ranges that were there: step 0/" },
	{ { STEPS, "--steps", "10+1" },
	  NONE,
	  "no launch was in a step that --steps takes; there were 10 steps" },
};

static const struct choice by_the_program[] = {
	{ { "--step", "gpuctr_step", "--steps", "1+1" }, "00001111.", NULL },
	/* A mark as any other. */
	{ { "--step", "gpuctr@step", "--steps", "2" }, "11111111.", NULL },
};

static bool is_wanted(const char *wanted, size_t i)
{
	size_t n = strcspn(wanted, ".");

	return (wanted[n] == '\0' || i < n) && wanted[i % n] == '1';
}

static void expect_launches(const struct lines *l, const char *wanted)
{
	size_t n = 0;

	for (size_t i = 0; i < KERNELS; i++) {
		if (is_wanted(wanted, i)) {
			assert_int_equal(line_number_at(lines_at(l, "kernel", n++), "grid", 0),
					 i + 1);
		}
	}
	assert_int_equal(lines_count(l, "kernel"), n);
	assert_int_equal(lines_total(l, "measured"), n);
	assert_int_equal(lines_total(l, "filtered"), KERNELS - n);
	assert_int_equal(lines_total(l, "seen"), KERNELS);
}

static void expect_choice(struct fixture *f, const struct choice *c, const char *const *program)
{
	const char *options[OPTIONS_MAX + 3] = { "--metrics", "dram__bytes_read.sum" };
	struct program *client;
	struct lines l;

	memcpy(options + 2, c->options, sizeof(c->options));
	client = lines_measure(f, &l, options, program, 0);
	expect_launches(&l, c->wanted);
	if (c->message) {
		expect_message(client, c->message);
	} else {
		expect_no_message(client, "matched no launch");
		expect_no_message(client, "leaves out");
	}
	lines_deinit(&l);
	fixture_forget_programs(f, 1); /* but the daemon */
}

static void expect_choices(struct fixture *f, const struct choice *c, size_t n, const char *option)
{
	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < n; i++) {
		expect_choice(f, &c[i],
			      ARGUMENTS(FAKEAPP, "--kernels", "40", "--nvtx", "--profiler", "10",
					option));
	}
}

SYSTEM_TEST(kernels_are_chosen_by_name)
{
	expect_choices(*state, by_name, ARRAY_SIZE(by_name), NULL);
}

SYSTEM_TEST(launches_are_counted_by_what_they_are)
{
	static const struct choice of_each_gpu = { { "-c", "1", "--per", "gpu" }, "11.", NULL };
	struct fixture *f = *state;

	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	expect_choices(f, by_count, ARRAY_SIZE(by_count), NULL);
	expect_choice(f, &of_each_gpu, ARGUMENTS(FAKEAPP, "--kernels", "40", "--devices", "2"));
}

SYSTEM_TEST(launches_are_chosen_by_their_ranges)
{
	expect_choices(*state, by_range, ARRAY_SIZE(by_range), NULL);
}

SYSTEM_TEST(launches_are_chosen_by_phases_and_steps)
{
	struct fixture *f = *state;
	struct program *client;

	expect_choices(f, by_phase, ARRAY_SIZE(by_phase), NULL);
	client = fixture_client(f, USER_ANN, "--profile-from-start", "off", "--", FAKEAPP, NULL);
	expect_exit(client, 0);
	expect_message(client, "no launch came after cudaProfilerStart()");
}

SYSTEM_TEST(the_program_says_where_a_step_begins)
{
	static const struct choice not_called = { { "--step", "gpuctr_step", "--steps", "1" },
						  NONE,
						  "gpuctr_step() was not called" };
	struct fixture *f = *state;
	struct program *program;

	expect_choices(f, by_the_program, ARRAY_SIZE(by_the_program), "--library-steps");
	expect_choice(f, &not_called, ARGUMENTS(FAKEAPP, "--kernels", "40", "--nvtx"));
	/* Nobody listens. */
	program = fixture_run(f, USER_ANN, FAKEAPP, "--library-steps", NULL);
	expect_exit(program, 0);
	expect_output(program, "done 10\n");
}

/* The duration counts from when the program is measured, and is over while it waits. */
SYSTEM_TEST(a_run_may_have_a_duration)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--duration", "0.5", "-f",
				stream_to(fixture_path(f, "records")), "--", FAKEAPP, "--kernels",
				"40", "--hold", "end", "--exit", "7", NULL);
	fixture_wait_held(f, 1);
	expect_text_soon(client->err, "--duration: 0.5 s are over");
	expect_text_soon(client->err, "the capture is over: the program runs on");
	expect_exit(fixture_client(f, USER_ANN, "--wait", "0", "--", "true", NULL), 0);
	fixture_release(f);
	expect_exit(client, 7);
	lines_load(&l, fixture_path(f, "records"));
	assert_int_equal(lines_count(&l, "kernel"), lines_total(&l, "measured"));
	lines_deinit(&l);
	/* One that ends before is as one without. */
	expect_exit(fixture_client(f, USER_ANN, "--duration", "1000", "--", FAKEAPP, "--kernels",
				   "40", "--exit", "3", NULL),
		    3);
}

/* It ends by itself, with its last record or at the next step but two; its processes are let go of,
 * and measured again by the next one. */
SYSTEM_TEST(a_capture_of_what_runs_ends_with_what_was_chosen)
{
	static const struct {
		const char *options[4];
		size_t kernels;
	} rows[] = {
		{ { "-c", "7", "--every", "8" }, 7 },
		{ { "--steps", "2", STEPS }, 8 },
		{ { "--steps", "2", STEPS }, 8 },
	};
	struct fixture *f = *state;
	struct program *p;

	fixture_start_daemon(f, NULL);
	p = fixture_client(f, USER_ANN, "standby", "--", FAKEAPP, "--kernels", "400000",
			   "--sleep-us", "500", "--nvtx", NULL);
	on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *const *o = rows[i].options;
		struct lines l;

		expect_exit(fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p), o[0],
					   o[1], o[2], o[3], "-f",
					   stream_to(fixture_path(f, "records")), NULL),
			    0);
		lines_load(&l, fixture_path(f, "records"));
		assert_int_equal(lines_count(&l, "kernel"), rows[i].kernels);
		assert_int_equal(lines_total(&l, "measured"), rows[i].kernels);
		for (size_t k = 0; i > 0 && k < rows[i].kernels; k++) {
			char ranges[256], layer[16];

			line_ranges(lines_at(&l, "kernel", k), "nvtx", ranges, sizeof(ranges));
			snprintf(layer, sizeof(layer), "/layer %zu", k % 4);
			assert_non_null(strstr(ranges, layer));
		}
		lines_deinit(&l);
	}
	expect_running(p);
}

SYSTEM_TEST(what_cannot_be_chosen_is_refused_before_anything_starts)
{
	static const struct {
		const char *options[6];
		const char *message;
	} wrong[] = {
		{ { "--no-nvtx", "step//layer" }, "a name is missing, at character 6" },
		{ { "--step", "A/" }, "how many? Add --steps N" },
		{ { "--step", "A/", "--schedule", "wait=1" }, "active=N is missing" },
		{ { "--step", "A/", "--schedule", "active=x" }, "'active=x' is none of" },
		{ { "--step", "A/", "--schedule", "active=1,skip=2" }, "'skip=2' is none of" },
		{ { "--step", "A/", "--steps", "0" }, "not a number above 0" },
		{ { "--steps", "1+" }, "not a number above 0, or SKIP+N" },
		{ { "--steps", "1", "--schedule", "active=1" }, "both choose steps" },
		{ { "--step", "A/,B/", "--steps", "1" }, "several between commas" },
		{ { "--step", "A//", "--steps", "1" }, "a name is missing, at character 3" },
		{ { "--step", "A/", "--schedule", "active=4294967296" }, "too many steps" },
		{ { "--capture-range-end", "stop" }, "add --within cudaProfilerApi" },
		{ { "--capture-range-end", "none" }, "is not stop or repeat" },
		{ { "-s", "none" }, "-s none is of nsys" },
		{ { "-c", "nvtx" }, "--within nvtx:NAME names the range" },
		{ { "--within", "step" }, "no such capture range" },
		{ { "--within", "nvtx:" }, "a name is missing, at character 1" },
		{ { "--profile-from-start", "maybe" }, "neither on nor off" },
		{ { "-k", "" }, "it is missing, at character 1" },
		{ { "-k", "regex:" }, "the expression is missing, at character 7" },
		{ { "-k", "regex:a(b" }, "at character 2" },
		{ { "-k", "gemm<float>" }, "at character 5" },
		{ { "-k", "ns::gemm(int)" }, "at character 3" },
		{ { "-k", "a", "-k", "regex:b" }, "kernels are chosen once" },
		{ { "--kernel-name-base", "function" }, "-k NAME compares the function's name" },
		{ { "--every", "0" }, "not a number above 0" },
		{ { "--duration", "0" }, "not a time above 0" },
		{ { "-c", "1", "--filter-mode", "each" }, "--per: 'each' is not kernel or gpu" },
		{ { "--per", "kernel" }, "says of what -s, --every and -c count" },
		{ { "-c", "cudaProfilerApi", "--per", "kernel" }, "says of what -s, --every" },
		{ { "-c", "5", "--capture-range-end", "stop" }, "add --within cudaProfilerApi" },
		{ { "--nvtx-push-pop-scope", "process" }, "--within nvtx:EXPR measures" },
		{ { "--nvtx", "A/", "--no-nvtx", "A/" }, "no launch can be chosen" },
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
	static const struct choice choices[] = {
		{ { "--no-nvtx", "step 2/" }, "1111111100001111111111111111111111111111.", NULL },
		{ { "--nvtx", "whole run,layer 1/" }, LAYER_1, NULL },
		{ { "-k", "k1" }, K1, NULL },
		{ { "-c", "1", "--per", "kernel" }, "11111111.", NULL },
		{ { "--every", "3" }, "100", NULL },
	};
	struct fixture *f = *state;
	char path[96];

	snprintf(path, sizeof(path), "%s", fixture_path(f, "recording"));
	fixture_start_daemon(f, NULL);
	expect_exit(fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "--raw", "-o",
				   path, "--", FAKEAPP, "--kernels", "40", "--nvtx", NULL),
		    0);
	for (size_t i = 0; i < ARRAY_SIZE(choices); i++) {
		expect_choice(f, &choices[i], ARGUMENTS(TEST_REPLAY, path));
	}
}
