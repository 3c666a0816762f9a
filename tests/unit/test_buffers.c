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

static bool is_given_up(struct buffers *b, const void *data)
{
	bool given_up;

	return buffers_know(b, data, &given_up) && given_up;
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
	buffers_take_back(&b, given[2]);
	assert_ptr_equal(buffers_give(&b, &bytes), given[2]);
	for (size_t i = 0; i < MOST; i++) {
		buffers_take_back(&b, given[i]);
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
		assert_false(is_given_up(&b, given[i]));
	}
	buffers_mark(&b);
	for (size_t i = 0; i < SURPLUS; i++) {
		surplus[i] = buffers_give(&b, &bytes);
		assert_int_equal(bytes, LEAST);
		assert_true(is_given_up(&b, surplus[i]));
		/* Whoever is far behind catches up. */
		assert_int_equal(is_given_up(&b, given[0]), i >= SURPLUS / 2);
	}
	assert_null(buffers_give(&b, &bytes));
	assert_int_equal(bytes, 0);
	assert_int_equal(b.n, MOST);
	assert_int_equal(b.n_given, MOST + SURPLUS);
	assert_int_equal(b.n_marked, MOST);

	buffers_take_back(&b, surplus[0]); /* is no spare one */
	again = buffers_give(&b, &bytes);
	assert_true(is_given_up(&b, again));
	surplus[0] = again;
	b.forcing++; /* nor one that rests */
	for (size_t i = 0; i < SURPLUS; i++) {
		buffers_take_back(&b, surplus[i]);
	}
	b.forcing--;
	assert_null(buffers_give(&b, &bytes));
	for (struct timespec pause = { 2, 50000000 }; nanosleep(&pause, &pause) != 0;) {
	}
	assert_true(is_given_up(&b, again = buffers_give(&b, &bytes)));
	assert_int_equal(b.n_surplus, 1);
	buffers_take_back(&b, again);
	for (size_t i = 0; i < MOST; i++) {
		buffers_take_back(&b, given[i]);
	}
	buffers_end(&b);
	assert_int_equal(b.n + b.n_surplus + b.n_given + b.n_marked, 0);
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
	buffers_take_back(&b, old[1]);
	buffers_take_back(&b, between);
	assert_int_equal(b.n_marked, 1);
	between = buffers_give(&b, &bytes);
	buffers_mark(&b);
	assert_int_equal(b.n_marked, 2);
	newer = buffers_give(&b, &bytes);
	buffers_take_back(&b, newer);
	buffers_take_back(&b, old[0]);
	assert_int_equal(b.n_marked, 1);
	buffers_take_back(&b, between);
	assert_int_equal(b.n_marked, 0);
	buffers_end(&b);
}

TEST(what_was_forced_out_rests_through_the_next_capture)
{
	struct buffers b = { 0 };
	void *given, *other;
	size_t bytes;

	buffers_begin(&b, BYTES, MOST);
	given = buffers_give(&b, &bytes);
	b.forcing++;
	buffers_take_back(&b, given);
	b.forcing--;
	buffers_end(&b);
	memset(given, 1, BYTES);
	buffers_begin(&b, LEAST, 1); /* it counts, and is of another size */
	other = buffers_give(&b, &bytes);
	assert_true(is_given_up(&b, other));
	buffers_take_back(&b, other);
	buffers_end(&b);
	assert_int_equal(b.n, 1);
	buffers_begin(&b, BYTES, MOST);
	other = buffers_give(&b, &bytes);
	assert_ptr_not_equal(other, given);
	sleep_ms(2050);
	assert_ptr_equal(buffers_give(&b, &bytes), given);
	b.forcing++;
	buffers_take_back(&b, given);
	b.forcing--;
	buffers_take_back(&b, other);
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
	buffers_take_back(&b, given);
	b.forcing--;
	sleep_ms(250);
	assert_ptr_equal(buffers_give(&b, &bytes), given);
	surplus = buffers_give(&b, &bytes);
	assert_true(is_given_up(&b, surplus));
	buffers_take_back(&b, surplus);
	buffers_take_back(&b, given);
	buffers_end(&b);
	assert_int_equal(b.n, 0);
}
