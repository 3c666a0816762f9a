/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>

#include "tests/system/on_demand.h"

/* What an operator's client takes for the operator's own, and what for others'. Who may capture
 * whose programs is decided in the front's box (tests/unit/test_front_standby.c). Users of the
 * tests are members of a group with their own number. */

#define OPERATORS "operator-captures=yes", "--set", "operator-groups=1235" /* Bob's */

SYSTEM_TEST(an_operators_everything_is_their_own)
{
	struct fixture *f = *state;
	struct program *p, *q, *c;
	char pid[16];

	fixture_need_two_users();
	fixture_start_daemon(f, "--set", OPERATORS, "--set", "sharing=shared", NULL);
	p = on_demand_start(f, USER_ANN);
	q = on_demand_start(f, USER_BOB);
	on_demand_wait_listed(f, USER_BOB, p, "\"foreign\":true");
	on_demand_wait_listed(f, USER_BOB, q, "\"foreign\":false");
	c = fixture_client(f, USER_BOB, "capture", "--all", "--duration", "0.3", NULL);
	expect_exit(c, 0);
	expect_message(c, "measuring 1 process: ");
	snprintf(pid, sizeof(pid), "%d", p->pid);
	c = fixture_client(f, USER_BOB, "capture", "--all", "--pid", pid, "--duration", "0.3",
			   NULL);
	expect_exit(c, 0);
	expect_message(c, "measuring 1 process of ");
	c = fixture_client(f, USER_BOB, "capture", "--program", "fakeapp", "--duration", "0.3",
			   NULL);
	expect_exit(c, 0);
	expect_message(c, "is left out: it belongs to another user; --pid names it");
	expect_message(c, "measuring 1 process: ");
	c = fixture_client(f, USER_SELF, "capture", "--all", "--duration", "0.3", NULL);
	expect_exit(c, 125);
	expect_message(c, "belong to several users");
	expect_message(c, "--pid");
	program_kill(q, SIGKILL);
	program_wait(q);
	c = fixture_client(f, USER_SELF, "capture", "--all", "--duration", "0.3", NULL);
	expect_exit(c, 0);
	expect_message(c, "measuring 1 process of ");
	program_kill(p, SIGKILL);
}
