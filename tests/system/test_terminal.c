/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/scenario.h"

#include <signal.h>
#include <unistd.h>

#include "tests/system/on_demand.h"

/* What is shown on a terminal. terminal.py is the terminal. */

#define RECORDING TEST_SOURCE "/client/replay/resnet18-h200.gpuctr"

static void expect_scenario(struct fixture *f, const char *scenario, const char *argument)
{
	scenario_end(scenario_start(f, "terminal.py", scenario, CLIENT, argument, NULL));
}

SYSTEM_TEST(errors_are_in_color)
{
	expect_scenario(*state, "colors", NULL);
}

SYSTEM_TEST(the_daemon_is_watched_at_any_width)
{
	struct fixture *f = *state;
	struct program *p;
	const char *evil = fixture_path(f, "evil\033]0;x\007\033[2J\xe2\x80\xae");
	char path[160];

	snprintf(path, sizeof(path), "%s", evil);
	assert_int_equal(symlink(FAKEAPP, path), 0);
	fixture_start_daemon(f, NULL);
	p = scenario_standby(f, path);
	expect_scenario(f, "watch", NULL);
	program_kill(p, SIGKILL);
}

SYSTEM_TEST(a_daemon_that_goes_and_comes_is_told)
{
	struct fixture *f = *state;
	struct program *p;

	fixture_start_daemon(f, NULL);
	p = scenario_start(f, "terminal.py", "outlives", CLIENT, NULL);
	expect_text_soon(p->out, "seen");
	fixture_stop_daemon(f);
	expect_text_soon(p->out, "lost");
	fixture_start_daemon(f, NULL);
	scenario_end(p);
}

SYSTEM_TEST(a_capture_file_is_reported_while_it_is_written)
{
	struct fixture *f = *state;
	char path[160];
	struct program *c;

	snprintf(path, sizeof(path), "%s", fixture_path(f, "run.gpuctr"));
	fixture_start_daemon(f, NULL);
	c = fixture_client(f, USER_SELF, "--metrics", "dram__bytes_read.sum", "-o", path, "--",
			   FAKEAPP, SCENARIO_LONG_RUN, NULL);
	while (access(path, R_OK) < 0) {
		expect_running(c);
		sleep_ms(10);
	}
	expect_scenario(f, "file_grows", path);
	program_kill(c, SIGKILL);
	expect_scenario(f, "recording", RECORDING);
}

SYSTEM_TEST(progress_is_told_and_erased)
{
	struct fixture *f = *state;
	struct program *p;

	fixture_start_daemon(f, NULL);
	p = scenario_standby(f, FAKEAPP);
	expect_scenario(f, "progress", on_demand_pid(p));
	program_kill(p, SIGKILL);
}
