/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/scenario.h"

/* What the client says of itself: to people, by examples, and to shells, which complete by it. */

SYSTEM_TEST(every_example_works_as_printed)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	scenario_end(scenario_start(f, "help.py", CLIENT, FAKEAPP,
				    TEST_SOURCE "/client/replay/resnet18-h200.gpuctr", NULL));
}

static void expect_completed(struct fixture *f, const char *shell)
{
	fixture_start_daemon(f, NULL);
	scenario_end(scenario_start(f, "completion.py", shell, CLIENT, NULL));
}

SYSTEM_TEST(the_client_knows_what_can_stand_where)
{
	expect_completed(*state, "the_client");
}

SYSTEM_TEST(bash_completes)
{
	expect_completed(*state, "bash");
}

SYSTEM_TEST(zsh_completes)
{
	expect_completed(*state, "zsh");
}

SYSTEM_TEST(zsh_completes_where_it_is_installed)
{
	expect_completed(*state, "zsh_installed");
}

SYSTEM_TEST(fish_completes)
{
	fixture_need_no_thread_sanitizer(FOREIGN_PROGRAMS);
	expect_completed(*state, "fish");
}
