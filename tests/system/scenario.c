/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/scenario.h"

#include <limits.h>
#include <sys/wait.h>

#include "tests/system/on_demand.h"

enum { SCENARIO_LIMIT_S = 240, SCENARIO_SKIPPED = 77, ARGUMENTS_MAX = 16 };

/* Interpreters and shells leave memory at their end, which is no finding of ours. */
struct program *scenario_start(struct fixture *f, const char *script, ...)
{
	const char *argv[ARGUMENTS_MAX] = { "/usr/bin/env", "python3" };
	char path[PATH_MAX];
	size_t n = 2;
	bool checked = fixture_check_leaks(false);
	struct program *p;
	va_list ap;

	snprintf(path, sizeof(path), "%s/tests/system/%s", TEST_SOURCE, script);
	argv[n++] = path;
	va_start(ap, script);
	do {
		assert_true(n < ARGUMENTS_MAX);
		argv[n] = va_arg(ap, const char *);
	} while (argv[n++]);
	va_end(ap);
	p = fixture_runv(f, USER_SELF, argv);
	fixture_check_leaks(checked);
	return p;
}

void scenario_end(struct program *p)
{
	fixture_limit(SCENARIO_LIMIT_S);
	while (program_is_running(p)) {
		sleep_ms(10);
	}
	if (p->status != 0 || count_text(p->out, "SKIP: ") > 0) {
		char *out = read_file(p->out), *err = read_file(p->err);

		print_message("%s%s", out, err);
		free(out);
		free(err);
	}
	if (WIFEXITED(p->status) && WEXITSTATUS(p->status) == SCENARIO_SKIPPED) {
		fixture_skip("what it needs is not installed, as is said above");
	}
	expect_exit(p, 0);
}

struct program *scenario_standby(struct fixture *f, const char *program)
{
	struct program *p =
		fixture_client(f, USER_SELF, "standby", "--", program, SCENARIO_LONG_RUN, NULL);

	on_demand_wait_listed(f, USER_SELF, p, "");
	return p;
}
