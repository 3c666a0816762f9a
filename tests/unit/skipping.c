/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

/* What check_skips looks at: an executable that passes, though not all of its tests ran. With an
 * argument none of them does. */

TEST(passes)
{
}

TEST(has_a_reason)
{
	unit_skip("the moon is full");
}

TEST(has_none)
{
	skip();
}

int main(int argc, char **argv)
{
	(void)argv;
	setenv("GPUCTR_TEST_FILTER", argc > 1 ? "has_*" : "*", 1);
	return unit_run();
}
