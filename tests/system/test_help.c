/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/scenario.h"

#include <signal.h>
#include <unistd.h>

/* What the client says of itself: to people, by examples, and to shells, which complete by it. */

static void every_example_works_as_printed(void **state)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	scenario_end(scenario_start(f, "help.py", CLIENT, FAKEAPP,
				    TEST_SOURCE "/client/replay/resnet18-h200.gpuctr", NULL));
}

static void expect_completed(struct fixture *f, const char *shell)
{
	struct program *p;

	fixture_start_daemon(f, NULL);
	p = scenario_standby(f, FAKEAPP);
	scenario_end(scenario_start(f, "completion.py", shell, CLIENT, NULL));
	program_kill(p, SIGKILL);
}

/* With a program of a name that a shell would obey. */
static void the_client_knows_what_can_stand_where(void **state)
{
	struct fixture *f = *state;
	char path[160];
	struct program *p, *q;

	snprintf(path, sizeof(path), "%s", fixture_path(f, "$(touch evil)"));
	assert_int_equal(symlink(FAKEAPP, path), 0);
	fixture_start_daemon(f, NULL);
	p = scenario_standby(f, path);
	q = scenario_standby(f, FAKEAPP);
	scenario_end(scenario_start(f, "completion.py", "the_client", CLIENT, NULL));
	program_kill(p, SIGKILL);
	program_kill(q, SIGKILL);
}

static void bash_completes(void **state)
{
	expect_completed(*state, "bash");
}

static void zsh_completes(void **state)
{
	expect_completed(*state, "zsh");
}

static void zsh_completes_where_it_is_installed(void **state)
{
	expect_completed(*state, "zsh_installed");
}

static void fish_completes(void **state)
{
	fixture_need_no_thread_sanitizer(FOREIGN_PROGRAMS);
	expect_completed(*state, "fish");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SYSTEM_TEST(every_example_works_as_printed),
		SYSTEM_TEST(the_client_knows_what_can_stand_where),
		SYSTEM_TEST(bash_completes),
		SYSTEM_TEST(zsh_completes),
		SYSTEM_TEST(zsh_completes_where_it_is_installed),
		SYSTEM_TEST(fish_completes),
	};

	return SYSTEM_RUN(tests);
}
