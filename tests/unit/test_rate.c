/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "proto/base/clock.h"
#include "daemon/broker/rate.h"

enum { ANN = 1234, BOB = 1235 };

static const uint64_t start_ns = 1000 * CLOCK_NS_PER_S;

static unsigned take_all(struct rate *r, uid_t uid, unsigned per_minute, uint64_t now_ns)
{
	unsigned n = 0;

	while (rate_take(r, uid, per_minute, now_ns, NULL)) {
		n++;
	}
	return n;
}

TEST(a_minutes_worth_at_once_then_evenly)
{
	struct rate r = { 0 };

	assert_int_equal(take_all(&r, ANN, 120, start_ns), 120);
	assert_int_equal(take_all(&r, ANN, 120, start_ns + CLOCK_NS_PER_S), 2);
	assert_int_equal(take_all(&r, ANN, 120, start_ns + 31 * CLOCK_NS_PER_S), 60);
	assert_int_equal(take_all(&r, ANN, 120, start_ns + 1000 * CLOCK_NS_PER_S), 120);
}

TEST(users_have_a_bucket_each)
{
	struct rate r = { 0 };

	assert_int_equal(take_all(&r, ANN, 5, start_ns), 5);
	assert_int_equal(take_all(&r, BOB, 5, start_ns), 5);
	assert_false(rate_take(&r, ANN, 5, start_ns, NULL));
}

TEST(what_was_missed_is_told_once)
{
	struct rate r = { 0 };
	uint64_t missed = 99;

	take_all(&r, ANN, 1, start_ns); /* the last of them is refused */
	assert_false(rate_take(&r, ANN, 1, start_ns + 1, NULL));
	assert_true(rate_take(&r, ANN, 1, start_ns + 61 * CLOCK_NS_PER_S, &missed));
	assert_int_equal(missed, 2);
	assert_true(rate_take(&r, ANN, 1, start_ns + 122 * CLOCK_NS_PER_S, &missed));
	assert_int_equal(missed, 0);
}

/* Whoever is forgotten leaves the number of what was missed. */
TEST(what_was_missed_is_not_forgotten)
{
	struct rate r = { 0 };

	assert_int_equal(take_all(&r, ANN, 1, start_ns), 1);
	assert_false(rate_take(&r, ANN, 1, start_ns, NULL));
	for (uid_t uid = 2000; uid < 2000 + RATE_USERS_MAX; uid++) {
		assert_true(rate_take(&r, uid, 1, start_ns + 70 * CLOCK_NS_PER_S, NULL));
	}
	assert_int_equal(r.forgotten, 2);
	assert_true(rate_take(&r, ANN, 1, start_ns + 70 * CLOCK_NS_PER_S, NULL));
	assert_int_equal(r.forgotten, 2);
}

TEST(more_users_than_buckets)
{
	struct rate r = { 0 };

	assert_int_equal(take_all(&r, ANN, 100, start_ns), 100);
	for (uid_t uid = 2000; uid < 2000 + 2 * RATE_USERS_MAX; uid++) {
		assert_true(rate_take(&r, uid, 100, start_ns, NULL));
	}
	assert_false(rate_take(&r, ANN, 100, start_ns, NULL)); /* the emptiest stays known */
}
