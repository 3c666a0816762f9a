/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

/* What check_skips looks at: an executable that passes, though not all of its tests ran. With an
 * argument none of them does. */

static void passes(void **state)
{
	(void)state;
}

static void has_a_reason(void **state)
{
	(void)state;
	unit_skip("the moon is full");
}

static void has_none(void **state)
{
	(void)state;
	skip();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(passes),
		cmocka_unit_test(has_a_reason),
		cmocka_unit_test(has_none),
	};

	(void)argv;
	cmocka_set_test_filter(argc > 1 ? "has_*" : "*");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
