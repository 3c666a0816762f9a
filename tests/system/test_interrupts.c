/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <signal.h>

#include "tests/system/on_demand.h"
#include "tests/system/query.h"

/* One Ctrl-C reaches the client and the program alike, and the client may read it late: when it
 * has noticed in another way already that what it measures is over. Such a Ctrl-C is the first
 * one. A stopped client makes "late" certain: whatever its loop looks at first is there when it
 * goes on. */

#define WORK "--kernels", "400000", "--grids", "13", "--blocks", "6000", "--sleep-us", "400"

/* Longer than any timer of the client takes. */
enum { LATE_MS = 700, DURATION_MS = 5000 };

static void expect_complete(struct fixture *f, struct program *client)
{
	const char *path = fixture_path(f, "run.gpuctr");

	expect_no_message(client, "is lost");
	assert_true(query_file(path, "SELECT value FROM meta WHERE key = 'complete'") == 1);
	assert_true(query_file(path, "SELECT count(*) FROM record") > 0);
	assert_true(query_file(path, "SELECT sum(ended) = count(*) FROM process") == 1);
}

static void interrupt_late(struct program *client, pid_t program)
{
	kill(client->pid, SIGSTOP);
	kill(program, SIGINT);
	kill(client->pid, SIGINT);
	sleep_ms(LATE_MS);
	kill(client->pid, SIGCONT);
}

static void interrupt_run(struct fixture *f, const char *option, const char *value)
{
	struct program *client =
		fixture_client(f, USER_ANN, option, value, "-f", "-o",
			       fixture_path(f, "run.gpuctr"), "--", FAKEAPP, WORK, NULL);

	on_demand_wait_measured(f, 1);
	interrupt_late(client, process_child(client->pid, "fakeapp"));
	expect_exit(client, 128 + SIGINT);
	expect_complete(f, client);
}

SAMPLING_TEST(an_interrupt_that_ends_the_program_is_the_first)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	interrupt_run(f, "--metrics", "memory");
	interrupt_run(f, "--mode", "trace");
	interrupt_run(f, "--mode", "sample");
}

static struct program *begin_capture(struct fixture *f, const struct program *p,
				     const char *duration)
{
	struct program *client =
		fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p), "--mode", "range",
			       "-f", "-o", fixture_path(f, "run.gpuctr"), "--duration", duration,
			       NULL);

	on_demand_wait_measured(f, 1);
	return client;
}

SYSTEM_TEST(an_interrupt_that_ends_what_is_captured_is_the_first)
{
	struct fixture *f = *state;
	struct program *p, *client;

	fixture_start_daemon(f, NULL);
	p = on_demand_start_listed(f, USER_ANN);
	client = begin_capture(f, p, "100");
	interrupt_late(client, p->pid);
	expect_exit(client, 0);
	expect_complete(f, client);
	expect_signal(p, SIGINT);
}

SYSTEM_TEST(an_interrupt_after_the_duration_is_the_first)
{
	struct fixture *f = *state;
	struct program *p, *client;

	fixture_start_daemon(f, NULL);
	p = on_demand_start_listed(f, USER_ANN);
	client = begin_capture(f, p, "5"); /* DURATION_MS */
	kill(client->pid, SIGSTOP);
	sleep_ms(DURATION_MS + LATE_MS);
	kill(client->pid, SIGINT);
	kill(client->pid, SIGCONT);
	expect_exit(client, 0);
	expect_complete(f, client);
	expect_running(p);
	program_kill(p, SIGKILL);
}
