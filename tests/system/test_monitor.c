/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <signal.h>

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
