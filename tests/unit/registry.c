/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

struct registered {
	struct CMUnitTest test;
	const char *part;
};

static struct {
	struct registered *v;
	size_t n;
	const char *part;
	CMFixtureFunction setup, teardown;
} all = { .part = "" };

void unit_begin_part(const char *name)
{
	all.part = name;
}

void unit_register(const struct CMUnitTest *test)
{
	all.v = realloc(all.v, (all.n + 1) * sizeof(*all.v));
	if (!all.v) {
		abort();
	}
	all.v[all.n++] = (struct registered){ *test, all.part };
}

void unit_set_group(CMFixtureFunction setup, CMFixtureFunction teardown)
{
	all.setup = setup;
	all.teardown = teardown;
}

int unit_run_part(const char *name)
{
	struct CMUnitTest *tests = calloc(all.n + 1, sizeof(*tests));
	size_t n = 0;
	int failed;

	for (size_t i = 0; tests && i < all.n; i++) {
		if (strcmp(all.v[i].part, name) == 0) {
			tests[n++] = all.v[i].test;
		}
	}
	if (n == 0) {
		print_error("there are no tests in part '%s'\n", name);
		return 1;
	}
	cmocka_set_test_filter(getenv("GPUCTR_TEST_FILTER"));
	failed = _cmocka_run_group_tests("tests", tests, n, all.setup, all.teardown);
	free(tests);
	free(all.v);
	return failed;
}

int unit_run(void)
{
	return unit_run_part("");
}
