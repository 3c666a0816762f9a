/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "tests/system/lines.h"
#include "tests/system/raw.h"
#include "tests/system/recorder.h"

/* Whoever dies: the user's program runs on to its own end, what was measured is kept, what is
 * missing is counted, and the next one is served within a second. */

enum { SERVICE_MS = 1000 };

/* A program under a client that launches so many kernels, one each millisecond, and waits in the
 * middle, so that it outlives whatever happens until let_go_on(). */
static struct program *start_client(struct fixture *f, int uid, const char *kernels,
				    const char *status)
{
	return fixture_client(f, uid, "--metrics", "dram__bytes_read.sum",
			      stream_to(fixture_path(f, "records")), "--", FAKEAPP, "--kernels",
			      kernels, "--sleep-us", "1000", "--hold", "middle", "--exit", status,
			      NULL);
}

static void let_go_on(struct fixture *f)
{
	fixture_wait_held(f, 1);
	fixture_release(f);
}

static void wait_for_records(struct fixture *f)
{
	expect_text_soon(fixture_path(f, "records"), "\"type\":\"kernel\"");
}

/* Launches have been told of that are not delivered yet. */
static void wait_for_more(struct fixture *f)
{
	struct gpuctr_capture_info i;

	wait_until(raw_captures(f, USER_ANN, &i) > 0 &&
		   i.totals.seen > count_text(fixture_path(f, "records"), "\"type\":\"kernel\""));
}

SYSTEM_TEST(no_daemon_is_told_before_anything_runs)
{
	struct fixture *f = *state;
	struct program *client =
		fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, NULL);

	expect_exit(client, 125);
	expect_output(client, "");
	expect_message(client, "no-daemon");
	expect_message(client, f->socket);
}

SYSTEM_TEST(the_daemon_is_killed)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	fixture_start_daemon(f, NULL);
	f->violations_expected = true;
	client = start_client(f, USER_ANN, "3000", "9");
	wait_for_records(f);
	fixture_kill_daemon(f);
	expect_text_soon(client->err, "the daemon is gone");
	expect_running(client);
	let_go_on(f);
	expect_exit(client, 9);
	expect_output(client, "done 3000\n");
	lines_load(&l, fixture_path(f, "records")); /* every line whole */
	assert_true(lines_count(&l, "kernel") > 0);
	lines_deinit(&l);
	expect_no_owner(f);
	fixture_start_daemon(f, NULL); /* over the socket that was left behind */
	expect_service_soon(f, SERVICE_MS);
}

SYSTEM_TEST(the_daemon_is_told_to_stop)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	client = start_client(f, USER_ANN, "1500", "9");
	wait_for_records(f);
	fixture_stop_daemon(f);
	expect_running(client);
	let_go_on(f);
	expect_exit(client, 9);
	expect_message(client, "stopping");
	expect_message(client, "runs on, no longer measured");
	expect_no_owner(f);
	expect_no_objects(f);
}

SYSTEM_TEST(the_program_is_killed)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum",
				stream_to(fixture_path(f, "records")), "--", FAKEAPP, "--kernels",
				"10000", "--sleep-us", "10000", NULL);
	wait_for_records(f);
	wait_for_more(f);
	assert_int_equal(kill(fixture_child(client), SIGKILL), 0);
	expect_exit(client, 128 + SIGKILL);
	lines_load(&l, fixture_path(f, "records"));
	assert_true(lines_count(&l, "kernel") > 0);
	assert_true(line_number(lines_at(&l, "totals", 0), "measured") ==
		    (double)lines_count(&l, "kernel"));
	assert_true(line_number(lines_at(&l, "totals", 0), "lost") >= 1);
	assert_true(line_number(lines_at(&l, "totals", 0), "seen") ==
		    line_number(lines_at(&l, "totals", 0), "measured") +
			    line_number(lines_at(&l, "totals", 0), "lost"));
	assert_non_null(strstr(lines_at(&l, "process_end", 0), "\"clean\":false"));
	lines_deinit(&l);
	expect_no_owner(f);
	expect_no_objects(f);
	expect_service_soon(f, SERVICE_MS);
}

/* The report of a file says so as well, and of the one that was not killed nothing. */
SYSTEM_TEST(a_killed_program_is_told_by_the_report)
{
	static const char told[] = "1 process ended without a last word";
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (int killed = 0; killed < 2; killed++) {
		struct program *client = fixture_client(
			f, USER_ANN, "--metrics", "dram__bytes_read.sum", "-f", "-o",
			fixture_path(f, "file"), "--", "sh", "-c",
			killed ? "\"$0\" --kernels 20; \"$0\" --hold middle & "
				 "until [ -e $GPUCTR_FAKE_DIR/held.$! ]; do sleep .05; done; "
				 "kill -9 $!; wait"
			       : "\"$0\" --kernels 20; \"$0\" --kernels 30",
			FAKEAPP, NULL);
		char *text;

		program_wait(client);
		client = fixture_client(f, USER_ANN, "report", fixture_path(f, "file"), NULL);
		expect_exit(client, 0);
		text = read_file(client->out);
		assert_int_equal(strstr(text, told) != NULL, killed);
		free(text);
	}
}

/* Seconds that the message tells, during which launches may not have been counted. */
static double told_seconds(const struct program *client)
{
	CLEAN_FREE char *text = read_file(client->err);
	const char *at = strstr(text, "launches of its last ");

	if (!at) {
		at = strstr(text, "launches of the ");
	}
	assert_non_null(at);
	return strtod(strpbrk(at, "0123456789"), NULL);
}

/* Of n launches, at most so many a second, those in no figure are not more than were made in the
 * time that is told. */
static void expect_true(struct fixture *f, const struct program *client, double n,
			double per_second)
{
	double seen, told = told_seconds(client);
	struct lines l;

	lines_load(&l, fixture_path(f, "records"));
	seen = line_number(lines_at(&l, "totals", 0), "seen");
	assert_true(line_number(lines_at(&l, "totals", 0), "measured") ==
		    (double)lines_count(&l, "kernel"));
	assert_true(seen == line_number(lines_at(&l, "totals", 0), "measured") +
				    line_number(lines_at(&l, "totals", 0), "dropped") +
				    line_number(lines_at(&l, "totals", 0), "lost"));
	print_message("%g of %g seen, %g lost; launches of %g s may be in no figure\n", seen, n,
		      line_number(lines_at(&l, "totals", 0), "lost"), told);
	assert_true(n - seen <= told * per_second);
	assert_true(seen > 0);
	lines_deinit(&l);
}

static struct program *start_leaver(struct fixture *f, const char *mode, const char *how)
{
	return fixture_client(f, USER_ANN, mode, "-f", stream_to(fixture_path(f, "records")), "--",
			      FAKEAPP, "--kernels", "2000", "--sleep-us", "1000", "--leave", how,
			      NULL);
}

/* No handler of ours is called, so what the last counts do not tell is told by its time. */
SYSTEM_TEST(who_leaves_without_a_word_is_told_truly)
{
	static const char *const modes[] = { "--metrics=dram__bytes_read.sum", "--mode=trace" };
	static const char *const ways[] = { "_exit", "kill", "exec" };
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(modes) * ARRAY_SIZE(ways); i++) {
		const char *way = ways[i % ARRAY_SIZE(ways)];
		struct program *client = start_leaver(f, modes[i / ARRAY_SIZE(ways)], way);

		expect_exit(client, strcmp(way, "kill") == 0 ? 128 + SIGKILL : 0);
		expect_true(f, client, 2000, 1000);
	}
}

/* Its handlers are other ones than those of exit(). */
SYSTEM_TEST(who_exits_quickly_has_all_delivered)
{
	static const char *const modes[] = { "--metrics=dram__bytes_read.sum", "--mode=trace" };
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		struct program *client = start_leaver(f, modes[i], "quick_exit");

		expect_exit(client, 0);
		expect_message(client, "2,000 kernels seen in 1 process: 2,000 measured");
		expect_no_message(client, "without a last word");
	}
}

/* Its last counts have come long before, or wait where nobody reads them. */
SYSTEM_TEST(who_leaves_an_unread_client_is_told_truly)
{
	enum { PER_SECOND = 10000, UNREAD_MS = 3000 };
	struct fixture *f = *state;
	struct program *client;
	CLEAN_FREE char *text = NULL;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--mode", "trace",
				stream_to(fixture_path(f, "records")), "--", FAKEAPP, "--kernels",
				"1000000", "--sleep-us", "100", "--until", fixture_path(f, "over"),
				"--nvtx-names", "4000", "--leave", "_exit", NULL);
	wait_for_records(f);
	assert_int_equal(kill(client->pid, SIGSTOP), 0);
	sleep_ms(UNREAD_MS / 2); /* of launches whose counts nobody reads */
	fixture_write(f, "over", "");
	expect_text_soon(client->out, "done ");
	sleep_ms(UNREAD_MS);
	assert_int_equal(kill(client->pid, SIGCONT), 0);
	expect_exit(client, 0);
	text = read_file(client->out);
	expect_true(f, client, strtod(strstr(text, "done ") + 5, NULL), PER_SECOND);
	assert_true(told_seconds(client) > UNREAD_MS / 1000.0);
}

static void kill_worker(struct fixture *f, const char *name)
{
	pid_t pid = fixture_worker(f, name);

	assert_int_equal(kill(pid, SIGKILL), 0);
	for (int i = 0; i < 1000 && kill(pid, 0) == 0; i++) {
		sleep_ms(1);
	}
}

/* A process that hangs in the driver does not die of SIGKILL, and its parent waits for it in vain;
 * neither can a parent see the end of one that somebody traces. */
SYSTEM_TEST(a_granter_that_cannot_be_killed_is_left_behind)
{
	struct fixture *f = *state;
	pid_t granter;

	fixture_start_daemon(f, NULL);
	granter = fixture_worker(f, "granter");
	if (ptrace(PTRACE_SEIZE, granter, NULL, NULL) < 0) {
		fixture_skip("tracing is not allowed here");
	}
	kill_worker(f, "front");
	expect_service_soon(f, PATIENCE_MS);
	expect_text_soon(f->daemon->err, "cannot be killed");
	assert_int_equal(waitpid(granter, NULL, __WALL), granter);
	kill_worker(f, "front"); /* its successors are like any others */
	expect_service_soon(f, SERVICE_MS);
}

/* From the eleventh end on its successor comes later, but it comes: the daemon does not give up,
 * and who does not need the planner does not notice. */
SYSTEM_TEST(the_planner_is_killed_again_and_again)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	f->violations_expected = true;
	client = start_client(f, USER_ANN, "8000", "9");
	wait_for_records(f);
	for (int i = 0; i < 13; i++) {
		wait_until(process_child(f->daemon->pid, "planner") != 0);
		kill_worker(f, "planner");
	}
	expect_running(f->daemon);
	expect_text_soon(f->daemon->err, "replaced after a delay");
	let_go_on(f);
	expect_exit(client, 9);
	expect_message(client, "8,000 measured");
	expect_service_soon(f, PATIENCE_MS);
}

SYSTEM_TEST(a_front_that_dies_tells_that_nothing_was_started)
{
	struct fixture *f = *state;
	struct program *run, *permit;
	struct recorder holder;
	const struct gpuctr_capture_options options = recorder_options();

	fixture_need_two_users();
	fixture_start_daemon(f, NULL);
	recorder_connect(&holder, f, USER_BOB);
	recorder_open(&holder, &options);
	recorder_until(&holder, &holder.ready);
	run = fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "--", FAKEAPP, NULL);
	permit = fixture_client(f, USER_ANN, "permit", "--", "echo", "started", NULL);
	expect_text_soon(run->err, "waiting");
	expect_text_soon(permit->err, "waiting");
	kill_worker(f, "front");
	expect_exit(run, 125);
	expect_output(run, "");
	expect_message(run, "the program was not started");
	expect_exit(permit, 125);
	expect_output(permit, "");
	expect_message(permit, "the program was not started");
	recorder_disconnect(&holder);
}

/* A hung driver: others hear that it is busy, and nothing of the daemon hangs with it. */

/* From a client's start to its end; a sanitizer takes most of it for itself. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { ANSWER_MS = 1000 };
#else
enum { ANSWER_MS = 250 };
#endif

/* Has each of the first n been replaced once, as root is told? */
static bool are_counted(struct fixture *f, const char *const *names, size_t n)
{
	struct program *p = fixture_client(f, USER_SELF, "status", "--json", NULL);
	CLEAN_FREE char *out = NULL;
	const char *restarts;
	char count[32];

	expect_exit(p, 0);
	out = read_file(p->out);
	restarts = strstr(out, "\"restarts\":{");
	for (size_t i = 0; restarts && i < n; i++) {
		snprintf(count, sizeof(count), "\"%s\":1", names[i]);
		restarts = strstr(restarts, count) ? restarts : NULL;
	}
	return restarts != NULL;
}

/* A new front, which comes last, knows of the others' ends as well. */
SYSTEM_TEST(replaced_workers_are_counted_over_fronts)
{
	static const char *const names[] = { "planner", "gpu", "granter", "front" };
	struct fixture *f = *state;

	fixture_need_root_to_look();
	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		kill_worker(f, names[i]);
		expect_service_soon(f, PATIENCE_MS);
		wait_until(are_counted(f, names, i + 1));
	}
}
