/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/ranges_fixture.h"

/* Batches, passes and images of contexts, by what CUPTI (ranges_gpu.h) is asked for, and by what is
 * handed over to be delivered. */

/* --- images --- */

static size_t bytes_of_all_images(size_t *ret_largest)
{
	size_t sum = 0;

	*ret_largest = 0;
	for (uint32_t i = 0; i < c.passes.n; i++) {
		sum += r->images[i].size;
		*ret_largest = r->images[i].size > *ret_largest ? r->images[i].size : *ret_largest;
	}
	return sum;
}

RANGES_TEST(first_batches_have_a_least_size)
{
	gpu.bytes_a_range[2] = 200 << 10;
	capture(3);
	launch_many(64 * 100);
	assert_int_equal(r->size, 64);
	finish();
}

/* A new object has another image, and begins with the first pass again. */
static void expect_growth(size_t first, size_t last)
{
	uint64_t until_ns = made_clock.now_ns + 4000 * CLOCK_NS_PER_S;
	size_t largest, size = 0;
	unsigned n = 0;

	while (made_clock.now_ns < until_ns) {
		made_clock.now_ns += 9 * MS;
		launch();
		assert_true(r->size >= size);
		n += r->size > size;
		size = r->size;
		assert_true(size == first ||
			    (bytes_of_all_images(&largest) <= RANGES_IMAGES_BYTES_MAX &&
			     largest <= RANGES_IMAGE_BYTES_MAX));
	}
	assert_true(n > 1);
	assert_int_equal(gpu.n_enabled, n); /* one object each */
	assert_int_equal(size, last);
	for (uint32_t i = 0; i < c.passes.n; i++) {
		assert_in_range(delivered.last_size[i], last - (i == 0 ? last / 4 : 0), last);
		assert_in_range(delivered.n_batches[i] * c.passes.n * 10,
				8 * (delivered.n_batches[0] * c.passes.n),
				12 * (delivered.n_batches[0] * c.passes.n));
	}
	finish();
}

RANGES_TEST(batches_of_several_passes_grow)
{
	capture(3);
	expect_growth(64, 2048);
}

RANGES_TEST(batches_grow_as_long_as_images_have_room)
{
	gpu.bytes_a_range[1] = 32 << 10;
	capture(2);
	expect_growth(64, 223); /* of a head and 7 MiB */
}

RANGES_TEST(all_images_together_have_room)
{
	for (size_t i = 0; i < PASSES_MAX; i++) {
		gpu.bytes_a_range[i] = 16 << 10;
	}
	capture(PASSES_MAX);
	expect_growth(64, 111); /* of heads and 28 MiB */
}

RANGES_TEST(batches_of_one_pass_grow_too)
{
	gpu.bytes_a_range[0] = 32 << 10;
	capture(1);
	expect_growth(64, 223);
}

/* --- turns --- */

/* From the last launch of a batch on the next one's pass is due. */
RANGES_TEST(a_full_batch_gives_the_turn_away)
{
	capture(3);
	for (uint32_t i = 0; i < 6; i++) {
		launch_many(i == 3 ? 63 - 7 : 63); /* the first batch of a round is shorter */
		assert_int_equal(r->pass, i % 3);
		launch_many(1);
		assert_int_equal(r->measured_pass, i % 3);
		assert_int_equal(r->pass, (i + 1) % 3);
	}
	finish();
}

/* One that is full has given it away before. */
RANGES_TEST(a_batch_that_ends_early_gives_it_away_once)
{
	uint64_t began_ns = made_clock.now_ns;

	capture(3);
	launch_many(10);
	assert_in_range(r->batch_begin_ns, began_ns, made_clock.now_ns - 9 * MS);
	assert_true(method_ranges.flush(&c, r));
	assert_int_equal(r->pass, 1);
	launch_many(64);
	assert_int_equal(r->pass, 2);
	assert_true(method_ranges.flush(&c, r));
	assert_int_equal(r->pass, 2);
	assert_true(method_ranges.flush(&c, r)); /* of nothing */
	assert_int_equal(r->pass, 2);
	finish();
}

/* A program whose phase lasts as long as a round shows each pass all of it. */
RANGES_TEST(rounds_have_no_rhythm)
{
	enum { PHASE = 128 };
	bool seen[2][PHASE] = { { false } };

	gpu.bytes_a_range[0] = RANGES_IMAGE_BYTES_MAX / 64; /* they do not grow */
	capture(2);
	for (int i = 0; i < 20 * PHASE; i++) {
		launch_many(1);
		assert_int_equal(r->size, 64);
		seen[r->measured_pass][i % PHASE] = true;
	}
	for (int i = 0; i < PHASE; i++) {
		assert_true(seen[0][i] && seen[1][i]);
	}
	finish();
}

/* A pass is left out by a turn without a range. */
RANGES_TEST(a_pass_that_is_left_out_has_no_batch)
{
	capture(3);
	r->pass = 2;
	launch_many(64);
	assert_int_equal(gpu.n_starts, 3);
	assert_int_equal(r->measured_pass, 2);
	launch_many(1);
	assert_int_equal(r->measured_pass, 0);
	assert_int_equal(delivered.last_size[2], 64);
	assert_int_equal(delivered.n_batches[0] + delivered.n_batches[1], 0);
	finish();
}

/* Another thread gives the GPU work between two of the calls, of which the next would wait. */
RANGES_TEST(nobody_waits_between_passes_that_are_left_out)
{
	capture(3);
	r->pass = 2;
	gpu.gets_work = r;
	assert_false(launch());
	assert_int_equal(gpu.n_starts, 1);
	assert_int_equal(r->state, RANGES_OFF);
	assert_null(r->batch);
	gpu.at_work = false;
	launch_many(64);
	assert_int_equal(gpu.n_starts, 3);
	launch_many(1);
	assert_int_equal(delivered.last_size[2], 64);
	assert_int_equal(atomic_load(&c.counters.unready), 1);
	finish();
}

/* Nor when a batch is full, or a context is new. */
RANGES_TEST(nothing_is_started_while_the_gpu_works)
{
	capture(1);
	streams_touch(&r->guard.streams, STREAM);
	gpu.at_work = true;
	assert_false(launch());
	assert_null(r->object);
	gpu.at_work = false;
	made_clock.now_ns += 10 * CLOCK_NS_PER_S;
	launch_many(64);
	gpu.at_work = true;
	assert_false(launch());
	assert_false(method_ranges.flush(&c, r));
	assert_false(method_ranges.disable(&c, r));
	assert_int_equal(delivered.n, 0);
	gpu.at_work = false;
	launch_many(1);
	assert_int_equal(delivered.n, 64);
	finish();
}
