/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/raw.h"

#include <signal.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "tests/system/recorder.h"
#include "tests/system/settings.h"

/* Every key that a reload changes, from both sides: what was refused under the old value is given
 * under the new one, and refused again under the old. */

/* Opened, and either refused with the code or, for 0, in the queue. */
static void expect_queued(struct recorder *r, struct fixture *f, int uid, int code)
{
	const struct gpuctr_capture_options options = recorder_options();
	uint64_t by = now_ms() + PATIENCE_MS;

	recorder_connect(r, f, uid);
	recorder_open(r, &options);
	while (!r->ended && r->queued == 0 && now_ms() < by) {
		gpuctr_dispatch(r->g, 20);
	}
	assert_int_equal(r->ended, code != 0);
	assert_int_equal(r->end_code, code);
}

/* Ready, or refused with the code before that. */
static void expect_ready(struct recorder *r, struct fixture *f, int uid, int code)
{
	const struct gpuctr_capture_options options = recorder_options();

	recorder_connect(r, f, uid);
	recorder_open(r, &options);
	recorder_until(r, code == 0 ? &r->ready : &r->ended);
	assert_int_equal(r->end_code, code);
}

SYSTEM_TEST(the_length_of_the_queue)
{
	struct settings s;
	struct recorder r[5];

	settings_start_daemon(&s, *state, "allow-users = *\nqueue = 1\n");
	expect_ready(&r[0], s.f, USER_ANN, 0);
	expect_queued(&r[1], s.f, USER_ANN, 0);
	expect_queued(&r[2], s.f, USER_BOB, GPUCTR_E_QUEUE_FULL);
	settings_reload(&s, "allow-users = *\nqueue = 2\n");
	expect_queued(&r[3], s.f, USER_BOB, 0);
	settings_reload(&s, "allow-users = *\nqueue = 1\n");
	expect_queued(&r[4], s.f, USER_BOB, GPUCTR_E_QUEUE_FULL);
	recorder_for(&r[1], 20);
	recorder_for(&r[3], 20);
	assert_false(r[1].ended || r[3].ended); /* those that wait keep their places */
	for (size_t i = 0; i < ARRAY_SIZE(r); i++) {
		recorder_disconnect(&r[i]);
	}
}

SYSTEM_TEST(captures_of_a_user)
{
	struct settings s;
	struct recorder r[5];

	settings_start_daemon(&s, *state, "allow-users = *\ncaptures-per-user = 1\n");
	expect_ready(&r[0], s.f, USER_ANN, 0);
	expect_queued(&r[1], s.f, USER_ANN, GPUCTR_E_QUOTA);
	settings_reload(&s, "allow-users = *\ncaptures-per-user = 2\n");
	expect_queued(&r[2], s.f, USER_ANN, 0);
	expect_queued(&r[3], s.f, USER_ANN, GPUCTR_E_QUOTA);
	settings_reload(&s, "allow-users = *\ncaptures-per-user = 1\n");
	expect_queued(&r[4], s.f, USER_ANN, GPUCTR_E_QUOTA);
	for (size_t i = 0; i < ARRAY_SIZE(r); i++) {
		recorder_disconnect(&r[i]);
	}
}

SYSTEM_TEST(connections_of_a_user_and_of_all)
{
	struct settings s;

	fixture_need_two_users();
	settings_start_daemon(&s, *state, "allow-users = *\nconnections-per-user = 2\n");
	raw_client(s.f, USER_ANN);
	raw_client(s.f, USER_ANN);
	raw_expect_refused(raw_connect(s.f, USER_ANN), GPUCTR_E_QUOTA);
	raw_client(s.f, USER_BOB);
	settings_reload(&s, "allow-users = *\nconnections-per-user = 3\n");
	raw_client(s.f, USER_ANN);
	raw_expect_refused(raw_connect(s.f, USER_ANN), GPUCTR_E_QUOTA);
	settings_reload(&s, "allow-users = *\nconnections-per-user = 64\nconnections = 5\n");
	raw_client(s.f, USER_ANN); /* four of Ann's and one of Bob's */
	raw_expect_refused(raw_connect(s.f, USER_BOB), GPUCTR_E_QUOTA);
	settings_reload(&s, "allow-users = *\nconnections-per-user = 64\nconnections = 6\n");
	raw_client(s.f, USER_BOB);
	raw_expect_refused(raw_connect(s.f, USER_BOB), GPUCTR_E_QUOTA);
}

/* What a user has had counts for a minute, whatever the settings say by then: so under the new
 * value it is another one who asks. */
SYSTEM_TEST(captures_in_a_minute)
{
	struct settings s;
	struct recorder r;

	fixture_need_two_users();
	settings_start_daemon(&s, *state, "allow-users = *\ncaptures-per-minute = 1\n");
	expect_ready(&r, s.f, USER_ANN, 0);
	recorder_disconnect(&r);
	expect_ready(&r, s.f, USER_ANN, GPUCTR_E_QUOTA);
	recorder_disconnect(&r);
	settings_reload(&s, "allow-users = *\ncaptures-per-minute = 2\n");
	for (int i = 0; i < 3; i++) {
		expect_ready(&r, s.f, USER_BOB, i < 2 ? 0 : GPUCTR_E_QUOTA);
		recorder_disconnect(&r);
	}
}

SYSTEM_TEST(questions_in_a_minute)
{
	struct settings s;

	fixture_need_two_users();
	settings_start_daemon(&s, *state, "allow-users = *\nquestions-per-minute = 1\n");
	expect_exit(fixture_client(s.f, USER_ANN, "metrics", "--fit", "memory", NULL), 0);
	expect_exit(fixture_client(s.f, USER_ANN, "metrics", "--fit", "memory", NULL), 1);
	settings_reload(&s, "allow-users = *\nquestions-per-minute = 2\n");
	expect_exit(fixture_client(s.f, USER_BOB, "metrics", "--fit", "memory", NULL), 0);
	expect_exit(fixture_client(s.f, USER_BOB, "metrics", "--fit", "memory", NULL), 0);
	expect_exit(fixture_client(s.f, USER_BOB, "metrics", "--fit", "memory", NULL), 1);
}

/* Of r's capture, for a context or for the whole device. */
static struct raw_answer ask_permission(struct recorder *r, struct fixture *f, uint32_t object,
					bool device)
{
	struct wire_message m = raw_permission(recorder_token(r), RAW_CLIENT, object);
	CLEAN_FD int fd = raw_control_device();

	if (device) {
		m.permission_request.client_target = m.permission_request.context_target = 0;
	}
	return raw_ask(f, r->uid, &m, fd);
}

SYSTEM_TEST(permissions_in_a_minute)
{
	struct settings s;
	struct recorder r;

	fixture_need_two_users();
	settings_start_daemon(&s, *state, "allow-users = *\npermissions-per-minute = 1\n");
	expect_ready(&r, s.f, USER_ANN, 0);
	assert_int_equal(ask_permission(&r, s.f, 0x5d000001, false).code, 0);
	assert_int_equal(ask_permission(&r, s.f, 0x5d000002, false).code, GPUCTR_E_QUOTA);
	recorder_disconnect(&r);
	settings_reload(&s, "allow-users = *\npermissions-per-minute = 2\n");
	expect_ready(&r, s.f, USER_BOB, 0);
	assert_int_equal(ask_permission(&r, s.f, 0x5d000003, false).code, 0);
	assert_int_equal(ask_permission(&r, s.f, 0x5d000004, false).code, 0);
	assert_int_equal(ask_permission(&r, s.f, 0x5d000005, false).code, GPUCTR_E_QUOTA);
	recorder_disconnect(&r);
}

SYSTEM_TEST(who_may_count_whole_devices)
{
	struct settings s;
	struct recorder r;

	fixture_need_two_users();
	settings_start_daemon(&s, *state, "allow-users = *\n");
	expect_ready(&r, s.f, USER_ANN, 0);
	assert_int_equal(ask_permission(&r, s.f, 0x5d000001, true).code, GPUCTR_E_NOT_ALLOWED);
	recorder_disconnect(&r);
	settings_reload(&s, "allow-users = *\ndevice-users = 1234, 1235\n");
	expect_ready(&r, s.f, USER_ANN, 0);
	assert_true(ask_permission(&r, s.f, 0x5d000002, true).granted);
	recorder_disconnect(&r);
	expect_ready(&r, s.f, USER_BOB, 0);
	assert_true(ask_permission(&r, s.f, 0x5d000003, true).granted);
	settings_reload(&s, "allow-users = *\ndevice-users = 1234\n");
	recorder_until(&r, &r.ended); /* it was opened with what its user has no more */
	assert_int_equal(r.end_code, GPUCTR_E_REVOKED);
	recorder_disconnect(&r);
	expect_ready(&r, s.f, USER_BOB, 0);
	assert_int_equal(ask_permission(&r, s.f, 0x5d000004, true).code, GPUCTR_E_NOT_ALLOWED);
	recorder_disconnect(&r);
}

/* What is left of Ann's first lease, in seconds, begun. */
static uint64_t seconds_left(struct settings *s)
{
	struct gpuctr_capture_info info = { 0 };

	assert_true(raw_captures(s->f, USER_ANN, &info) > 0);
	return (info.lease_left_ns + CLOCK_NS_PER_S - 1) / CLOCK_NS_PER_S;
}

/* Of one that has begun and is waited for too. A test takes a minute at most, so what is left of
 * 600 s is never 300. */
SYSTEM_TEST(the_length_of_leases)
{
	static const struct {
		const char *text;
		uint64_t seconds;
	} cases[] = {
		{ "allow-users = *\nlease-max = 600\n", 600 },
		{ "allow-users = *\nlease-max = 5min\n", 300 },
		{ "allow-users = *\nlease-max = 1h\n", 3600 },
		{ "allow-users = *\n", 3600 },
	};
	struct recorder holder, next;
	struct settings s;

	settings_start_daemon(&s, *state, "allow-users = *\nlease-max = 2min\n");
	expect_ready(&holder, s.f, USER_ANN, 0);
	assert_int_equal(seconds_left(&s), 0); /* nobody waits */
	expect_queued(&next, s.f, USER_BOB, 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		settings_reload(&s, cases[i].text);
		assert_in_range(seconds_left(&s), cases[i].seconds - 60, cases[i].seconds);
	}
	recorder_disconnect(&next);
	recorder_disconnect(&holder);
}

SYSTEM_TEST(sharing)
{
	struct settings s;
	struct program *other;
	struct recorder r;
	FILE *list;

	fixture_need_two_users();
	settings_start_daemon(&s, *state, "allow-users = *\n");
	other = fixture_run(s.f, USER_BOB, "/bin/sleep", "60", NULL);
	list = fopen(fixture_path(s.f, "nvml_processes"), "w");
	assert_non_null(list);
	fprintf(list, "0 %d\n", (int)other->pid);
	fclose(list);
	expect_ready(&r, s.f, USER_ANN, GPUCTR_E_GPU_SHARED);
	recorder_disconnect(&r);
	settings_reload(&s, "allow-users = *\nsharing = shared\n");
	expect_ready(&r, s.f, USER_ANN, 0);
	recorder_for(&r, 600); /* two looks, if anybody looked */
	assert_false(r.ended);
	settings_reload(&s, "allow-users = *\nsharing = exclusive\n");
	recorder_until(&r, &r.ended);
	assert_int_equal(r.end_code, GPUCTR_E_REVOKED);
	recorder_disconnect(&r);
}

SYSTEM_TEST(owners_of_jobs)
{
	struct settings s;
	struct recorder r;

	fixture_need_root();
	settings_start_daemon(&s, *state, "allow-users = 1235\n");
	expect_exit(fixture_client(s.f, USER_SELF, "job", "begin", "--job", "1", "--user", "1234",
				   "--devices", "0", NULL),
		    0);
	expect_exit(fixture_client(s.f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, NULL), 125);
	settings_reload(&s, "allow-users = 1235\njob-owners = yes\n");
	expect_ready(&r, s.f, USER_ANN, 0);
	settings_reload(&s, "allow-users = 1235\njob-owners = no\n");
	recorder_until(&r, &r.ended);
	assert_int_equal(r.end_code, GPUCTR_E_REVOKED);
	recorder_disconnect(&r);
}

/* Nothing is written to the old file once the new settings hold. */
SYSTEM_TEST(the_audit_file)
{
	static const char granted[] = "\"event\":\"lease-granted\"";
	struct settings s;
	struct recorder r;
	char text[512], one[160], two[160];

	settings_start_daemon(&s, *state, "allow-users = *\n");
	snprintf(one, sizeof(one), "%s", fixture_path(s.f, "one"));
	snprintf(two, sizeof(two), "%s", fixture_path(s.f, "two"));
	for (int i = 0; i < 4; i++) {
		snprintf(text, sizeof(text), "allow-users = *\n%s%s\n",
			 i % 2 == 1 ? "" : "audit-file = ",
			 i % 2 == 1 ? ""
			 : i == 0   ? one
				    : two);
		settings_reload(&s, text);
		expect_ready(&r, s.f, USER_ANN, 0);
		recorder_disconnect(&r);
	}
	assert_int_equal(count_text(one, granted), 1);
	assert_int_equal(count_text(two, granted), 1);
}
