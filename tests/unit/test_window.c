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
	uint64_t seed = 88172645463325252u, overlapping = 0;
	size_t found = 0;

	for (size_t i = 0; i < SPANS; i++) {
		int64_t start = random_time(&seed);

		spans[i] = (struct window_time){ start, start + random_time(&seed) / 500 };
		assert_int_equal(window_add_lost(&w, spans[i].start_ns, spans[i].end_ns), 0);
	}
	assert_int_equal(window_sort(&w, &overlapping), 0);
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

/* Two pieces without a gap, which come backwards, one from here and one from there: they are two
 * times, and what is between them is known, however many these are. */
TEST(times_that_touch_are_one)
{
	struct window w = { .metrics = 1 };
	uint64_t overlapping = 0;

	for (int64_t i = TOUCHING; i-- > 0;) {
		int64_t from = i % 2 ? 0 : 10 * REACH;

		assert_int_equal(window_add_away(&w, from + i / 2 * 10, from + i / 2 * 10 + 10), 0);
	}
	assert_int_equal(window_sort(&w, &overlapping), 0);
	assert_int_equal(w.away.used, 2);
	assert_true(window_overlaps(&w.away, 5, 6));
	assert_true(window_overlaps(&w.away, TOUCHING * 5 - 1, TOUCHING * 5));
	assert_false(window_overlaps(&w.away, TOUCHING * 5, 10 * REACH));
	assert_true(window_overlaps(&w.away, TOUCHING * 5, 10 * REACH + 1));
	assert_false(window_overlaps(&w.away, 10 * REACH + TOUCHING * 5, 20 * REACH));
	assert_false(window_overlaps(&w.lost, 5, 6));
	window_deinit(&w);
}

enum { KERNELS = 1000, METRICS = 3 };

/* Kernels that wait for the next window have got a part of their values; those that come then may
 * have begun earlier. */
TEST(what_kernels_have_got_goes_with_them)
{
	struct window w = { .metrics = METRICS };
	uint64_t seed = 362436069, overlapping = 0;

	for (uint64_t round = 0; round < 3; round++) {
		for (uint64_t i = 0; i < KERNELS; i++) {
			int64_t start = random_time(&seed);
			const struct attribution_kernel k = { .id = round * KERNELS + i,
							      .start_ns = start,
							      .end_ns = start + 10 };

			assert_int_equal(window_add_kernel(&w, &k), 0);
			for (size_t m = 0; m < 2 * METRICS; m++) {
				w.parts[(w.kernels_used - 1) * 2 * METRICS + m] =
					(double)(k.id * 10 + m);
			}
		}
		assert_int_equal(window_sort(&w, &overlapping), 0);
		assert_int_equal(w.kernels_used, (round + 1) * KERNELS);
		for (size_t i = 0; i < w.kernels_used; i++) {
			assert_true(i == 0 ||
				    w.kernels[i - 1].k.start_ns <= w.kernels[i].k.start_ns);
			for (size_t m = 0; m < 2 * METRICS; m++) {
				assert_true(w.parts[i * 2 * METRICS + m] ==
					    (double)(w.kernels[i].k.id * 10 + m));
			}
		}
	}
	window_deinit(&w);
}
