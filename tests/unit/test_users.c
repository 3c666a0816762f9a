/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/front/users.h"
#include "proto/base/clock.h"

/* Names of users: those of the file, as of a second ago. */

static char path[] = "/tmp/gpuctr-users.XXXXXX";

static void write_file(const char *text)
{
	FILE *f;

	unlink(path);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void expect(struct users *u, uint64_t now_s, uid_t uid, const char *name)
{
	char text[64];

	users_name_in(u, path, now_s * CLOCK_NS_PER_S, uid, text, sizeof(text));
	assert_string_equal(text, name);
}

static void names_are_those_of_the_file(void **state)
{
	struct users *u = users_new();

	(void)state;
	write_file("zoe:x:1500:1500::/:/bin/sh\n"
		   "root:x:0:0:root:/root:/bin/sh\n"
		   "toor:x:0:0:another name:/root:/bin/sh\n"
		   "\n# no line\n"
		   "ann:x:1001:1001:Ann, with commas:/home/ann:/bin/sh\n"
		   "b\xff"
		   "b:x:1002:1002::/:/bin/sh\n"
		   "last:x:4294967294:1::/:/bin/sh");
	expect(u, 10, 0, "root"); /* the first of two */
	expect(u, 10, 1001, "ann");
	expect(u, 10, 1500, "zoe");
	expect(u, 10, 1002,
	       "b?"
	       "b");
	expect(u, 10, 4294967294u, "last");
	expect(u, 10, 1, "uid 1");
	expect(u, 10, 1499, "uid 1499");
	expect(u, 10, 4294967295u, "uid 4294967295");
	users_free(u);
}

static void who_comes_later_has_a_name_soon(void **state)
{
	struct users *u = users_new();

	(void)state;
	write_file("ann:x:1001:1001::/:/bin/sh\n");
	expect(u, 10, 1002, "uid 1002");
	write_file("ann:x:1001:1001::/:/bin/sh\nbob:x:1002:1002::/:/bin/sh\n");
	expect(u, 10, 1002, "uid 1002");
	expect(u, 11, 1002, "bob");
	unlink(path);
	expect(u, 12, 1002, "bob"); /* while it is exchanged, what was */
	write_file("");
	expect(u, 13, 1002, "uid 1002");
	users_free(u);
}

static void many_users_are_found(void **state)
{
	struct users *u = users_new();
	FILE *f = fopen(path, "w");

	(void)state;
	assert_non_null(f);
	for (unsigned i = 0; i < 5000; i++) {
		fprintf(f, "user%u:x:%u:1::/:/bin/sh\n", i, 2 * ((i * 7919) % 5000));
	}
	fclose(f);
	for (unsigned i = 0; i < 5000; i++) {
		char name[32], none[32];

		snprintf(name, sizeof(name), "user%u", i);
		snprintf(none, sizeof(none), "uid %u", 2 * i + 1);
		expect(u, 10, 2 * ((i * 7919) % 5000), name);
		expect(u, 10, 2 * i + 1, none);
	}
	users_free(u);
}

static int begin(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static int end(void **state)
{
	(void)state;
	unlink(path);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_those_of_the_file),
		cmocka_unit_test(who_comes_later_has_a_name_soon),
		cmocka_unit_test(many_users_are_found),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
