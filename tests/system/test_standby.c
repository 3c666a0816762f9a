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

/* --- registering --- */

#define FIXTURE_TEST(f) TEST_WITH(f, standby_setup, standby_teardown)

FIXTURE_TEST(a_long_list_comes_in_frames)
{
	enum { MANY = 600 };
	static struct standby_agent a[MANY];
	struct fixture *f = *state;
	struct gpuctr_registered_process p = { 0 };
	int client;

	start(f);
	for (size_t i = 0; i < MANY; i++) {
		a[i] = standby_register(f, USER_ANN);
	}
	client = raw_client(f, USER_ANN);
	assert_int_equal(standby_list(client, &p), MANY);
	assert_int_equal(p.process, a[MANY - 1].id);
	for (size_t i = 0; i < MANY; i++) {
		close(a[i].fd);
	}
	close(client);
}

/* --- captures --- */

FIXTURE_TEST(three_captures_one_after_another)
{
	struct fixture *f = *state;
	struct gpuctr_registered_process p = { 0 };
	struct standby_agent a, b;
	uint32_t ids[2];
	int client, device;

	start(f);
	a = standby_register(f, USER_ANN);
	b = standby_register(f, USER_ANN);
	ids[0] = b.id; /* in the order in which they are named */
	ids[1] = a.id;
	client = raw_client(f, USER_ANN);
	device = raw_control_device();
	for (unsigned round = 1; round <= 3; round++) {
		struct wire_message m, permission;
		uint32_t id;

		standby_wish(client, 2, ids);
		id = standby_expect_ready(client);
		standby_expect_welcome(&a);
		standby_expect_welcome(&b);
		assert_int_equal(a.capture, id);
		assert_int_equal(b.number, 1);
		assert_int_equal(a.number, 2);
		m = standby_expect(client, WIRE_PROCESS);
		assert_int_equal(m.process.process, 1);
		assert_int_equal(m.process.pid, getpid());
		assert_string_equal(m.process.program, "python3");
		assert_int_equal(standby_expect(client, WIRE_PROCESS).process.process, 2);
		assert_int_equal(standby_list(client, &p), 2);
		assert_int_equal(p.capture, id);
		assert_non_null(strstr(p.holder, "capture, pid"));
		permission = raw_permission(a.token, (uint32_t)RAW_CLIENT, 0x5c0000e0);
		assert_true(raw_ask(f, USER_ANN, &permission, device).granted);

		standby_close_capture(client, id);
		standby_expect_stop(&a, 0);
		standby_expect_stop(&b, 0);
		standby_goodbye(&a, 10 * round);
		m = standby_expect(client, WIRE_PROCESS_END);
		assert_int_equal(m.process_end.process, 2);
		assert_true(m.process_end.clean);
		assert_int_equal(m.process_end.totals.measured, 10 * round);
		standby_goodbye(&b, 1);
		assert_int_equal(standby_expect(client, WIRE_PROCESS_END).process_end.process, 1);
		m = standby_expect(client, WIRE_CAPTURE_END);
		assert_int_equal(m.capture_end.code, 0);
		assert_int_equal(m.capture_end.processes, 2);
		assert_int_equal(m.capture_end.totals.measured, 10 * round + 1);
		assert_int_equal(standby_list(client, &p), 2);
		assert_int_equal(p.capture, 0);
		assert_false(raw_ask(f, USER_ANN, &permission, device).granted);
		wait_until(fixture_count(f, "objects", "0x5c0000e0") == 0);
	}
	close(device);
	close(client);
	close(a.fd);
	close(b.fd);
	expect_no_owner(f);
}

/* --- the daemon's end, and its costs --- */

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
