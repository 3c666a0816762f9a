/* SPDX-License-Identifier: Apache-2.0 */

/* Times of which records are missing, and what overlaps them. */

#include "tests/unit/unit.h"

#include "client/attribution/window.h"

enum { SPANS = 400, TOUCHING = 5000, REACH = 100000 };

static int64_t random_time(uint64_t *seed)
{
	return (int64_t)(unit_random(seed) % REACH);
}

/* Against a look at each. */
TEST(what_overlaps_is_found)
{
	struct window w = { .metrics = 1 };
	struct window_time spans[SPANS];
	uint64_t seed = 88172645463325252u;
	size_t found = 0;

	for (size_t i = 0; i < SPANS; i++) {
		int64_t start = (int64_t)i * REACH / SPANS + random_time(&seed) / SPANS;

		spans[i] = (struct window_time){ start, start + random_time(&seed) / 500 };
		assert_int_equal(window_add_lost(&w, spans[i].start_ns, spans[i].end_ns), 0);
	}
	for (int i = 0; i < 20000; i++) {
		int64_t start = random_time(&seed), end = start + 1 + random_time(&seed) / 2000;
		int wanted = 0;

		for (size_t k = 0; k < SPANS; k++) {
			wanted |= spans[k].start_ns < end && spans[k].end_ns > start;
		}
		assert_int_equal(window_overlaps(&w.lost, start, end), wanted);
		found += (size_t)wanted;
	}
	assert_true(found > 2000 && found < 18000);
	window_deinit(&w);
}

/* However many pieces there are without a gap: they are one time. */
TEST(times_that_touch_are_one)
{
	struct window w = { .metrics = 1 };

	for (int64_t from = 0; from <= 10 * REACH; from += 10 * REACH) {
		for (int64_t i = 0; i < TOUCHING / 2; i++) {
			assert_int_equal(window_add_away(&w, from + i * 10, from + i * 10 + 10), 0);
		}
	}
	assert_int_equal(w.away.used, 2);
	assert_true(window_overlaps(&w.away, 5, 6));
	assert_true(window_overlaps(&w.away, TOUCHING * 5 - 1, TOUCHING * 5));
	assert_false(window_overlaps(&w.away, TOUCHING * 5, 10 * REACH));
	assert_true(window_overlaps(&w.away, TOUCHING * 5, 10 * REACH + 1));
	assert_false(window_overlaps(&w.away, 10 * REACH + TOUCHING * 5, 20 * REACH));
	assert_false(window_overlaps(&w.lost, 5, 6));
	window_deinit(&w);
}
