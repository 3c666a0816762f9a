/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "tests/requirements/requirement.h"
#include "tests/system/raw.h"
#include "tests/system/recorder.h"

/* R7: counters of a whole GPU would show what another user computes on it. While somebody else has
 * a process there nothing is granted; when one appears, the holder's lease is taken back within
 * half a second, and with it what was granted. */

enum { REVOKED_MS = 500, ROUNDS_MAX = 1000 };

/* A process of uid that only lives. */
static struct program *live(struct fixture *f, int uid)
{
	return fixture_run(f, uid, "/bin/sleep", "1000", NULL);
}

static bool is_granted(struct fixture *f, const char *token, int device)
{
	static uint32_t object = 0x5c100000;
	const struct wire_message m = raw_permission(token, 0xc1d00001, object++);

	return raw_ask_patiently(f, USER_ANN, &m, device).granted;
}

static void hold(struct recorder *r, struct fixture *f)
{
	const struct gpuctr_capture_options options = recorder_options();

	recorder_connect(r, f, USER_ANN);
	recorder_open(r, &options);
	recorder_until(r, &r->ready);
}

/* --- in time --- */

/* How long the holder was still granted objects once Bob had a context. */
static unsigned revoke_once(struct fixture *f, pid_t bob, int device)
{
	struct recorder r;
	char token[64];
	uint64_t begin;
	unsigned ms;

	hold(&r, f);
	snprintf(token, sizeof(token), "%s", recorder_token(&r));
	assert_true(is_granted(f, token, device));
	begin = now_ms();
	fixture_set_process(f, 0, bob);
	while (is_granted(f, token, device)) {
		assert_true(now_ms() - begin < PATIENCE_MS);
		sleep_ms(2);
	}
	ms = (unsigned)(now_ms() - begin);
	recorder_until(&r, &r.ended);
	assert_int_equal(r.end_code, GPUCTR_E_REVOKED);
	assert_non_null(strstr(r.end_message, "uid 1235"));
	for (int i = 0; i < 10; i++) {
		assert_false(is_granted(f, token, device));
	}
	recorder_disconnect(&r);
	return ms;
}

static void expect_refused_beside(struct fixture *f)
{
	const struct gpuctr_capture_options options = recorder_options();
	struct recorder r;

	recorder_connect(&r, f, USER_ANN);
	recorder_open(&r, &options);
	recorder_until(&r, &r.ended);
	assert_false(r.ready);
	assert_int_equal(r.end_code, GPUCTR_E_GPU_SHARED);
	recorder_disconnect(&r);
}

SYSTEM_TEST(a_stranger_ends_the_lease_in_time)
{
	size_t rounds = requirement_amount(20, ROUNDS_MAX);
	struct fixture *f = *state;
	CLEAN_FD int device = raw_control_device();
	unsigned worst = 0, sum = 0;
	struct program *bob;

	fixture_need_root();
	fixture_limit(1000);
	fixture_start_daemon(f, NULL);
	bob = live(f, USER_BOB);
	for (size_t i = 0; i < rounds; i++) {
		unsigned ms = revoke_once(f, bob->pid, device);

		worst = ms > worst ? ms : worst;
		sum += ms;
		expect_refused_beside(f);
		expect_no_owner(f);
		fixture_set_process(f, 0, 0);
	}
	requirement_figure("R7",
			   "%zu strangers: the holder is granted nothing more after %u ms (mean), "
			   "%u ms (worst); nothing is granted beside one",
			   rounds, sum / (unsigned)rounds, worst);
	if (requirement_times_hold()) {
		assert_true(sum / rounds <= REVOKED_MS);
		assert_true(worst <= 2 * REVOKED_MS); /* on a busy machine */
	}
	expect_service(f, PATIENCE_MS);
}
