/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/scenario.h"

#include <signal.h>
#include <unistd.h>

/* What is shown live, on a terminal and without one. top.py is the terminal. */

#define RECORDING TEST_SOURCE "/client/replay/resnet18-h200.gpuctr"

static void expect_scenario(struct fixture *f, const char *scenario, const char *argument)
{
	scenario_end(scenario_start(f, "top.py", scenario, CLIENT, argument, NULL));
}

static const char *pid_text(const struct program *p)
{
	static char text[16];

	snprintf(text, sizeof(text), "%d", p->pid);
	return text;
}

static void the_daemon_is_shown_at_any_width(void **state)
{
	struct fixture *f = *state;
	struct program *p;

	fixture_start_daemon(f, NULL);
	p = scenario_standby(f, FAKEAPP);
	expect_scenario(f, "widths", NULL);
	program_kill(p, SIGKILL);
}

static void without_a_terminal_updates_are_printed(void **state)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	expect_scenario(f, "plain", NULL);
}

static void a_hostile_name_is_only_shown(void **state)
{
	struct fixture *f = *state;
	struct program *p;
	const char *evil = fixture_path(f, "evil\033]0;x\007\033[2J\xe2\x80\xae");
	char path[160];

	snprintf(path, sizeof(path), "%s", evil);
	assert_int_equal(symlink(FAKEAPP, path), 0);
	fixture_start_daemon(f, NULL);
	p = scenario_standby(f, path);
	expect_scenario(f, "hostile", NULL);
	program_kill(p, SIGKILL);
}

static void anothers_capture_is_shown_with_its_kernels(void **state)
{
	struct fixture *f = *state;
	struct program *c;

	fixture_start_daemon(f, NULL);
	c = fixture_client(f, USER_SELF, "--metrics", "dram__bytes_read.sum", "--", FAKEAPP,
			   SCENARIO_LONG_RUN, NULL);
	expect_scenario(f, "captures", NULL);
	program_kill(c, SIGKILL);
}

static void a_capture_file_is_reported_while_it_is_written(void **state)
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

static void processes_are_measured_while_they_are_looked_at(void **state)
{
	struct fixture *f = *state;
	struct program *p;

	fixture_start_daemon(f, NULL);
	p = scenario_standby(f, FAKEAPP);
	expect_scenario(f, "own", pid_text(p));
	expect_running(p);
	expect_no_owner(f);
	expect_scenario(f, "own_ends", pid_text(p));
}

static void progress_is_told_and_erased(void **state)
{
	struct fixture *f = *state;
	struct program *p;

	fixture_start_daemon(f, NULL);
	p = scenario_standby(f, FAKEAPP);
	expect_scenario(f, "progress", pid_text(p));
	program_kill(p, SIGKILL);
}

/* What is of a table of kernels says nothing of the daemon's. */
static void rows_are_of_processes(void **state)
{
	static const char *const options[][2] = { { "--by", "op" },
						  { "--by", "kernel" },
						  { "--sort", "time" } };
	struct fixture *f = *state;
	struct program *p;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		p = fixture_client(f, USER_ANN, "top", "--once", options[i][0], options[i][1],
				   NULL);
		expect_exit(p, 2);
		expect_message(p, options[i][0]);
		expect_message(p, ": the rows of which table? Name processes to be measured");
	}
}

static void a_daemon_that_goes_and_comes_is_told(void **state)
{
	struct fixture *f = *state;
	struct program *p;

	fixture_start_daemon(f, NULL);
	p = scenario_start(f, "top.py", "outlives", CLIENT, NULL);
	expect_text_soon(p->out, "seen");
	fixture_stop_daemon(f);
	expect_text_soon(p->out, "lost");
	fixture_start_daemon(f, NULL);
	scenario_end(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SYSTEM_TEST(the_daemon_is_shown_at_any_width),
		SYSTEM_TEST(without_a_terminal_updates_are_printed),
		SYSTEM_TEST(a_hostile_name_is_only_shown),
		SYSTEM_TEST(anothers_capture_is_shown_with_its_kernels),
		SYSTEM_TEST(a_capture_file_is_reported_while_it_is_written),
		SYSTEM_TEST(processes_are_measured_while_they_are_looked_at),
		SYSTEM_TEST(progress_is_told_and_erased),
		SYSTEM_TEST(rows_are_of_processes),
		SYSTEM_TEST(a_daemon_that_goes_and_comes_is_told),
	};

	return SYSTEM_RUN(tests);
}
