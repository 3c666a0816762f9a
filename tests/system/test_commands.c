/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <unistd.h>

#include "proto/limits.h"
#include "proto/status.h"
#include "tests/system/raw.h"

/* What a user types: options that cannot work are refused before the program starts, with a
 * sentence that says what would. */

static void expect_refused(struct program *client, const char *what, const char *remedy)
{
	expect_exit(client, 125);
	expect_output(client, ""); /* its program has not begun */
	expect_message(client, what);
	expect_message(client, remedy);
}

static void a_wrong_expression_is_refused(void **state)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	expect_refused(fixture_client(f, USER_ANN, "--kernel", "k(", "--", FAKEAPP, NULL),
		       "'k(' is not taken as a regular expression", "at character 2");
	expect_exit(fixture_client(f, USER_ANN, "--kernel", "k[0-3]\\(", "--", FAKEAPP, NULL), 0);
}

/* A client that does not look itself, or of another release. */
static void the_daemon_refuses_a_wrong_expression_too(void **state)
{
	static const char *const metrics[] = { "dram__bytes_read.sum" };
	struct fixture *f = *state;
	struct wire_message m = { .type = WIRE_OPEN_CAPTURE }, answer;
	struct arena a;
	int fd;

	fixture_start_daemon(f, NULL);
	arena_init(&a, LIMIT_UNPACKED_BYTES);
	fd = raw_client(f, USER_ANN);
	m.open_capture = (struct wire_open_capture){ .request = 7,
						     .metrics = { 1, metrics },
						     .chip = "",
						     .program = "raw",
						     .kernel_regex = "k(" };
	assert_true(raw_send(fd, &m, -1));
	answer = raw_receive(fd, &a);
	assert_int_equal(answer.type, WIRE_REFUSAL);
	assert_int_equal(answer.refusal.code, GPUCTR_E_BAD_PATTERN);
	close(fd);
	arena_deinit(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SYSTEM_TEST(a_wrong_expression_is_refused),
		SYSTEM_TEST(the_daemon_refuses_a_wrong_expression_too),
	};

	return SYSTEM_RUN(tests);
}
