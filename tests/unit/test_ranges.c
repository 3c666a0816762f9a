/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/ranges_fixture.h"

/* Batches, passes and images of contexts, by what CUPTI (ranges_gpu.h) is asked for, and by what is
 * handed over to be delivered. */

/* --- images --- */

/* The first one is what the object is configured with: what has no room there is lost. */
static void images_have_room_for_the_batches_of_their_pass(void **state)
{
	(void)state;
	gpu.dear[0] = gpu.dear[2] = true;
	capture(3, 500000);
	launch_many(64 + 256 + 64 + 1);
	assert_int_equal(r->size, 256);
	assert_int_equal(r->images[0].ranges, 256);
	assert_int_equal(r->images[1].ranges, 256);
	assert_int_equal(r->images[2].ranges, 64);
	assert_int_equal(delivered.last_size[0], 64);
	assert_int_equal(delivered.last_size[1], 256);
	assert_int_equal(delivered.last_size[2], 64);
	finish();
}

static void a_pass_that_was_dear_keeps_its_image(void **state)
{
	(void)state;
	gpu.dear[0] = gpu.dear[2] = true;
	capture(3, 500000);
	gpu.dear[0] = gpu.dear[2] = false; /* as it turns out */
	launch_many(64);
	while (delivered.n_batches[2] < 2) {
		launch_many(1);
	}
	assert_int_equal(choosing_batch_size(&c.choosing, 2, r->size), r->size);
	assert_int_equal(r->size, 256);
	assert_int_equal(delivered.last_size[0], 256);
	assert_int_equal(delivered.last_size[2], 64);
	finish();
}

/* And what is told of the budget is what there is room for. */
static void the_budget_knows_how_long_a_batch_is(void **state)
{
	(void)state;
	gpu.dear[0] = gpu.dear[2] = true;
	capture(3, 500000);
	gpu.dear[0] = gpu.dear[2] = false;
	while (delivered.n_batches[1] < 2) {
		launch_many(1);
	}
	launch_many(1);
	assert_int_equal(r->measured_pass, 2);
	assert_int_equal(c.choosing.budget.room, 64);
	assert_int_equal(c.choosing.budget.pass, 2);
	finish();
}

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

/* Of dear passes batches begin larger, if images are not too large for that. */
static void expect_first_size(size_t least, size_t most)
{
	size_t largest;

	launch_many(2 * 64);
	assert_in_range(r->size, least, most);
	assert_int_equal(r->images[0].ranges, r->size);
	if (r->size > BUDGET_SIZE_FIRST) {
		assert_true(bytes_of_all_images(&largest) <= RANGES_IMAGES_BYTES_MAX);
		assert_true(largest <= RANGES_IMAGE_BYTES_MAX);
	}
	finish();
}

static void large_images_make_first_batches_smaller(void **state)
{
	(void)state;
	gpu.dear[0] = true;
	gpu.bytes_a_range[1] = 64 << 10;
	capture(3, 500000);
	expect_first_size(105, 112);
}

static void many_images_make_first_batches_smaller(void **state)
{
	(void)state;
	gpu.dear[0] = true;
	for (size_t i = 0; i < PASSES_MAX; i++) {
		gpu.bytes_a_range[i] = 16 << 10;
	}
	capture(PASSES_MAX, 500000);
	expect_first_size(105, 112);
}

static void first_batches_have_a_least_size(void **state)
{
	(void)state;
	gpu.dear[0] = true;
	gpu.bytes_a_range[2] = 200 << 10;
	capture(3, 500000);
	expect_first_size(BUDGET_SIZE_FIRST, BUDGET_SIZE_FIRST);
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
		assert_true(r->images[0].ranges == size);
		assert_true(size == first ||
			    (bytes_of_all_images(&largest) <= RANGES_IMAGES_BYTES_MAX &&
			     largest <= RANGES_IMAGE_BYTES_MAX));
	}
	assert_true(n > 1);
	assert_int_equal(gpu.n_enabled, n); /* one object each */
	assert_int_equal(size, last);
	for (uint32_t i = 0; i < c.passes.n; i++) {
		assert_int_equal(delivered.last_size[i], last);
		assert_in_range(delivered.n_batches[i] * c.passes.n * 10,
				8 * (delivered.n_batches[0] * c.passes.n),
				12 * (delivered.n_batches[0] * c.passes.n));
	}
	finish();
}

static void batches_of_several_passes_grow(void **state)
{
	(void)state;
	capture(3, 500000);
	expect_growth(64, 2048);
}

static void batches_grow_as_long_as_images_have_room(void **state)
{
	(void)state;
	gpu.bytes_a_range[1] = 32 << 10;
	capture(2, 500000);
	expect_growth(64, 223); /* of a head and 7 MiB */
}

static void without_a_budget_batches_grow_too(void **state)
{
	(void)state;
	gpu.bytes_a_range[0] = 32 << 10;
	capture(1, 0);
	expect_growth(64, 223);
}

/* --- turns --- */

/* From the last launch of a batch on they are chosen for the next one's pass; what that one has
 * cost is its own pass's. */
static void a_full_batch_gives_the_turn_away(void **state)
{
	(void)state;
	capture(3, 500000);
	for (uint32_t i = 0; i < 6; i++) {
		launch_many(63);
		assert_int_equal(r->pass, i % 3);
		assert_int_equal(c.choosing.budget.next, i % 3);
		launch_many(1);
		assert_int_equal(r->measured_pass, i % 3);
		assert_int_equal(r->pass, (i + 1) % 3);
		assert_int_equal(c.choosing.budget.next, (i + 1) % 3);
		assert_int_equal(c.choosing.budget.ranges[i % 3].n, 64 * (i / 3 + 1));
	}
	finish();
}

/* One that is full has given it away before. */
static void a_batch_that_ends_early_gives_it_away_once(void **state)
{
	uint64_t began_ns = made_clock.now_ns;

	(void)state;
	capture(3, 500000);
	launch_many(10);
	assert_in_range(r->batch_begin_ns, began_ns, made_clock.now_ns - 9 * MS);
	assert_true(ranges_flush(&c, r));
	assert_int_equal(r->pass, 1);
	launch_many(64);
	assert_int_equal(r->pass, 2);
	assert_true(ranges_flush(&c, r));
	assert_int_equal(r->pass, 2);
	assert_true(ranges_flush(&c, r)); /* of nothing */
	assert_int_equal(r->pass, 2);
	finish();
}

/* Contexts of a process that is over soon have not all measured the same. */
static void contexts_begin_with_different_passes(void **state)
{
	(void)state;
	capture(2, 500000);
	add_context(1);
	add_context(2);
	for (size_t i = 0; i < CONTEXTS; i++) {
		assert_int_equal(contexts[i].pass, i % 2);
		assert_true(launch_in(&contexts[i]));
		assert_int_equal(contexts[i].measured_pass, i % 2);
	}
	finish();
}

/* A pass is left out by a turn without a range. */
static void a_pass_that_is_left_out_is_paid_for(void **state)
{
	(void)state;
	capture(3, 500000);
	r->pass = 2;
	launch_many(64);
	assert_int_equal(gpu.n_starts, 3);
	assert_int_equal(r->measured_pass, 2);
	launch_many(1);
	assert_int_equal(r->measured_pass, 0);
	assert_int_equal(delivered.last_size[2], 64);
	assert_int_equal(delivered.n_batches[0] + delivered.n_batches[1], 0);
	expect_all_noted();
	finish();
}

/* Another thread gives the GPU work between two of the calls, of which the next would wait. */
static void nobody_waits_between_passes_that_are_left_out(void **state)
{
	(void)state;
	capture(3, 500000);
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
	expect_all_noted();
	finish();
}

/* Nor when a batch is full, or a context is new. */
static void nothing_is_started_while_the_gpu_works(void **state)
{
	(void)state;
	capture(1, 0);
	streams_touch(&r->guard.streams, STREAM);
	gpu.at_work = true;
	assert_false(launch());
	assert_null(r->object);
	gpu.at_work = false;
	made_clock.now_ns += 10 * CLOCK_NS_PER_S;
	launch_many(64);
	gpu.at_work = true;
	assert_false(launch());
	assert_false(ranges_flush(&c, r));
	assert_false(ranges_disable(&c, r));
	assert_int_equal(delivered.n, 0);
	gpu.at_work = false;
	launch_many(1);
	assert_int_equal(delivered.n, 64);
	finish();
}

/* A batch that is full stays until its turn is paid for. */
static void turns_keep_the_budget(void **state)
{
	uint64_t since_ns, before_ns;

	(void)state;
	capture(2, 10000);
	while (made_clock.now_ns < 1020 * CLOCK_NS_PER_S) {
		launch();
	}
	since_ns = made_clock.now_ns;
	before_ns = gpu.profiling_ns;
	while (made_clock.now_ns < 1060 * CLOCK_NS_PER_S) {
		launch();
	}
	assert_true(gpu.profiling_ns > before_ns);
	assert_true(gpu.profiling_ns - before_ns < (made_clock.now_ns - since_ns) / 100);
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RANGES_TEST(images_have_room_for_the_batches_of_their_pass),
		RANGES_TEST(a_pass_that_was_dear_keeps_its_image),
		RANGES_TEST(the_budget_knows_how_long_a_batch_is),
		RANGES_TEST(large_images_make_first_batches_smaller),
		RANGES_TEST(many_images_make_first_batches_smaller),
		RANGES_TEST(first_batches_have_a_least_size),
		RANGES_TEST(batches_of_several_passes_grow),
		RANGES_TEST(batches_grow_as_long_as_images_have_room),
		RANGES_TEST(without_a_budget_batches_grow_too),
		RANGES_TEST(a_full_batch_gives_the_turn_away),
		RANGES_TEST(a_batch_that_ends_early_gives_it_away_once),
		RANGES_TEST(contexts_begin_with_different_passes),
		RANGES_TEST(a_pass_that_is_left_out_is_paid_for),
		RANGES_TEST(nobody_waits_between_passes_that_are_left_out),
		RANGES_TEST(nothing_is_started_while_the_gpu_works),
		RANGES_TEST(turns_keep_the_budget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
