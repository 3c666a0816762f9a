/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/system/on_demand.h"

/* Programs in standby that close what is not theirs, fork, and become others: they run on with what
 * is theirs untouched, and the agent stays the daemon's, or the client is told. */

#define FAKERUDE built_path("tests/fake/fakerude")

static struct program *start(struct fixture *f, int uid, const char *action, const char *argument)
{
	struct program *p =
		fixture_client(f, uid, "standby", "--", FAKERUDE, action, argument, NULL);

	on_demand_wait_listed(f, uid, p, "\"capture\":0");
	return p;
}

/* The number of its registration, which is another one when it has registered again. */
static unsigned long number_of(struct fixture *f, int uid, const struct program *p)
{
	for (unsigned long n = 1;; n++) {
		char text[32];

		snprintf(text, sizeof(text), "{\"process\":%lu,", n);
		if (on_demand_is_listed(f, uid, p, text)) {
			return n;
		}
		assert_true(n < 20);
	}
}

static void act(struct program *p, const char *action)
{
	char text[32];

	snprintf(text, sizeof(text), "did %s\n", action);
	program_kill(p, SIGUSR1);
	expect_text_soon(p->out, text);
}

/* Its files are as it has left them. */
static void expect_untouched(struct program *p)
{
	program_kill(p, SIGTERM);
	expect_exit(p, 7);
	assert_int_equal(count_text(p->out, "touched in a child"), 0);
	assert_int_equal(count_text(p->out, " 0\n"), 1);
	assert_int_equal(count_text(p->out, "done "), 1);
}

static struct program *begin_capture(struct fixture *f, const struct program *p)
{
	const char *path = fixture_path(f, "now.jsonl");

	unlink(path);
	return fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p), "--metrics",
			      "dram__bytes_read.sum", "--mode", "range", "-f", stream_to(path),
			      NULL);
}

static void expect_kernels(struct fixture *f)
{
	expect_text_soon(fixture_path(f, "now.jsonl"), "\"type\":\"kernel\"");
}

static void capture_once(struct fixture *f, const struct program *p)
{
	struct program *c = begin_capture(f, p);

	expect_kernels(f);
	program_kill(c, SIGINT);
	expect_exit(c, 0);
	on_demand_expect_measured(fixture_path(f, "now.jsonl"), "dram__bytes_read.sum");
}

/* The connection to the daemon is another process's: the registration stays. */
SYSTEM_TEST(sockets_are_closed_before_a_capture)
{
	struct fixture *f = *state;
	struct program *p;
	unsigned long number;

	fixture_start_daemon(f, NULL);
	p = start(f, USER_ANN, "sockets", NULL);
	number = number_of(f, USER_ANN, p);
	act(p, "sockets");
	capture_once(f, p);
	assert_int_equal(number_of(f, USER_ANN, p), number);
	expect_untouched(p);
}

SYSTEM_TEST(sockets_are_closed_during_a_capture)
{
	struct fixture *f = *state;
	struct program *p, *c;
	unsigned long number;

	fixture_start_daemon(f, NULL);
	p = start(f, USER_ANN, "sockets", NULL);
	number = number_of(f, USER_ANN, p);
	c = begin_capture(f, p);
	expect_kernels(f);
	act(p, "sockets");
	program_kill(c, SIGINT);
	expect_exit(c, 0);
	expect_no_message(c, "lost its connection");
	on_demand_expect_measured(fixture_path(f, "now.jsonl"), "dram__bytes_read.sum");
	capture_once(f, p);
	assert_int_equal(number_of(f, USER_ANN, p), number);
	expect_untouched(p);
}

/* CUDA's own among them. */
SYSTEM_TEST(all_is_closed_during_a_capture)
{
	struct fixture *f = *state;
	struct program *p, *c;

	fixture_start_daemon(f, NULL);
	p = start(f, USER_ANN, "all", NULL);
	c = begin_capture(f, p);
	expect_kernels(f);
	act(p, "all");
	program_kill(c, SIGINT);
	expect_exit(c, 0);
	expect_running(p);
	expect_untouched(p);
}

SYSTEM_TEST(a_forked_child_has_nothing_of_ours)
{
	struct fixture *f = *state;
	struct program *p, *c;

	fixture_start_daemon(f, NULL);
	p = start(f, USER_ANN, "fork", "fork");
	act(p, "fork");
	capture_once(f, p);
	c = begin_capture(f, p);
	expect_kernels(f);
	act(p, "fork");
	program_kill(c, SIGINT);
	expect_exit(c, 0);
	expect_no_message(c, "without a last word");
	expect_untouched(p);
}

/* While the parent's agent has not noticed yet. */
SYSTEM_TEST(a_child_keeps_what_was_opened_at_our_number)
{
	struct fixture *f = *state;
	struct program *p;

	fixture_start_daemon(f, NULL);
	p = start(f, USER_ANN, "sockets", "fork");
	act(p, "sockets");
	act(p, "fork");
	expect_untouched(p);
}

/* A daemon that the program has become must not keep up the connection of what it was. */
SYSTEM_TEST(who_has_ended_is_not_listed_for_its_daemon)
{
	struct fixture *f = *state;
	struct program *p;
	struct program gone;

	fixture_start_daemon(f, NULL);
	p = start(f, USER_ANN, "orphan", NULL);
	act(p, "orphan");
	gone = *p;
	expect_untouched(p);
	assert_int_equal(access(fixture_path(f, "orphan"), F_OK), 0);
	wait_until(!on_demand_is_listed(f, USER_ANN, &gone, ""));
	unlink(fixture_path(f, "orphan"));
}

SYSTEM_TEST(programs_are_started_as_ever)
{
	struct fixture *f = *state;
	struct program *p, *c;

	fixture_need_no_thread_sanitizer(FOREIGN_PROGRAMS);
	fixture_start_daemon(f, NULL);
	p = start(f, USER_ANN, "spawn", "spawn");
	act(p, "spawn");
	capture_once(f, p);
	c = begin_capture(f, p);
	expect_kernels(f);
	act(p, "spawn");
	program_kill(c, SIGINT);
	expect_exit(c, 0);
	on_demand_expect_measured(fixture_path(f, "now.jsonl"), "dram__bytes_read.sum");
	expect_untouched(p);
}

/* The daemon goes by who connected; so the agent connects anew. */
SYSTEM_TEST(who_gives_up_root_is_another_users)
{
	struct fixture *f = *state;
	struct program *p;

	fixture_need_two_users();
	fixture_start_daemon(f, NULL);
	p = start(f, USER_SELF, "user", "1234");
	assert_false(on_demand_is_listed(f, USER_ANN, p, ""));
	act(p, "user");
	on_demand_wait_listed(f, USER_ANN, p, "\"foreign\":false");
	capture_once(f, p);
	expect_untouched(p);
}

/* It stays connected; nothing that a capture would have to open is there. */
SYSTEM_TEST(who_changes_its_root_runs_on)
{
	struct fixture *f = *state;
	struct program *p, *c;

	fixture_need_root();
	fixture_start_daemon(f, NULL);
	fixture_check_leaks(false);
	assert_int_equal(mkdir(fixture_path(f, "empty"), 0755), 0);
	p = start(f, USER_SELF, "root", fixture_path(f, "empty"));
	act(p, "root");
	c = fixture_client(f, USER_SELF, "capture", "--pid", on_demand_pid(p), "--duration", "1",
			   NULL);
	expect_exit(c, 0);
	expect_running(p);
	expect_untouched(p);
}

/* Of what a capture opens nothing can be opened: the client hears why, and the program runs on. */
SYSTEM_TEST(who_has_no_descriptor_left_runs_on)
{
	struct fixture *f = *state;
	struct program *p, *c;

	fixture_start_daemon(f, NULL);
	fixture_check_leaks(false);
	p = start(f, USER_ANN, "nofile", NULL);
	act(p, "nofile");
	c = fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p), "--duration", "1",
			   NULL);
	expect_exit(c, 0);
	expect_message(c, "the process has as many files open as it may");
	expect_running(p);
	expect_untouched(p);
}

/* A daemon that is gone would raise SIGPIPE. */
SYSTEM_TEST(signals_that_end_by_default_do_not_come)
{
	struct fixture *f = *state;
	struct program *p, *c;

	fixture_start_daemon(f, NULL);
	p = start(f, USER_ANN, "defaults", NULL);
	act(p, "defaults");
	c = begin_capture(f, p);
	expect_kernels(f);
	fixture_kill_daemon(f);
	expect_exit(c, 125);
	fixture_start_daemon(f, NULL);
	on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
	capture_once(f, p);
	expect_untouched(p);
}
