/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <signal.h>

#include "tests/system/lines.h"
#include "tests/system/on_demand.h"

/* Programs that give the GPU work from several threads, or in several streams, at one time: a range
 * is for one kernel, so everything else stands still for it. */

/* What another thread launches waits until a range is over: else both would be counted together,
 * and the range would be thrown away. */
SYSTEM_TEST(threads_let_each_other_measure)
{
	enum { LEAST = 100 }; /* launches, to tell what part of them is measured */
	struct fixture *f = *state;
	struct lines l = { 0 };
	const char *totals;

	setenv("GPUCTR_FAKE_LATE_US", "20", 1);
	setenv("GPUCTR_FAKE_PUSH_US", "20", 1);
	fixture_start_daemon(f, NULL);
	expect_exit(fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum",
				   stream_to(fixture_path(f, "records")), "--quiet", "--",
				   TEST_FAKESERVE, "4", "1", "2", "0", "2", NULL),
		    0);
	lines_load(&l, fixture_path(f, "records"));
	totals = lines_at(&l, "totals", 0);
	print_message("%g measured, %g not ready\n", line_number(totals, "measured"),
		      line_number(totals, "unready"));
	assert_true(line_number(totals, "seen") >= LEAST);
	assert_true(line_number(totals, "failed") == 0);
	assert_true(line_number(totals, "dropped") == 0);
	assert_true(line_number(totals, "unready") < line_number(totals, "measured") / 4);
	lines_deinit(&l);
}

/* That the program has made, by its own account. */
static double launches_of(struct program *p)
{
	char *text = read_file(p->out), *at = strstr(text, "fakeserve done ");
	double n = at ? strtod(at + strlen("fakeserve done "), NULL) : 0;

	free(text);
	return n;
}

/* The driver holds a lock while it tells of a stream that is made or ended, for which all other
 * threads' questions wait: whoever is told must wait for none of these. */
SYSTEM_TEST(streams_come_and_go_while_others_are_measured)
{
	struct fixture *f = *state;
	struct program *p;
	struct lines l = { 0 };
	const char *totals;

	setenv("GPUCTR_FAKE_RESOURCE_US", "2000", 1);
	setenv("GPUCTR_FAKE_LATE_US", "100", 1);
	fixture_start_daemon(f, NULL);
	p = fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum",
			   stream_to(fixture_path(f, "records")), "--quiet", "--", TEST_FAKESERVE,
			   "4", "3", "12", "0", "2", "renew", NULL);
	expect_exit(p, 0);
	lines_load(&l, fixture_path(f, "records"));
	totals = lines_at(&l, "totals", 0);
	print_message("%g launches, %g measured\n", line_number(totals, "seen"),
		      line_number(totals, "measured"));
	assert_true(launches_of(p) > 0);
	assert_true(line_number(totals, "seen") == launches_of(p));
	assert_true(line_number(totals, "measured") > 0);
	lines_deinit(&l);
}

/* Streams that always have something to do are shut out for a moment at the end: else what was
 * measured could not be had, and no other capture begin. */
SYSTEM_TEST(captures_of_a_server_come_to_an_end)
{
	struct fixture *f = *state;
	struct program *p;
	double measured = 0;

	fixture_limit(240);
	setenv("GPUCTR_FAKE_LATE_US", "100", 1);
	fixture_start_daemon(f, NULL);
	p = fixture_client(f, USER_ANN, "standby", "--", TEST_FAKESERVE, "4", "2", "20", "0", "100",
			   "renew", NULL);
	on_demand_wait_listed(f, USER_ANN, p, "fakeserve");
	for (int i = 0; i < 3 || measured == 0; i++) {
		struct lines l = { 0 };
		const char *totals;

		expect_exit(fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p),
					   "--metrics", "dram__bytes_read.sum", "--mode", "range",
					   "--duration", "1", stream_to(fixture_path(f, "records")),
					   "-f", NULL),
			    0);
		lines_load(&l, fixture_path(f, "records"));
		totals = lines_at(&l, "totals", 0);
		print_message("%g seen, %g measured, %g failed\n", line_number(totals, "seen"),
			      line_number(totals, "measured"), line_number(totals, "failed"));
		measured += line_number(totals, "measured");
		assert_true(line_number(totals, "failed") == 0);
		lines_deinit(&l);
	}
	expect_running(p);
	program_kill(p, SIGKILL);
}
