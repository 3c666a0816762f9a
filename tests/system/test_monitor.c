/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <signal.h>
#include <unistd.h>

#include "tests/system/recorder.h"

/* What an operator sees: the counts, who may see them, and what they say after something has
 * happened. */

/* The status in JSON as uid sees it; free it. */
static char *status_json(struct fixture *f, int uid)
{
	struct program *p = fixture_client(f, uid, "status", "--json", NULL);

	expect_exit(p, 0);
	return read_file(p->out);
}

/* The number behind "key": within the object "counts"; without such a key the test fails. */
static uint64_t count_in(const char *json, const char *key)
{
	const char *counts = strstr(json, "\"counts\":{");
	char quoted[64];
	const char *place;

	snprintf(quoted, sizeof(quoted), "\"%s\":", key);
	place = counts ? strstr(counts, quoted) : NULL;
	if (!place) {
		fail_msg("no %s in the counts of %s", key, json);
	}
	return strtoull(place + strlen(quoted), NULL, 10);
}

static uint64_t count_of(struct fixture *f, const char *key)
{
	char *json = status_json(f, USER_SELF);
	uint64_t n = count_in(json, key);

	free(json);
	return n;
}

static void expect_count_soon(struct fixture *f, const char *key, uint64_t expected)
{
	uint64_t until_ms = now_ms() + PATIENCE_MS, n;

	while ((n = count_of(f, key)) != expected && now_ms() < until_ms) {
		sleep_ms(50);
	}
	assert_int_equal(n, expected);
}

static void start_daemon(struct fixture *f)
{
	fixture_start_daemon(f, "--set", "monitor-users=*", NULL);
}

static void measure(struct fixture *f, const char *kernels)
{
	expect_exit(fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, "--kernels",
				   kernels, NULL),
		    0);
}

/* --- what is counted --- */

SYSTEM_TEST(a_capture_is_counted_from_begin_to_end)
{
	struct fixture *f = *state;
	char *json;

	start_daemon(f);
	measure(f, "700");
	measure(f, "77");
	json = status_json(f, USER_SELF);
	assert_int_equal(count_in(json, "leases"), 2);
	assert_int_equal(count_in(json, "leases_active"), 0);
	assert_int_equal(count_in(json, "asked"), 2);
	assert_int_equal(count_in(json, "permissions"), 2);
	assert_int_equal(count_in(json, "records"), 777);
	assert_true(count_in(json, "record_bytes") > 777);
	assert_int_equal(count_in(json, "seen"), 777);
	assert_int_equal(count_in(json, "measured"), 777);
	assert_int_equal(count_in(json, "processes"), 0);
	assert_true(count_in(json, "connections") >= 6); /* client, agent and permission, twice */
	free(json);
}

SYSTEM_TEST(a_refusal_is_counted_by_its_reason)
{
	struct fixture *f = *state;
	char *json;

	start_daemon(f);
	for (int i = 0; i < 3; i++) {
		expect_exit(fixture_client(f, USER_ANN, "--metrics", "nosuch", "--", "true", NULL),
			    125);
	}
	expect_exit(fixture_client(f, USER_ANN, "--metrics", "memory", "--devices", "9", "--",
				   "true", NULL),
		    125);
	json = status_json(f, USER_SELF);
	assert_int_equal(count_in(json, "metric-unknown"), 3);
	assert_int_equal(count_in(json, "no-gpu"), 1);
	assert_int_equal(count_in(json, "leases"), 0);
	free(json);
}

/* The log leaves out what is too much of one user; the counts do not. */
SYSTEM_TEST(a_flood_of_refusals_is_counted_in_full)
{
	enum { FLOOD = 100 };
	struct fixture *f = *state;
	struct gpuctr_capture_options options = recorder_options();
	const char *gpu = "9";
	struct recorder r;

	start_daemon(f);
	options.gpus = &gpu;
	options.n_gpus = 1;
	recorder_connect(&r, f, USER_ANN);
	for (int i = 0; i < FLOOD; i++) {
		recorder_open(&r, &options);
		recorder_until(&r, &r.ended);
		r.ended = 0;
	}
	assert_int_equal(count_of(f, "no-gpu"), FLOOD);
	recorder_disconnect(&r);
}

SYSTEM_TEST(who_waits_is_counted_with_how_long)
{
	struct fixture *f = *state;
	struct program *first, *second;
	char *json;

	start_daemon(f);
	first = fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, "--hold",
			       "middle", NULL);
	fixture_wait_held(f, 1);
	second = fixture_client(f, USER_BOB, "--metrics", "memory", "--", FAKEAPP, "--kernels", "7",
				NULL);
	expect_text_soon(second->err, "waiting, number 1 in the queue");
	sleep_ms(300);
	json = status_json(f, USER_SELF);
	assert_int_equal(count_in(json, "leases_active"), 1);
	assert_int_equal(count_in(json, "processes"), 1);
	assert_int_equal(count_in(json, "waiting"), 1);
	assert_true(count_in(json, "longest_wait_ns") >= 300 * 1000 * 1000);
	assert_int_equal(count_in(json, "waited_ns"), 0);
	free(json);
	program_kill(first, SIGTERM);
	expect_exit(second, 0);
	json = status_json(f, USER_SELF);
	assert_int_equal(count_in(json, "waiting"), 0);
	assert_int_equal(count_in(json, "longest_wait_ns"), 0);
	assert_true(count_in(json, "waited_ns") >= 300 * 1000 * 1000);
	assert_int_equal(count_in(json, "leases"), 2);
	free(json);
}

SYSTEM_TEST(a_client_that_goes_away_is_a_cause)
{
	struct fixture *f = *state;
	struct program *client;

	start_daemon(f);
	client = fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, "--hold",
				"middle", NULL);
	fixture_wait_held(f, 1);
	program_kill(client, SIGKILL);
	expect_count_soon(f, "leases_active", 0);
	assert_int_equal(count_of(f, "disconnected"), 1);
	fixture_release(f);
}

/* --- workers --- */

static void kill_worker(struct fixture *f, const char *name)
{
	pid_t before = fixture_worker(f, name), now = before;

	kill(before, SIGKILL);
	for (int i = 0; (now == before || now <= 0) && i < 400; i++) {
		sleep_ms(50);
		now = fixture_worker(f, name);
	}
	assert_true(now > 0 && now != before);
}

/* A new front knows of the others' ends as well, and begins its own counts anew. */
SYSTEM_TEST(replaced_workers_are_counted_over_fronts)
{
	struct fixture *f = *state;

	fixture_need_root_to_look();
	start_daemon(f);
	measure(f, "5");
	kill_worker(f, "planner");
	expect_count_soon(f, "planner", 1);
	kill_worker(f, "gpu");
	expect_count_soon(f, "gpu", 1);
	kill_worker(f, "granter");
	expect_count_soon(f, "granter", 1);
	assert_int_equal(count_of(f, "leases"), 1);
	kill_worker(f, "front");
	expect_service_soon(f, 20000);
	expect_count_soon(f, "front", 1);
	assert_int_equal(count_of(f, "planner"), 1);
	assert_int_equal(count_of(f, "gpu"), 1);
	assert_int_equal(count_of(f, "granter"), 1);
}

/* --- who may see them --- */

SYSTEM_TEST(counts_are_for_monitors)
{
	struct fixture *f = *state;
	char *json;

	fixture_need_root();
	fixture_start_daemon(f, "--set", "monitor-users=1235", NULL);
	measure(f, "5");
	json = status_json(f, USER_ANN);
	assert_non_null(strstr(json, "\"counts\":null"));
	free(json);
	json = status_json(f, USER_BOB);
	assert_int_equal(count_in(json, "records"), 5);
	free(json);
	json = status_json(f, USER_SELF); /* root */
	assert_int_equal(count_in(json, "records"), 5);
	free(json);
}

/* By being a monitor alone nobody measures, and who is none learns nothing. */
SYSTEM_TEST(a_monitor_looks_and_measures_nothing)
{
	struct fixture *f = *state;
	struct program *p;
	char *json;

	fixture_need_root();
	fixture_start_strict_daemon(f, "--set", "monitor-users=1235", NULL);
	json = status_json(f, USER_BOB);
	assert_int_equal(count_in(json, "leases"), 0);
	free(json);
	p = fixture_client(f, USER_BOB, "--metrics", "memory", "--", FAKEAPP, "--kernels", "5",
			   NULL);
	expect_exit(p, 125);
	expect_message(p, "error[not-allowed]");
	expect_message(p, "uid 1235 may not measure on this machine");
	p = fixture_client(f, USER_ANN, "status", "--json", NULL);
	expect_exit(p, 1);
	expect_output(p, "");
	expect_message(p, "error[not-allowed]");
	expect_no_owner(f);
}
