/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/raw.h"

#include <signal.h>
#include <unistd.h>

#include "proto/wire/limits.h"
#include "tests/system/on_demand.h"

/* Who captures whose programs: root and operators those of others, where the configuration lets
 * them; nobody else, and nobody by default. Users of the tests are members of a group with their
 * own number. */

enum { USER_EVE = 1236 };

#define OPERATORS "operator-captures=yes", "--set", "operator-groups=1235" /* Bob's */

static struct arena arena; /* of the last message */

static int setup(void **state)
{
	arena_init(&arena, LIMIT_UNPACKED_BYTES);
	return fixture_setup(state);
}

static int teardown(void **state)
{
	arena_deinit(&arena);
	return fixture_teardown(state);
}

static void expect_captured(struct fixture *f, int uid, const struct program *p, const char *told)
{
	expect_message(on_demand_capture(f, uid, p, "dram__bytes_read.sum"), told);
}

/* The first program that has registered is number 1. */
static void wish(int client)
{
	static const char *const metrics[] = { "dram__bytes_read.sum" };
	static const uint32_t first = 1;
	const struct wire_message m = {
		.type = WIRE_OPEN_CAPTURE,
		.open_capture = { .request = 7,
				  .metrics = { 1, metrics },
				  .processes = { 1, &first } },
	};

	assert_true(raw_send(client, &m, -1));
}

static void expect_refusal_as(int client, uint32_t code, const char *why, const char *remedy)
{
	struct wire_message m;

	wish(client);
	m = raw_receive(client, &arena);
	assert_int_equal(m.type, WIRE_REFUSAL);
	assert_int_equal(m.refusal.request, 7);
	if (m.refusal.code != code || !strstr(m.refusal.message, why) ||
	    !strstr(m.refusal.remedy, remedy)) {
		fail_msg("refused with %u '%s' '%s'", m.refusal.code, m.refusal.message,
			 m.refusal.remedy);
	}
	close(client);
}

static void expect_refusal(int client, const char *why, const char *remedy)
{
	expect_refusal_as(client, GPUCTR_E_NOT_ALLOWED, why, remedy);
}

#define FIXTURE_TEST(f) TEST_WITH(f, setup, teardown)

FIXTURE_TEST(root_and_operators_do_where_they_may)
{
	struct fixture *f = *state;
	struct program *p;

	fixture_need_two_users();
	fixture_start_daemon(f, "--set", OPERATORS, NULL);
	p = on_demand_start(f, USER_ANN);
	on_demand_wait_listed(f, USER_BOB, p, "\"foreign\":true");
	expect_captured(f, USER_BOB, p, fixture_user(USER_ANN, ": fakeapp (pid "));
	expect_text_soon(f->daemon->err, fixture_user(USER_ANN, ""));
	expect_text_soon(f->daemon->err, "measures programs of");
	expect_captured(f, USER_SELF, p, "measuring 1 process of ");
	expect_captured(f, USER_ANN, p, "measuring 1 process: fakeapp");
	assert_false(on_demand_is_listed(f, USER_EVE, p, ""));
	expect_refusal(raw_client(f, USER_EVE), "no operator of this machine", "operator-groups");
	program_kill(p, SIGKILL);
}

FIXTURE_TEST(an_operators_everything_is_their_own)
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
