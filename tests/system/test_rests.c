/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "tests/system/figures.h"
#include "tests/system/lines.h"
#include "tests/system/on_demand.h"

/* A capture of a program that waits for its launches: tracing rests for a part of the time. */

static int in_order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct pauses {
	double part; /* of the time from the first to the last kernel, in pauses as long as rests */
	double since; /* seconds from the last one to the last kernel */
};

static struct pauses find_pauses(const char *path)
{
	struct pauses p = { 0 };
	double *begins, paused = 0;
	struct lines l;
	size_t n;

	lines_load(&l, path);
	n = lines_count(&l, "kernel");
	assert_true(n > 1000);
	begins = calloc(n, sizeof(*begins));
	assert_non_null(begins);
	for (size_t i = 0; i < n; i++) {
		begins[i] = line_number(lines_at(&l, "kernel", i), "start_ns") / 1e9;
	}
	lines_deinit(&l);
	qsort(begins, n, sizeof(*begins), in_order);
	for (size_t i = 1; i < n; i++) {
		double pause = begins[i] - begins[i - 1];

		if (pause > 0.2) {
			paused += pause;
			p.since = begins[n - 1] - begins[i];
		}
	}
	p.part = paused / (begins[n - 1] - begins[0]);
	print_message("%.3f of the time in pauses, the last one %.2f s before the end\n", p.part,
		      p.since);
	free(begins);
	return p;
}

/* Of the kernels whose record has this text, the part without a time. NAN: there are few. */
static double timeless_part(const char *path, const char *text)
{
	size_t n = 0, timeless = 0;
	struct lines l;

	lines_load(&l, path);
	for (size_t i = 0; i < lines_count(&l, "kernel"); i++) {
		const char *line = lines_at(&l, "kernel", i);

		if (strstr(line, text)) {
			n++;
			timeless += strstr(line, "\"duration_ns\":null") != NULL;
		}
	}
	lines_deinit(&l);
	print_message("%zu of %zu without a time\n", timeless, n);
	return n > 1000 ? (double)timeless / (double)n : NAN;
}

/* 20,000 launches a second and more, with kernels of 1 to 9 us. Sleeping takes 50 us more by
 * default. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PAUSE_US "3" /* its launches take longer */
#else
#define PAUSE_US "15"
#endif
static struct program *start_waiting(struct fixture *f, const char *option, const char *value)
{
	struct program *p;

	prctl(PR_SET_TIMERSLACK, 1000); /* is inherited */
	p = fixture_client(f, USER_ANN, "standby", "--", FAKEAPP, "--kernels", "4000000", "--grids",
			   "13", "--blocks", "400", "--sleep-us", PAUSE_US, option, value, NULL);
	prctl(PR_SET_TIMERSLACK, 0);
	on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
	return p;
}

static struct program *capture_three_seconds(struct fixture *f, const struct program *p,
					     const char *option)
{
	return fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p), "--mode", "sample",
			      "--metrics", "dram__bytes_read.sum", "--duration", "3", "--format",
			      "jsonl", "-f", "--output", fixture_path(f, "records"), "-o",
			      fixture_path(f, "run.gpuctr"), option, NULL);
}

/* The capture of a program that launches fast enough for that: not where the machine is busy. */
static struct program *capture_with_rests(struct fixture *f, const char *option, const char *value,
					  struct program **ret_program)
{
	struct program *client;
	bool rests = false;

	for (int i = 0; i < 5 && !rests; i++) {
		*ret_program = start_waiting(f, option, value);
		client = capture_three_seconds(f, *ret_program, NULL);
		expect_exit(client, 0);
		rests = count_text(client->err, "; not recorded for ") > 0;
		if (!rests) {
			program_kill(*ret_program, SIGKILL);
		}
	}
	assert_true(rests);
	return client;
}

/* How much of it a busy machine leaves; what is told is right all the same. */
static bool has_enough(struct fixture *f)
{
	struct figures g = figures_of(fixture_path(f, "records"));

	figures_expect(&g, 97, 0.01);
	return g.known > 10000 && find_pauses(fixture_path(f, "records")).part > 0.3;
}

/* Every kernel of p is recorded, so pauses are the program's own: the least of several captures. */
static double least_pauses(struct fixture *f, struct program *p)
{
	double least = 1;

	for (int i = 0; i < 5 && least >= 0.15; i++) {
		struct program *client = capture_three_seconds(f, p, "--every-kernel");
		double part;

		expect_exit(client, 0);
		expect_no_message(client, "not recorded for");
		part = find_pauses(fixture_path(f, "records")).part;
		least = part < least ? part : least;
	}
	return least;
}

/* Records of all kernels would slow it. */
static void tracing_rests_while_a_program_waits_for_launches(void **state)
{
	struct fixture *f = *state;
	struct program *p, *client;
	bool enough = false;

	fixture_start_daemon(f, NULL);
	for (int i = 0; i < 5 && !enough; i++) {
		client = capture_with_rests(f, NULL, NULL, &p);
		expect_message(client, "--every-kernel records all");
		enough = has_enough(f);
		if (!enough) {
			program_kill(p, SIGKILL);
		}
	}
	assert_true(enough);
	client = fixture_client(f, USER_ANN, "report", fixture_path(f, "run.gpuctr"), "--attribute",
				NULL);
	expect_exit(client, 0);
	expect_in_output(client, "; not recorded for ");
	assert_true(least_pauses(f, p) < 0.15);
	expect_running(p);
	program_kill(p, SIGKILL);
	client = fixture_client(f, USER_ANN, "capture", "--all", "--every-kernel", "--mode",
				"range", NULL);
	expect_exit(client, 125);
	expect_message(client, "--every-kernel is of --mode sample");
}

/* Each kernel of a range is wanted. Where the machine is slow, the first one may come too late. */
static void tracing_goes_on_from_the_first_range_on(void **state)
{
	struct fixture *f = *state;
	struct program *p;
	double part = NAN;

	fixture_start_daemon(f, NULL);
	for (int i = 0; i < 5 && !(part < 0.3); i++) {
		capture_with_rests(f, "--nvtx-from", "50000", &p);
		part = timeless_part(fixture_path(f, "records"), "\"message\":\"late\"");
		program_kill(p, SIGKILL);
	}
	assert_true(part < 0.3);
}

/* CUPTI never tells the kernels of a graph that is made in a rest, so the program waits for its
 * end. Tracing goes on for a quarter of a second between two rests. */
static void there_is_no_rest_once_a_stream_was_captured(void **state)
{
	struct fixture *f = *state;
	struct program *p;
	double since = 0;

	fixture_start_daemon(f, NULL);
	for (int i = 0; i < 5 && since < 0.6; i++) {
		capture_with_rests(f, "--capture-from", "50000", &p);
		since = find_pauses(fixture_path(f, "records")).since;
		program_kill(p, SIGKILL);
	}
	assert_true(since >= 0.6);
	assert_int_equal(fixture_counter(f, "untraced_captures"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SAMPLING_TEST(tracing_rests_while_a_program_waits_for_launches),
		SAMPLING_TEST(tracing_goes_on_from_the_first_range_on),
		SAMPLING_TEST(there_is_no_rest_once_a_stream_was_captured),
	};

	return SYSTEM_RUN(tests);
}
