/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <string.h>
#include <time.h>

#include "client/agent/buffers.h"
#include "proto/base/clock.h"

/* Buffers for activity records. */

enum { BYTES = 1 << 20, LEAST = 1 << 16, MOST = 4, MANY = 64 };

static void sleep_ms(unsigned ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * CLOCK_NS_PER_MS }, NULL);
}

TEST(returned_ones_are_used_again)
{
	struct buffers b = { 0 };
	void *given[MOST];
	size_t bytes;

	buffers_begin(&b, BYTES, MOST);
	for (size_t i = 0; i < MOST; i++) {
		given[i] = buffers_give(&b, &bytes);
		assert_non_null(given[i]);
		assert_int_equal((uintptr_t)given[i] % 16, 0);
		memset(given[i], 1, BYTES);
	}
	assert_int_equal(b.n_given, MOST);
	buffers_take_back(&b, given[2], 10);
	assert_ptr_equal(buffers_give(&b, &bytes), given[2]);
	for (size_t i = 0; i < MOST; i++) {
		buffers_take_back(&b, given[i], 0);
	}
	buffers_end(&b);
	assert_int_equal(b.n, 0);
}

/* To refuse CUPTI one would cost memory of the GPU. */
TEST(beyond_the_most_there_are_surplus_ones)
{
	enum { SURPLUS = 1024 };
	struct buffers b = { 0 };
	void *given[MOST], *surplus[SURPLUS], *again;
	size_t bytes;

	buffers_begin(&b, LEAST, MOST); /* as large as these are */
	for (size_t i = 0; i < MOST; i++) {
		given[i] = buffers_give(&b, &bytes);
		assert_false(buffers_is_given_up(&b, given[i]));
	}
	buffers_mark(&b);
	for (size_t i = 0; i < SURPLUS; i++) {
		surplus[i] = buffers_give(&b, &bytes);
		assert_int_equal(bytes, LEAST);
		assert_true(buffers_is_given_up(&b, surplus[i]));
		/* Whoever is far behind catches up. */
		assert_int_equal(buffers_is_given_up(&b, given[0]), i >= SURPLUS / 2);
	}
	assert_null(buffers_give(&b, &bytes));
	assert_int_equal(bytes, 0);
	assert_int_equal(b.n, MOST);
	assert_int_equal(b.n_given, MOST + SURPLUS);
	assert_int_equal(b.n_marked, MOST);

	buffers_take_back(&b, surplus[0], 10); /* is no spare one */
	again = buffers_give(&b, &bytes);
	assert_true(buffers_is_given_up(&b, again));
	surplus[0] = again;
	b.forcing++; /* nor one that rests */
	for (size_t i = 0; i < SURPLUS; i++) {
		buffers_take_back(&b, surplus[i], 10);
	}
	b.forcing--;
	assert_null(buffers_give(&b, &bytes));
	for (struct timespec pause = { 2, 50000000 }; nanosleep(&pause, &pause) != 0;) {
	}
	assert_true(buffers_is_given_up(&b, again = buffers_give(&b, &bytes)));
	assert_int_equal(b.n_surplus, 1);
	buffers_take_back(&b, again, 0);
	for (size_t i = 0; i < MOST; i++) {
		buffers_take_back(&b, given[i], 0);
	}
	buffers_end(&b);
	assert_int_equal(b.n + b.n_surplus + b.n_given + b.n_marked, 0);
}

/* A record waits until the buffer is full, so buffers are as large as lasts for 250 ms. */
TEST(they_last_for_a_moment)
{
	struct buffers b = { 0 };
	void *first, *second, *third;
	size_t bytes;

	buffers_begin(&b, BYTES, MANY);
	first = buffers_give(&b, &bytes);
	assert_int_equal(bytes, LEAST);
	sleep_ms(50);
	buffers_take_back(&b, first, LEAST); /* 1.3 MB a second or less */
	first = buffers_give(&b, &bytes);
	assert_true(bytes >= LEAST && bytes <= 5 * LEAST);
	buffers_take_back(&b, first, 64 * BYTES);
	first = buffers_give(&b, &bytes);
	assert_int_equal(bytes, BYTES);
	buffers_end(&b);
	buffers_take_back(&b, first, 0); /* late, and freed */
	assert_int_equal(b.n, 0);

	buffers_begin(&b, BYTES, MANY); /* of three threads, each fills a third */
	sleep_ms(100);
	first = buffers_give(&b, &bytes);
	second = buffers_give(&b, &bytes);
	b.filled = BYTES * 3 / 4;
	b.since_ns = clock_now_ns() - 249 * CLOCK_NS_PER_MS;
	third = buffers_give(&b, &bytes);
	assert_true(bytes <= BYTES / 4);
	/* It was filled in 249 ms, unless this has taken as long. */
	assert_true(bytes > BYTES / 8 || clock_now_ns() - b.since_ns >= 2 * 249 * CLOCK_NS_PER_MS);
	assert_int_equal(bytes % 4096, 0);
	buffers_take_back(&b, first, 0);
	buffers_take_back(&b, second, 0);
	buffers_take_back(&b, third, 0);
	b.since_ns = clock_now_ns() - 600 * CLOCK_NS_PER_S; /* slow so far */
	for (size_t i = 0; i < 20; i++) {
		first = buffers_give(&b, &bytes);
		buffers_take_back(&b, first, BYTES);
	}
	first = buffers_give(&b, &bytes);
	assert_int_equal(bytes, BYTES);
	buffers_take_back(&b, first, 0);
	buffers_end(&b);
}

/* Where kernels do not end, there is room for many all the same. */
TEST(they_are_large_where_many_are_out)
{
	struct buffers b = { 0 };
	void *given[MANY];
	size_t bytes, sum = 0;

	buffers_begin(&b, BYTES, MANY);
	for (size_t i = 0; i < MANY; i++) {
		given[i] = buffers_give(&b, &bytes);
		sum += bytes;
	}
	assert_int_equal(sum, MANY / 4 * LEAST + MANY / 4 * 3 * BYTES);
	for (size_t i = 0; i < MANY; i++) {
		buffers_take_back(&b, given[i], 0);
	}
	buffers_end(&b);
}

TEST(those_before_a_mark_are_counted)
{
	struct buffers b = { 0 };
	void *old[2], *between, *newer;
	size_t bytes;

	buffers_begin(&b, BYTES, MANY);
	buffers_mark(&b);
	assert_int_equal(b.n_marked, 0);
	old[0] = buffers_give(&b, &bytes);
	old[1] = buffers_give(&b, &bytes);
	buffers_mark(&b);
	assert_int_equal(b.n_marked, 2);
	between = buffers_give(&b, &bytes);
	buffers_take_back(&b, old[1], 0);
	buffers_take_back(&b, between, 0);
	assert_int_equal(b.n_marked, 1);
	between = buffers_give(&b, &bytes);
	buffers_mark(&b);
	assert_int_equal(b.n_marked, 2);
	newer = buffers_give(&b, &bytes);
	buffers_take_back(&b, newer, 0);
	buffers_take_back(&b, old[0], 0);
	assert_int_equal(b.n_marked, 1);
	buffers_take_back(&b, between, 0);
	assert_int_equal(b.n_marked, 0);
	buffers_end(&b);
}

/* A capture that could not be ended leaves some of its own size. */
TEST(none_is_said_to_be_larger_than_it_is)
{
	struct buffers b = { 0 };
	size_t bytes;
	void *given;

	buffers_begin(&b, LEAST, MOST);
	given = buffers_give(&b, &bytes);
	buffers_take_back(&b, given, LEAST);
	buffers_begin(&b, BYTES, MOST);
	b.filled = 100 * BYTES;
	assert_ptr_equal(buffers_give(&b, &bytes), given);
	assert_int_equal(bytes, LEAST);
	buffers_take_back(&b, given, 0);
	buffers_end(&b);
	assert_int_equal(b.n, 0);
}

TEST(what_was_forced_out_rests_through_the_next_capture)
{
	struct buffers b = { 0 };
	void *given, *other;
	size_t bytes;

	buffers_begin(&b, BYTES, MOST);
	given = buffers_give(&b, &bytes);
	b.forcing++;
	buffers_take_back(&b, given, 0);
	b.forcing--;
	buffers_end(&b);
	memset(given, 1, BYTES);
	buffers_begin(&b, LEAST, 1); /* it counts, and is of another size */
	other = buffers_give(&b, &bytes);
	assert_true(buffers_is_given_up(&b, other));
	buffers_take_back(&b, other, 0);
	buffers_end(&b);
	assert_int_equal(b.n, 1);
	buffers_begin(&b, BYTES, MOST);
	other = buffers_give(&b, &bytes);
	assert_ptr_not_equal(other, given);
	sleep_ms(2050);
	assert_ptr_equal(buffers_give(&b, &bytes), given);
	b.forcing++;
	buffers_take_back(&b, given, 0);
	b.forcing--;
	buffers_take_back(&b, other, 0);
	sleep_ms(2050);
	buffers_end(&b);
	assert_int_equal(b.n, 0);
}

TEST(what_was_forced_out_is_used_again_for_want_of_others)
{
	struct buffers b = { 0 };
	void *given, *surplus;
	size_t bytes;

	buffers_begin(&b, LEAST, 1);
	given = buffers_give(&b, &bytes);
	b.forcing++;
	buffers_take_back(&b, given, 0);
	b.forcing--;
	sleep_ms(250);
	assert_ptr_equal(buffers_give(&b, &bytes), given);
	surplus = buffers_give(&b, &bytes);
	assert_true(buffers_is_given_up(&b, surplus));
	buffers_take_back(&b, surplus, 0);
	buffers_take_back(&b, given, 0);
	buffers_end(&b);
	assert_int_equal(b.n, 0);
}
