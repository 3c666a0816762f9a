/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/standby.h"

#include <sys/resource.h>
#include <unistd.h>

#include "tests/system/footprint.h"
#include "tests/system/raw.h"

/* Programs that wait for captures, as the daemon sees them: the test is the agents and the clients.
 * All of them are one process, whose pid the kernel tells; leases are shared, or that process of
 * root's would stand in the way of other users. */

enum { IDLE = 2000, IDLE_BYTES_MAX = 64 << 20, IDLE_BYTES_OF = 10000 };

static void start(struct fixture *f)
{
	fixture_start_daemon(f, "--set", "sharing=shared", NULL);
}

#define FIXTURE_TEST(f) TEST_WITH(f, standby_setup, standby_teardown)

/* Of the front: clock ticks that it has worked. */
static unsigned long worked(struct fixture *f)
{
	char path[64], *text;
	unsigned long user = 0, system = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)fixture_worker(f, "front"));
	text = read_file(path);
	assert_non_null(text);
	assert_int_equal(sscanf(strrchr(text, ')') + 2,
				"%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
				&system),
			 2);
	free(text);
	return user + system;
}

FIXTURE_TEST(two_thousand_cost_nearly_nothing)
{
	static struct standby_agent a[IDLE];
	struct fixture *f = *state;
	struct footprint before, after;
	struct rlimit limit;
	unsigned long begin;
	long kib;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	if (limit.rlim_max < 2 * IDLE || setrlimit(RLIMIT_NOFILE, &limit) < 0) {
		fixture_skip("not as many descriptors may be open");
	}
	start(f);
	close(standby_register(f, USER_ANN).fd);
	footprint_take(f, &before);
	for (size_t i = 0; i < IDLE; i++) {
		a[i] = standby_register(f, USER_ANN);
	}
	footprint_take(f, &after);
	begin = worked(f);
	sleep_ms(3000);
	begin = worked(f) - begin;
	kib = after.of[1].resident_kib - before.of[1].resident_kib;
	print_message("%d programs in standby: %ld KiB, %.2f KiB each; %lu ms of work in 3 s\n",
		      IDLE, kib, (double)kib / IDLE, begin * 1000 / sysconf(_SC_CLK_TCK));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_true(kib * 1024 / IDLE <= IDLE_BYTES_MAX / IDLE_BYTES_OF);
#endif
	/* A tenth of a second in three: what is looked at regularly is not looked at for each. */
	assert_true(begin * 1000 / sysconf(_SC_CLK_TCK) <= 100);
	for (size_t i = 0; i < IDLE; i++) {
		close(a[i].fd);
	}
}
