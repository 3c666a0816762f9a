/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <math.h>
#include <signal.h>

#include "tests/system/lines.h"
#include "tests/system/on_demand.h"

/* A budget for programs that give the GPU work from several threads, or in several streams, at one
 * time: a range is for one kernel, so everything else stands still for it, and that is paid for. */

enum {
	TRIES = 10,   /* what else runs on the machine makes a pace slower, never faster */
	ENOUGH = 100, /* launches, to tell what part of them is measured */
};

#define SETTLED_NS 1500000000LL /* a first Start is not promised to be cheap */

struct server {
	const char *threads, *streams, *kernels;
};

/* Steps a second of fakeserve, but for its first ones. */
static double pace(struct program *p)
{
	long long at = 0, steps = 0, begin = 0, settled = 0, first = 0;
	char *text = read_file(p->out), *line = text;

	while (sscanf(line, "at %lld steps %lld", &at, &steps) == 2) {
		begin = begin ? begin : at;
		if (at < begin + SETTLED_NS) {
			settled = at;
			first = steps;
		}
		line = strchr(line, '\n') + 1;
	}
	free(text);
	assert_true(at > settled && steps > first);
	return (double)(steps - first) * 1e9 / (double)(at - settled);
}

static double pace_alone(struct fixture *f, const struct server *s)
{
	struct program *p = fixture_run(f, USER_ANN, TEST_FAKESERVE, s->threads, s->streams,
					s->kernels, "0", "4", NULL);

	expect_exit(p, 0);
	return pace(p);
}

static double pace_with(struct fixture *f, const struct server *s, const char *budget)
{
	struct program *p =
		fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "--budget", budget,
			       "--format", "jsonl", "--output", fixture_path(f, "records"), "-f",
			       "--no-summary", "-v", "--", TEST_FAKESERVE, s->threads, s->streams,
			       s->kernels, "0", "6", NULL);

	expect_exit(p, 0);
	expect_message(p, "waiting for the GPU ");
	return pace(p);
}

/* Others make a pace slower, never faster. */
struct paces {
	double with, alone;
};

static void compare(struct fixture *f, const struct server *s, struct paces *best)
{
	double alone = pace_alone(f, s), with = pace_with(f, s, "5%");

	print_message("%s threads, %s streams: %.1f steps a second, %.1f alone\n", s->threads,
		      s->streams, with, alone);
	best->with = fmax(best->with, with);
	best->alone = fmax(best->alone, alone);
}

/* Each range has all streams wait for the longest of their queues. Without an account of that four
 * threads came to a fifth of their pace, and 4.3 % was told. */
static void streams_beside_each_other_keep_their_pace(void **state)
{
	static const struct server servers[] = { { "4", "1", "50" }, { "1", "4", "100" } };
	struct fixture *f = *state;

	fixture_limit(480);
	setenv("GPUCTR_FAKE_LATE_US", "300", 1);
	setenv("GPUCTR_FAKE_START_US", "6000", 1);
	setenv("GPUCTR_FAKE_STOP_US", "6000", 1);
	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(servers); i++) {
		const struct server *s = &servers[i];
		struct paces best = { 0 };

		for (int k = 0; k < TRIES && best.with <= 0.85 * best.alone; k++) {
			compare(f, s, &best);
		}
		assert_true(best.with >= 0.85 * best.alone);
	}
}

/* CUPTI's profiler has hooks in the driver while it is initialised, and launches of all threads
 * come one after the other then. It is not: a kernel each 20 ms and thread leaves no room for that.
 */
static void launches_of_threads_stay_beside_each_other(void **state)
{
	static const struct server server = { "8", "1", "2" };
	struct fixture *f = *state;
	struct paces best = { 0 };

	setenv("GPUCTR_FAKE_LATE_US", "10000", 1);
	setenv("GPUCTR_FAKE_HOOKS_US", "20000", 1);
	fixture_start_daemon(f, NULL);
	for (int k = 0; k < TRIES && best.with <= 0.5 * best.alone; k++) {
		compare(f, &server, &best);
	}
	assert_true(best.with > 0.5 * best.alone);
}

/* What another thread launches waits until a range is over: else both would be counted together,
 * and what was paid for would be thrown away. How many launches a budget chooses is the machine's
 * to say, so the program runs until there are enough of them. */
static void threads_let_each_other_measure(void **state)
{
	static const struct server server = { "4", "1", "2" };
	struct fixture *f = *state;
	double measured = 0, unready = 0;

	fixture_limit(240);
	setenv("GPUCTR_FAKE_LATE_US", "20", 1);
	setenv("GPUCTR_FAKE_PUSH_US", "20", 1);
	fixture_start_daemon(f, NULL);
	while (measured + unready < ENOUGH) {
		struct lines l = { 0 };
		const char *totals;

		pace_with(f, &server, "20%");
		lines_load(&l, fixture_path(f, "records"));
		totals = lines_at(&l, "totals", 0);
		measured += line_number(totals, "measured");
		unready += line_number(totals, "unready");
		assert_true(line_number(totals, "failed") == 0);
		assert_true(line_number(totals, "dropped") == 0);
		print_message("%g measured, %g not ready\n", measured, unready);
		lines_deinit(&l);
	}
	assert_true(unready < measured / 4);
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
static void streams_come_and_go_while_others_are_measured(void **state)
{
	static const char *const budgets[] = { "5%", "100%" };
	struct fixture *f = *state;
	double measured = 0;

	setenv("GPUCTR_FAKE_RESOURCE_US", "2000", 1);
	setenv("GPUCTR_FAKE_LATE_US", "100", 1);
	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(budgets); i++) {
		struct program *p =
			fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "--budget",
				       budgets[i], "--format", "jsonl", "--output",
				       fixture_path(f, "records"), "-f", "--no-summary", "--",
				       TEST_FAKESERVE, "4", "3", "12", "0", "2", "renew", NULL);
		struct lines l = { 0 };
		const char *totals;

		expect_exit(p, 0);
		lines_load(&l, fixture_path(f, "records"));
		totals = lines_at(&l, "totals", 0);
		print_message("%g launches, %g measured\n", line_number(totals, "seen"),
			      line_number(totals, "measured"));
		assert_true(launches_of(p) > 0);
		assert_true(line_number(totals, "seen") == launches_of(p));
		measured += line_number(totals, "measured");
		lines_deinit(&l);
	}
	assert_true(measured > 0);
}

/* Streams that always have something to do are shut out for a moment at the end: else what was
 * measured could not be had, and no other capture begin. */
static void captures_of_a_server_come_to_an_end(void **state)
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
					   "--metrics", "dram__bytes_read.sum", "--budget", "10%",
					   "--duration", "1", "--format", "jsonl", "--output",
					   fixture_path(f, "records"), "-f", NULL),
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		SYSTEM_TEST(streams_beside_each_other_keep_their_pace),
		SYSTEM_TEST(launches_of_threads_stay_beside_each_other),
		SYSTEM_TEST(threads_let_each_other_measure),
		SYSTEM_TEST(streams_come_and_go_while_others_are_measured),
		SYSTEM_TEST(captures_of_a_server_come_to_an_end),
	};

	return SYSTEM_RUN(tests);
}
