/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <signal.h>

#include "tests/system/lines.h"
#include "tests/system/on_demand.h"

/* Programs that, once they run, kill whoever in them opens a connection (and, in a second variant,
 * who sends a message): with and without us they end with their own result and status. A filter of
 * the launching thread alone leaves the agent's thread as it was, so such a program is measured.
 * One of all threads covers the agent, which then keeps quiet, and says so over what it has open.
 */

#define FAKESANDBOX built_path("tests/fake/fakesandbox")

#define SHUT_IN "has shut its threads in with a seccomp filter"

static const char *const forbidden[] = { "socket", "send" };

static struct program *start_standby(struct fixture *f, const char *whom, const char *what)
{
	struct program *p = fixture_client(f, USER_ANN, "standby", "--", FAKESANDBOX, whom, what,
					   "later", NULL);

	on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
	while (count_text(p->out, "shut in\n") == 0) { /* forgotten within cuInit() */
		program_kill(p, SIGUSR1);
		sleep_ms(100);
	}
	return p;
}

static void expect_own_end(struct program *p)
{
	program_kill(p, SIGTERM);
	expect_exit(p, 7);
	expect_in_output(p, "shut in\ndone\n");
}

static void restart_front(struct fixture *f)
{
	pid_t front = fixture_worker(f, "front");

	kill(front, SIGKILL);
	while (fixture_worker(f, "front") == front) {
		sleep_ms(10);
	}
	expect_service_soon(f, PATIENCE_MS);
}

static size_t kernels_of(struct fixture *f)
{
	struct lines l;
	size_t n;

	lines_load(&l, fixture_path(f, "now.jsonl"));
	n = lines_count(&l, "kernel");
	lines_deinit(&l);
	return n;
}

/* Nobody captures the program. */
static void the_front_starts_again(void **state)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(forbidden); i++) {
		struct program *all = start_standby(f, "tsync", forbidden[i]);
		struct program *one = start_standby(f, "thread", forbidden[i]);

		restart_front(f);
		on_demand_wait_listed(f, USER_ANN, one, "\"capture\":0");
		sleep_ms(1500); /* the other would have tried twice by now */
		assert_false(on_demand_is_listed(f, USER_ANN, all, ""));
		expect_own_end(all);
		expect_own_end(one);
	}
}

static void a_program_that_shut_one_thread_in_is_captured(void **state)
{
	struct fixture *f = *state;
	struct program *p;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(forbidden); i++) {
		p = start_standby(f, "thread", forbidden[i]);
		for (int again = 0; again < 2; again++) {
			on_demand_capture(f, USER_ANN, p, "dram__bytes_read.sum");
		}
		expect_own_end(p);
	}
}

static void a_program_that_shut_all_in_is_left_alone(void **state)
{
	struct fixture *f = *state;
	struct program *p, *c;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(forbidden); i++) {
		p = start_standby(f, "tsync", forbidden[i]);
		c = fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p), "--metrics",
				   "dram__bytes_read.sum", "--budget", "100%", "--format", "jsonl",
				   "-f", "--output", fixture_path(f, "now.jsonl"), NULL);
		expect_text_soon(c->err, SHUT_IN);
		program_kill(c, SIGINT);
		program_wait(c);
		assert_int_equal(kernels_of(f), 0);
		on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
		expect_own_end(p);
	}
}

/* Until the client has written this, to a file or to stderr when it is NULL. */
static void measure(struct fixture *f, const char *whom, const char *what, const char *path,
		    const char *text)
{
	struct program *p =
		fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "--format",
			       "jsonl", "-f", "--output", fixture_path(f, "now.jsonl"), "--",
			       FAKESANDBOX, whom, what, "now", NULL);
	pid_t child;

	expect_text_soon(p->out, "shut in\n");
	expect_text_soon(path ? path : p->err, text);
	child = fixture_child(p);
	kill(child, SIGTERM);
	expect_exit(p, 7);
	assert_int_equal(count_text(p->out, "shut in\ndone\n"), 1);
}

static void one_that_was_started_to_be_measured(void **state)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(forbidden); i++) {
		measure(f, "thread", forbidden[i], fixture_path(f, "now.jsonl"),
			"\"type\":\"kernel\"");
		measure(f, "tsync", forbidden[i], NULL, SHUT_IN);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SYSTEM_TEST(the_front_starts_again),
		SYSTEM_TEST(a_program_that_shut_one_thread_in_is_captured),
		SYSTEM_TEST(a_program_that_shut_all_in_is_left_alone),
		SYSTEM_TEST(one_that_was_started_to_be_measured),
	};

	return SYSTEM_RUN(tests);
}
