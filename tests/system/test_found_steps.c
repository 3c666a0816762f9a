/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include "tests/system/lines.h"
#include "tests/system/on_demand.h"

/* --steps without --step: the agent finds the steps of a program by the launches that recur. */

enum { STEP = 40 }; /* launches of fakeapp with five grids, which has eight kernels */

#define PACE "--sleep-us", "500", "--grids", "5"
#define RECORDS_TO(f) "-f", stream_to(fixture_path(f, "records"))

static void load(struct fixture *f, struct lines *l)
{
	lines_load(l, fixture_path(f, "records"));
}

/* Ends the program once so many records have come. */
static void end_after(struct fixture *f, size_t records)
{
	wait_until(count_text(fixture_path(f, "records"), "\"type\":\"kernel\"") >= records);
	fixture_write(f, "over", "");
}

static uint64_t measured(const struct lines *l)
{
	return (uint64_t)line_number(lines_at(l, "totals", 0), "measured");
}

/* Whole steps: each launch has the kernel and the grid of the one a step before), and a step has
 * each of its launches once. */
static void expect_steps(const struct lines *l, size_t n)
{
	assert_int_equal(lines_count(l, "kernel"), n * STEP);
	for (size_t i = 0; i < n * STEP; i++) {
		for (size_t back = 1; back <= STEP && back <= i; back++) {
			char here[2][64], before[2][64];
			const char *a = lines_at(l, "kernel", i),
				   *b = lines_at(l, "kernel", i - back);
			bool same;

			line_text(a, "kernel", here[0], sizeof(here[0]));
			line_text(b, "kernel", before[0], sizeof(before[0]));
			line_value(a, "grid", here[1], sizeof(here[1]));
			line_value(b, "grid", before[1], sizeof(before[1]));
			same = strcmp(here[0], before[0]) == 0 && strcmp(here[1], before[1]) == 0;
			assert_int_equal(same, back == STEP);
		}
	}
}

SYSTEM_TEST(a_run_measures_whole_steps)
{
	struct fixture *f = *state;
	struct program *p;
	struct lines l;

	fixture_start_daemon(f, NULL);
	p = fixture_client(f, USER_ANN, "--steps", "3", RECORDS_TO(f), "--", FAKEAPP, PACE,
			   "--kernels", "100000", "--until", fixture_path(f, "over"), "--exit", "7",
			   NULL);
	end_after(f, 3 * STEP);
	expect_exit(p, 7);
	expect_message(p, "a step: 40 launches that recur, ");
	load(f, &l);
	expect_steps(&l, 3);
	lines_deinit(&l);
}

/* The capture ends with its last step, and can be made again. */
SYSTEM_TEST(a_capture_measures_whole_steps)
{
	struct fixture *f = *state;
	struct program *p;

	fixture_start_daemon(f, NULL);
	p = fixture_client(f, USER_ANN, "standby", "--", FAKEAPP, PACE, "--kernels", "400000",
			   NULL);
	on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
	for (int i = 0; i < 2; i++) {
		struct lines l;

		expect_exit(fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p),
					   "--steps", "2", RECORDS_TO(f), NULL),
			    0);
		load(f, &l);
		expect_steps(&l, 2);
		lines_deinit(&l);
	}
	expect_running(p);
}

SYSTEM_TEST(nothing_recurs_and_all_is_measured)
{
	struct fixture *f = *state;
	struct program *p;
	struct lines l;

	fixture_start_daemon(f, NULL);
	p = fixture_client(f, USER_ANN, "--steps", "1", RECORDS_TO(f), "--", FAKEAPP, PACE,
			   "--kernels", "100000", "--until", fixture_path(f, "over"),
			   "--shuffle-from", "1", NULL);
	expect_text_soon(p->err, "no sequence of launches recurred for 5 s");
	end_after(f, 1);
	expect_exit(p, 0);
	expect_message(p, "no sequence of launches recurred for 5 s");
	expect_message(p, "Name by --step what begins a step");
	load(f, &l);
	assert_true(measured(&l) > 0);
	lines_deinit(&l);
}

SYSTEM_TEST(steps_that_recur_no_more_end_the_capture)
{
	struct fixture *f = *state;
	struct program *p, *c;
	struct lines l;

	fixture_start_daemon(f, NULL);
	p = fixture_client(f, USER_ANN, "standby", "--", FAKEAPP, PACE, "--kernels", "400000",
			   "--shuffle-from", "6000", NULL);
	on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
	c = fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p), "--steps", "1000000",
			   RECORDS_TO(f), NULL);
	expect_exit(c, 0);
	expect_message(c, "the sequence of 40 launches that was a step recurs no more");
	load(f, &l);
	assert_true(measured(&l) >= STEP);
	lines_deinit(&l);
	expect_running(p);
}

/* Of the thread that launched first: those of several threads come in no order. */
SYSTEM_TEST(threads_have_a_step_of_their_own)
{
	struct fixture *f = *state;
	struct program *p;
	struct lines l;

	fixture_start_daemon(f, NULL);
	p = fixture_client(f, USER_ANN, "--steps", "3", RECORDS_TO(f), "--", FAKEAPP, PACE,
			   "--threads", "5", "--kernels", "100000", "--until",
			   fixture_path(f, "over"), NULL);
	end_after(f, 3 * STEP);
	expect_exit(p, 0);
	expect_message(p, "a step: 40 launches that recur, ");
	expect_no_message(p, "recurs no more");
	load(f, &l);
	assert_in_range(measured(&l), 3 * STEP, 5 * 3 * STEP + 5 * STEP);
	lines_deinit(&l);
}
