/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/raw.h"

#include "tests/system/recorder.h"
#include "tests/system/settings.h"

/* Every key that a reload changes, from both sides: what was refused under the old value is given
 * under the new one, and refused again under the old. */

/* Ready, or refused with the code before that. */
static void expect_ready(struct recorder *r, struct fixture *f, int uid, int code)
{
	const struct gpuctr_capture_options options = recorder_options();

	recorder_connect(r, f, uid);
	recorder_open(r, &options);
	recorder_until(r, code == 0 ? &r->ready : &r->ended);
	assert_int_equal(r->end_code, code);
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
