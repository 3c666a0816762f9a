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

TEST(names_are_those_of_the_file)
{
	struct users *u = users_new();

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

TEST(who_comes_later_has_a_name_soon)
{
	struct users *u = users_new();

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

static uid_t wanted(struct users *u, uint64_t now_s)
{
	uid_t uid = 0;

	return users_want(u, now_s * CLOCK_NS_PER_S, &uid) ? uid : 0;
}

/* Who is not in the file is asked for: each once, one at a time, in turn. Who is in it is not. */
TEST(others_are_asked_for_one_by_one)
{
	struct users *u = users_new();

	write_file("ann:x:1001:1001::/:/bin/sh\n");
	expect(u, 10, 1001, "ann");
	assert_int_equal(wanted(u, 10), 0);
	expect(u, 10, 2001, "uid 2001");
	expect(u, 10, 2002, "uid 2002");
	expect(u, 10, 2001, "uid 2001");
	assert_int_equal(wanted(u, 10), 2001);
	assert_int_equal(wanted(u, 11), 0); /* until that one is answered */
	users_learn(u, 11 * CLOCK_NS_PER_S, 2001, "carol");
	assert_int_equal(wanted(u, 11), 2002);
	users_learn(u, 11 * CLOCK_NS_PER_S, 2002, "");
	assert_int_equal(wanted(u, 11), 0);
	expect(u, 12, 2001, "carol");
	expect(u, 12, 2002, "uid 2002");
	assert_int_equal(wanted(u, 12), 0);
	users_free(u);
}

/* A name is shown until there is another one; that there is none holds for a minute. */
TEST(answers_are_renewed)
{
	struct users *u = users_new();

	write_file("");
	users_learn(u, 0, 2001, "carol");
	users_learn(u, 0, 2002, "");
	expect(u, 59, 2001, "carol");
	expect(u, 59, 2002, "uid 2002");
	assert_int_equal(wanted(u, 59), 0);
	expect(u, 61, 2002, "uid 2002");
	assert_int_equal(wanted(u, 61), 2002);
	users_learn(u, 61 * CLOCK_NS_PER_S, 2002,
		    "d\xff"
		    "ave");
	expect(u, 601, 2001, "carol");
	assert_int_equal(wanted(u, 601), 2001);
	users_learn(u, 601 * CLOCK_NS_PER_S, 2001, "caroline");
	expect(u, 601, 2001, "caroline");
	expect(u, 601, 2002, "d?ave");
	users_free(u);
}

/* One that nobody answers does not keep the others waiting for ever, and the answer may come late.
 */
TEST(a_silent_service_holds_up_nobody_for_long)
{
	struct users *u = users_new();

	write_file("");
	expect(u, 1, 2001, "uid 2001");
	expect(u, 1, 2002, "uid 2002");
	assert_int_equal(wanted(u, 1), 2001);
	assert_int_equal(wanted(u, 10), 0);
	assert_int_equal(wanted(u, 11), 2002);
	users_learn(u, 12 * CLOCK_NS_PER_S, 2001, "carol");
	expect(u, 12, 2001, "carol");
	assert_int_equal(wanted(u, 12), 0); /* 2002 is being asked for */
	users_free(u);
}

/* Uids are cheap: what is wanted, and what is kept, has a limit, and those within it are right. */
TEST(many_users_have_their_own_names)
{
	enum { MANY = 10000 };
	struct users *u = users_new();
	unsigned asked = 0;
	char name[16];

	write_file("");
	for (uid_t uid = 5000; uid < 5000 + MANY; uid++) {
		snprintf(name, sizeof(name), "uid %u", (unsigned)uid);
		expect(u, 1, uid, name);
	}
	for (uid_t uid; (uid = wanted(u, 1)) != 0; asked++) {
		snprintf(name, sizeof(name), "n%u", (unsigned)uid);
		users_learn(u, CLOCK_NS_PER_S, uid, name);
		expect(u, 1, uid, name);
	}
	assert_in_range(asked, 1, 256);
	for (uid_t uid = 5000 + MANY; uid > 5000; uid--) {
		snprintf(name, sizeof(name), "n%u", (unsigned)uid);
		users_learn(u, CLOCK_NS_PER_S, uid, name);
	}
	expect(u, 1, 5001, "n5001");
	expect(u, 1, 5500, "n5500");
	expect(u, 1, 5000 + MANY, "uid 15000"); /* forgotten, and asked for again */
	assert_int_equal(wanted(u, 1), 5000 + MANY);
	users_free(u);
}

TEST_GROUP(begin, end)
