/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/wait.h>

#include "tests/requirements/requirement.h"
#include "tests/system/footprint.h"
#include "tests/system/raw.h"
#include "tests/system/recorder.h"

/* R21: any process may be killed at any instant. A capture is held at a place, one process is
 * killed with SIGKILL, the place is let go, and then: somebody else is served soon, even
 * while the program waits, nothing of the capture is left in the daemon or the driver, and the
 * user's program runs to its own end.
 *
 * A place is held by what stands still there: a stopped worker, a program that waits ("fakeapp
 * --hold"), a driver call that hangs. "Soon" is a second on a machine of its own; here the median
 * is compared with it and the worst case with the patience of all tests. */

enum victim { CLIENT_PROCESS, PROGRAM, SAMPLER, FRONT, GRANTER, GPU, PLANNER, VICTIMS };

enum {
	SERVICE_MS = 1000,
	RUNS_PER_DAEMON = 8,	   /* from the eleventh death on a worker comes back later */
	GPU_0_PARENT = 0x5c000030, /* of its profiler objects, in the fake */
	TIMES_MAX = 4096,
};

static const char *const victims[VICTIMS] = { "client",	 "program", "gpuctr-sampler", "front",
					      "granter", "gpu",	    "planner" };

struct scene {
	struct fixture *f;
	struct program *client;
	pid_t program; /* 0: not started yet, or over */
	pid_t stopped; /* a worker */
	struct recorder holder;
};

struct point {
	const char *name;
	const char *hold; /* where the program waits */
	void (*reach)(struct scene *s);
	bool has_program, has_client, has_sampler;
};

static struct {
	unsigned ms[TIMES_MAX];
	size_t n;
} services;

/* A permit's program is a profiler of its own; a sampled run has a permit and a trace. */
static enum { CAPTURES, PERMITS, SAMPLED } kind;

/* --- places --- */

static void start_client(struct scene *s, const char *hold)
{
	if (kind == PERMITS) {
		s->client = fixture_client(s->f, USER_ANN, "permit", "--", TEST_FAKEPROFILER,
					   "--rounds", "40", NULL);
		return;
	}
	s->client =
		fixture_client(s->f, USER_ANN, "--mode", kind == SAMPLED ? "sample" : "range",
			       "--metrics", "dram__bytes_read.sum", "-f",
			       stream_to(fixture_path(s->f, "records")), "--", FAKEAPP, "--kernels",
			       "400", "--exit", "7", hold ? "--hold" : NULL, hold, NULL);
}

static void stop_worker(struct scene *s, const char *name)
{
	s->stopped = fixture_worker(s->f, name);
	assert_int_equal(kill(s->stopped, SIGSTOP), 0);
}

/* The daemon reports a capture of Ann's in this state. */
static void wait_for_state(struct scene *s, uint32_t state, bool in_queue)
{
	struct gpuctr_capture_info i = { 0 };

	wait_until(raw_captures(s->f, USER_ANN, &i) > 0 && i.state == state &&
		   (i.position > 0) == in_queue);
}

static void wait_asleep(pid_t pid)
{
	wait_until(process_is_asleep(pid));
}

static void reach_connected(struct scene *s)
{
	stop_worker(s, "front");
	start_client(s, NULL);
	wait_asleep(s->client->pid);
}

static void reach_planning(struct scene *s)
{
	stop_worker(s, "planner");
	start_client(s, NULL);
	wait_for_state(s, GPUCTR_CAPTURE_PLANNING, false);
}

static void reach_queue(struct scene *s)
{
	const struct gpuctr_capture_options options = recorder_options();

	fixture_need_two_users();
	recorder_connect(&s->holder, s->f, USER_BOB);
	recorder_open(&s->holder, &options);
	recorder_until(&s->holder, &s->holder.ready);
	start_client(s, NULL);
	wait_for_state(s, GPUCTR_CAPTURE_QUEUED, true);
}

/* It has the turn, and the gpu process is asked who else computes there. */
static void reach_turn(struct scene *s)
{
	reach_queue(s);
	stop_worker(s, "gpu");
	recorder_disconnect(&s->holder);
	wait_for_state(s, GPUCTR_CAPTURE_QUEUED, false);
}

static void reach_lease(struct scene *s)
{
	size_t granted = count_text(s->f->daemon->err, "lease granted: ");

	stop_worker(s, "granter");
	start_client(s, NULL);
	wait_until(count_text(s->f->daemon->err, "lease granted: ") != granted);
}

static pid_t wait_for_child(const struct scene *s, const char *name)
{
	pid_t pid;

	wait_until((pid = process_child(s->client->pid, name)) != 0);
	return pid;
}

static void wait_for_program(struct scene *s)
{
	s->program = kind == SAMPLED ? wait_for_child(s, "fakeapp") : fixture_child(s->client);
}

static void reach_held(struct scene *s)
{
	wait_for_program(s);
	fixture_wait_held(s->f, 1);
}

/* The granter is inside the driver. */
static void reach_asked(struct scene *s)
{
	uint64_t hangs = fixture_counter(s->f, "hangs");

	fixture_set_knob(s->f, "ioctl_hang", GPU_0_PARENT);
	start_client(s, NULL);
	wait_for_program(s);
	wait_until(fixture_counter(s->f, "hangs") != hangs);
}

static void reach_stream(struct scene *s)
{
	reach_held(s);
	expect_text_soon(fixture_path(s->f, "records"), "\"type\":\"kernel\"");
}

/* The program has ended, the client asks for the rest. */
static void reach_ending(struct scene *s)
{
	reach_held(s);
	stop_worker(s, "front");
	fixture_release(s->f);
	while (kill(s->program, 0) == 0) {
		sleep_ms(2);
	}
	s->program = 0;
	wait_asleep(s->client->pid);
}

static void reach_over(struct scene *s)
{
	start_client(s, NULL);
	expect_exit(s->client, 7);
}

static void reach_permitted(struct scene *s)
{
	start_client(s, NULL);
	wait_for_program(s);
	expect_text_soon(s->client->out, "counters\n");
}

/* The planner is asked before the permit is. */
static void reach_names(struct scene *s)
{
	stop_worker(s, "planner");
	start_client(s, NULL);
	wait_asleep(s->client->pid);
}

/* It waits for the driver, and has not begun. */
static void reach_sampler(struct scene *s)
{
	uint64_t hangs = fixture_counter(s->f, "hangs");

	fixture_set_knob(s->f, "ioctl_hang", GPU_0_PARENT);
	start_client(s, NULL);
	wait_for_child(s, "gpuctr-sampler");
	wait_until(fixture_counter(s->f, "hangs") != hangs);
}

static const struct point sampled_points[] = {
	{ "connected", NULL, reach_connected, false, true, false },
	{ "planning", NULL, reach_names, false, true, false },
	{ "queued", NULL, reach_queue, false, true, false },
	{ "turn", NULL, reach_turn, false, true, false },
	{ "lease opening", NULL, reach_lease, false, true, false },
	{ "sampler asks", NULL, reach_sampler, false, true, true },
	{ "samplers run", "start", reach_held, true, true, true },
	{ "attached", "init", reach_held, true, true, true },
	{ "launched", "first", reach_held, true, true, true },
	{ "records", "middle", reach_held, true, true, true },
	{ "exiting", "end", reach_held, true, true, true },
	{ "ending", "end", reach_ending, false, true, true },
	{ "over", NULL, reach_over, false, false, false },
};

static const struct point permit_points[] = {
	{ "connected", NULL, reach_connected, false, true },
	{ "queued", NULL, reach_queue, false, true },
	{ "turn", NULL, reach_turn, false, true },
	{ "lease opening", NULL, reach_lease, false, true },
	{ "permission asked", NULL, reach_asked, true, true },
	{ "granted", NULL, reach_permitted, true, true },
	{ "over", NULL, reach_over, false, false },
};

static const struct point points[] = {
	{ "connected", NULL, reach_connected, false, true },
	{ "planning", NULL, reach_planning, false, true },
	{ "queued", NULL, reach_queue, false, true },
	{ "turn", NULL, reach_turn, false, true },
	{ "lease opening", NULL, reach_lease, false, true },
	{ "ready", "start", reach_held, true, true },
	{ "attached", "init", reach_held, true, true },
	{ "context made", "context", reach_held, true, true },
	{ "permission asked", NULL, reach_asked, true, true },
	{ "granted", "first", reach_held, true, true },
	{ "records", "middle", reach_stream, true, true },
	{ "exiting", "end", reach_held, true, true },
	{ "ending", "end", reach_ending, false, true },
	{ "over", NULL, reach_over, false, false },
};

static const struct point *const matrices[] = { points, permit_points, sampled_points };

/* --- one run --- */

static pid_t find_victim(const struct scene *s, enum victim victim)
{
	switch (victim) {
	case CLIENT_PROCESS:
		return s->client->pid;
	case PROGRAM:
		return s->program;
	case SAMPLER:
		return process_child(s->client->pid, victims[SAMPLER]);
	default:
		return fixture_worker(s->f, victims[victim]);
	}
}

static void let_go(struct scene *s, pid_t killed)
{
	if (s->stopped != 0 && s->stopped != killed) {
		kill(s->stopped, SIGCONT);
	}
	fixture_set_knob(s->f, "ioctl_hang", 0);
	recorder_disconnect(&s->holder);
}

/* The program of a client that was killed came to the test. */
static void expect_orphan_exit(pid_t pid)
{
	int status;

	wait_until(waitpid(pid, &status, WNOHANG) == pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

/* All that the program has to say, or nothing: it was killed, or not started. */
static void expect_whole_output(struct program *client, bool whole)
{
	if (kind == PERMITS) {
		assert_int_equal(count_text(client->out, "done "), whole);
	} else {
		expect_output(client, whole ? "done 400\n" : "");
	}
}

static void expect_ran_on(struct scene *s, enum victim victim)
{
	bool started = s->program != 0;

	if (victim == CLIENT_PROCESS) {
		expect_signal(s->client, SIGKILL);
		if (started) {
			expect_orphan_exit(s->program);
			expect_whole_output(s->client, true);
		}
	} else if (victim == PROGRAM) {
		expect_exit(s->client, 128 + SIGKILL);
		expect_whole_output(s->client, false);
	} else {
		program_wait(s->client);
		if (!started && count_text(s->client->out, "done") == 0) {
			expect_exit(s->client, 125); /* refused before it was started */
			expect_message(s->client, kind == SAMPLED ? "gpuctr" : "gpuctr-client: ");
		} else {
			expect_exit(s->client, 7);
			expect_whole_output(s->client, true);
		}
	}
}

/* Whose end is the reason for what the client says. */
static void expect_cause(struct scene *s, enum victim victim)
{
	if (victim == SAMPLER && s->program != 0) {
		expect_message(s->client, "ended without a last word (signal 9, Killed)");
	} else if (victim == FRONT && s->program != 0) {
		expect_message(s->client, "the daemon is gone: the program runs on");
	} else if (victim == GRANTER && s->program != 0) {
		expect_message(s->client, "error[revoked]");
	}
}

static void expect_nothing_left(struct fixture *f)
{
	struct gpuctr_capture_info i;

	wait_until(raw_captures(f, USER_ANN, &i) + raw_captures(f, USER_BOB, &i) == 0);
	expect_no_owner(f);
	expect_no_objects(f);
}

static unsigned measure_service(struct fixture *f)
{
	uint64_t begin = now_ms();

	expect_service_soon(f, PATIENCE_MS);
	return (unsigned)(now_ms() - begin);
}

static void run_once(struct fixture *f, const struct point *p, enum victim victim)
{
	struct scene s = { .f = f };
	size_t programs = f->n_programs;
	pid_t killed;
	unsigned ms;

	unlink(fixture_path(f, "records"));
	if (p->hold) {
		start_client(&s, p->hold);
	}
	p->reach(&s);
	killed = find_victim(&s, victim);
	assert_int_equal(kill(killed, SIGKILL), 0);
	let_go(&s, killed);
	if (victim == GPU || victim == PLANNER) {
		fixture_release(f); /* the capture goes on, and is waited for */
	}
	ms = measure_service(f);
	fixture_release(f);
	if (services.n < TIMES_MAX) {
		services.ms[services.n++] = ms;
	}
	if (p->has_client) {
		expect_ran_on(&s, victim);
	}
	if (kind == SAMPLED && p->has_client) {
		expect_cause(&s, victim);
		fixture_wait_for_orphans(f, NULL);
	}
	expect_nothing_left(f);
	fixture_forget_programs(f, programs);
}

/* --- a point, all victims --- */

static size_t find_victims(const struct point *p, enum victim ret[VICTIMS])
{
	size_t n = 0;

	for (enum victim v = 0; v < VICTIMS; v++) {
		if ((v != PROGRAM || p->has_program) && (v != CLIENT_PROCESS || p->has_client) &&
		    (v != SAMPLER || p->has_sampler)) {
			ret[n++] = v;
		}
	}
	return n;
}

/* In turns, from this run on, until the daemon has seen enough deaths. Returns the next run. */
static size_t kill_at(struct fixture *f, const struct point *p, size_t run, size_t runs)
{
	enum victim victims_here[VICTIMS];
	size_t n = find_victims(p, victims_here), end = run + RUNS_PER_DAEMON;
	struct footprint before;

	fixture_check_leaks(true);
	fixture_start_daemon(f, NULL);
	/* It crashes over the agent's thread if that ends as it begins. */
	fixture_check_leaks(false);
	expect_service_soon(f, PATIENCE_MS);
	footprint_take(f, &before);
	for (; run < end && run < n * runs; run++) {
		if (requirement_cell(run + (size_t)(p - matrices[kind]), 2)) {
			run_once(f, p, victims_here[run % n]);
		}
	}
	expect_no_leak(f, &before);
	fixture_stop_daemon(f);
	fixture_forget_programs(f, 0);
	return run < n * runs ? run : 0;
}

static void kill_everybody_at(struct fixture *f, const char *name)
{
	size_t runs = requirement_amount(3, 30), run = 0;
	const struct point *p = matrices[kind];

	while (strcmp(p->name, name) != 0) {
		p++;
	}
	f->violations_expected = true;
	fixture_limit(getenv("GPUCTR_TEST_FULL") ? 3600 : 120);
	while ((run = kill_at(f, p, run, runs)) > 0) {
	}
}

SYSTEM_TEST(kill_everybody_of_a_permit)
{
	kind = PERMITS;
	for (size_t i = 0; i < ARRAY_SIZE(permit_points); i++) {
		kill_everybody_at(*state, permit_points[i].name);
	}
	kind = CAPTURES;
}

static int compare(const void *a, const void *b)
{
	return (int)*(const unsigned *)a - (int)*(const unsigned *)b;
}

#define PLACE(function, name)                      \
	SYSTEM_TEST(function)                      \
	{                                          \
		kill_everybody_at(*state, (name)); \
	}

PLACE(killed_when_connected, "connected")
PLACE(killed_while_planning, "planning")
PLACE(killed_in_the_queue, "queued")
PLACE(killed_at_the_turn, "turn")
PLACE(killed_while_the_lease_opens, "lease opening")
PLACE(killed_when_ready, "ready")
PLACE(killed_when_attached, "attached")
PLACE(killed_with_a_context, "context made")
PLACE(killed_inside_the_driver, "permission asked")
PLACE(killed_when_granted, "granted")
PLACE(killed_between_records, "records")
PLACE(killed_when_exiting, "exiting")
PLACE(killed_while_ending, "ending")
PLACE(killed_when_over, "over")

static void expect_services_back(void)
{
	unsigned median, worst;

	assert_true(services.n > 0);
	qsort(services.ms, services.n, sizeof(services.ms[0]), compare);
	median = services.ms[services.n / 2];
	worst = services.ms[services.n - 1];
	requirement_figure(
		"R21",
		"%zu kills at %zu places of a capture, %zu of a permit or %zu of a sampled "
		"run: service is back after %u ms (median), %u ms (worst)",
		services.n, ARRAY_SIZE(points), ARRAY_SIZE(permit_points),
		ARRAY_SIZE(sampled_points), median, worst);
	assert_true(!requirement_times_hold() || median <= SERVICE_MS);
}

TEST(services_are_soon_back)
{
	expect_services_back();
}

/* A sampled run has more processes, and takes more time. */
TEST_PART("sampled")

SYSTEM_TEST(kill_everybody_of_a_sampled_run)
{
	setenv("GPUCTR_SAMPLER", TEST_SAMPLER, 1);
	kind = SAMPLED;
	for (size_t i = 0; i < ARRAY_SIZE(sampled_points); i++) {
		kill_everybody_at(*state, sampled_points[i].name);
	}
	kind = CAPTURES;
}

TEST(services_of_a_sampled_run_are_soon_back)
{
	expect_services_back();
}
