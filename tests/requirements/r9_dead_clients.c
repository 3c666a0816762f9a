/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "tests/requirements/requirement.h"
#include "tests/system/footprint.h"
#include "tests/system/raw.h"
#include "tests/system/recorder.h"

/* R9: a descriptor that the granter keeps keeps a dead process's GPU memory. So it keeps none of
 * those who have ended, however they did, and none of a lease that is over. */

enum {
	FREED_MS = 1000,
	CHILDREN = 8,
	GRANTS_PER_LEASE = 1000,
	ROOT_HANDLE = 0xc1d00001,
	GRANTER = 2,
	/* of a footprint */
};

static uint32_t next_object(void)
{
	static uint32_t object = 0x5c100000;

	return object++;
}

static void hold(struct recorder *r, struct fixture *f)
{
	const struct gpuctr_capture_options options = recorder_options();

	recorder_connect(r, f, USER_ANN);
	recorder_open(r, &options);
	recorder_until(r, &r->ready);
}

static void let_go(struct recorder *r)
{
	recorder_close(r);
	assert_int_equal(r->end_code, 0);
	recorder_disconnect(r);
}

/* --- no descriptor stays --- */

static void expect_granted(struct raw_answer answer, size_t i)
{
	if (!answer.granted) {
		fail_msg("grant %zu of a lease is refused: %d, status 0x%x", i, answer.code,
			 (unsigned)answer.status);
	}
}

static size_t grant_many(struct fixture *f, int device, size_t n)
{
	struct recorder r;

	hold(&r, f);
	for (size_t i = 0; i < n; i++) {
		const struct wire_message m =
			raw_permission(recorder_token(&r), ROOT_HANDLE, next_object());

		expect_granted(raw_ask_patiently(f, USER_ANN, &m, device), i);
	}
	let_go(&r);
	return n;
}

SYSTEM_TEST(grants_leave_no_descriptor)
{
	size_t grants = requirement_amount(100000, 1000000), n = 0;
	int device = raw_control_device();
	struct fixture *f = *state;
	struct footprint before;
	long grown;

	fixture_limit(3000);
	fixture_start_daemon(f, "--set", "log-level=info", NULL);
	expect_service(f, PATIENCE_MS);
	grant_many(f, device, 2 * GRANTS_PER_LEASE); /* until all is warm */
	sleep_ms(200); /* until the daemon has seen the last of them go */
	footprint_take(f, &before);
	while (n < grants) {
		n += grant_many(f, device, GRANTS_PER_LEASE);
	}
	close(device); /* and with it our own client */
	grown = expect_no_leak(f, &before);
	requirement_figure("R9", "%zu grants: 0 surplus descriptors, %ld KiB more memory", n,
			   grown);
}

/* --- the dead --- */

/* A program of Ann's that has an object, and nothing else to do. */
static pid_t start_child(struct fixture *f, const char *token, int ready)
{
	const struct wire_message m = raw_permission(token, ROOT_HANDLE, next_object());
	pid_t pid = fork();
	int device;

	if (pid != 0) {
		assert_true(pid > 0);
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	device = raw_control_device();
	if (!raw_ask(f, USER_ANN, &m, device).granted || write(ready, "g", 1) != 1) {
		_exit(1);
	}
	pause();
	_exit(0);
}

static void start_children(struct fixture *f, const char *token, pid_t pids[CHILDREN])
{
	char word;
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	for (size_t i = 0; i < CHILDREN; i++) {
		pids[i] = start_child(f, token, ends[1]);
		assert_int_equal(read(ends[0], &word, 1), 1);
	}
	close(ends[0]);
	close(ends[1]);
}

static void kill_all(const pid_t pids[CHILDREN])
{
	for (size_t i = 0; i < CHILDREN; i++) {
		kill(pids[i], SIGKILL);
	}
	for (size_t i = 0; i < CHILDREN; i++) {
		assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
	}
}

/* The granter's, but for its own few. */
static size_t kept_by_granter(struct fixture *f)
{
	struct footprint now;

	footprint_take(f, &now);
	return now.of[GRANTER].descriptors;
}

SYSTEM_TEST(the_dead_keep_no_descriptor)
{
	size_t rounds = requirement_amount(25, 1000);
	struct fixture *f = *state;
	uint64_t worst = 0;
	struct recorder r;
	size_t before;

	fixture_need_root_to_look();
	fixture_limit(3000);
	fixture_start_daemon(f, NULL);
	hold(&r, f);
	before = kept_by_granter(f);
	for (size_t i = 0; i < rounds; i++) {
		pid_t pids[CHILDREN];
		uint64_t begin;

		start_children(f, recorder_token(&r), pids);
		assert_int_equal(kept_by_granter(f), before + 2 * CHILDREN); /* and who has each */
		begin = clock_now_ns();
		kill_all(pids);
		while (kept_by_granter(f) != before) {
			assert_true(clock_now_ns() - begin < PATIENCE_MS * CLOCK_NS_PER_MS);
		}
		begin = clock_now_ns() - begin;
		worst = begin > worst ? begin : worst;
	}
	let_go(&r);
	expect_no_objects(f);
	if (requirement_times_hold()) {
		assert_true(worst < FREED_MS * CLOCK_NS_PER_MS);
	}
	requirement_figure("R9", "%zu programs killed: their files are let go within %.1f ms",
			   rounds * CHILDREN, (double)worst / 1e6);
}
