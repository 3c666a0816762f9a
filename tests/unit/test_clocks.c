/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

#include "client/cli/clocks.h"

/* We ask at second 100 and have the last lines at second 101: what is certain of a node's clock
 * lies between. */

#define S UINT64_C(1000000000)

static void hear(struct clocks *c, const char *node, uint64_t its_ns, uint64_t begun_ns,
		 uint64_t now_ns)
{
	char *line = NULL;
	size_t n;
	FILE *f = open_memstream(&line, &n);

	assert_non_null(f);
	clocks_write(f, node, its_ns, begun_ns);
	fclose(f);
	line[strcspn(line, "\n")] = '\0';
	assert_true(clocks_read(c, line, now_ns));
	free(line);
}

static void expect(struct clocks *c, const char *text)
{
	struct buf b = { 0 };

	clocks_print(c, &b);
	assert_string_equal(buf_string(&b), text);
	buf_deinit(&b);
	clocks_deinit(c);
}

TEST(a_wrong_clock_is_told_with_what_is_certain)
{
	struct clocks c = { .asked_ns = 100 * S };

	hear(&c, "n1", 101 * S, 103 * S, 101 * S);
	hear(&c, "n2", 131 * S, 0, 102 * S);	   /* 29 to 31 s */
	hear(&c, "n2", 134 * S, 132 * S, 104 * S); /* at least 30 */
	expect(&c,
	       "n2's clock is at least 30.0 s ahead of this machine's, and so are the times in its "
	       "records\n"
	       "2 nodes began about 1.00 s apart, by their clocks less these differences\n");
	c.asked_ns = 100 * S;
	hear(&c, "n3", 41 * S, 44 * S, 101 * S);
	expect(&c,
	       "n3's clock is at least 59.0 s behind this machine's, and so are the times in its "
	       "records\n");
	c.asked_ns = 100 * S;
	hear(&c, "n4", 101 * S + 90000000, 0, 101 * S); /* 0.09 s */
	expect(&c, "");
}

TEST(other_lines_are_none)
{
	struct clocks c = { .asked_ns = 100 * S };

	assert_false(clocks_read(&c, "", 0));
	assert_false(clocks_read(&c, "clock\tn1\t5", 0));
	assert_false(clocks_read(&c, "clock\t\t5\t6", 0));
	assert_false(clocks_read(&c, "rank\tn1\t5\t6", 0));
	assert_int_equal(c.n, 0);
}
