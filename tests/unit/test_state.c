/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <pthread.h>

#include "client/agent/state.h"

static bool may_move(enum capture_state from, enum capture_state to)
{
	_Atomic(enum capture_state) state = from;
	bool moved = state_move(&state, to);

	assert_int_equal(atomic_load(&state), moved ? to : from);
	return moved;
}

TEST(a_capture_only_goes_forward)
{
	for (enum capture_state from = 0; from < CAPTURE_STATES; from++) {
		for (enum capture_state to = 0; to <= from; to++) {
			assert_false(may_move(from, to));
		}
	}
}

/* Whatever is left out on the way, goodbye is said, and nothing is taken for it first. */
TEST(every_capture_ends_with_goodbye)
{
	for (enum capture_state from = 0; from < CAPTURE_DELIVERING; from++) {
		assert_true(may_move(from, CAPTURE_DELIVERING) || may_move(from, CAPTURE_STOPPING));
		assert_false(may_move(from, CAPTURE_LEAVING));
		assert_false(may_move(from, CAPTURE_OVER));
	}
	assert_true(may_move(CAPTURE_DELIVERING, CAPTURE_LEAVING));
	assert_false(may_move(CAPTURE_DELIVERING, CAPTURE_OVER));
	assert_true(may_move(CAPTURE_LEAVING, CAPTURE_OVER));
}

/* One that the program's exit has stopped while it was attaching. */
TEST(what_was_stopped_does_not_begin_to_measure)
{
	_Atomic(enum capture_state) capture = CAPTURE_ATTACHING;

	assert_true(state_move(&capture, CAPTURE_STOPPING));
	assert_false(state_move(&capture, CAPTURE_MEASURING));
	assert_int_equal(atomic_load(&capture), CAPTURE_STOPPING);
}

static _Atomic(enum capture_state) shared;
static atomic_uint n_moved;

static void *stop(void *unused)
{
	(void)unused;
	if (state_move(&shared, CAPTURE_STOPPING)) {
		atomic_fetch_add(&n_moved, 1);
	}
	return NULL;
}

TEST(of_many_threads_one_moves_it)
{
	pthread_t threads[8];

	for (int round = 0; round < 100; round++) {
		atomic_store(&shared, CAPTURE_MEASURING);
		atomic_store(&n_moved, 0);
		for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
			assert_int_equal(pthread_create(&threads[i], NULL, stop, NULL), 0);
		}
		for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
			pthread_join(threads[i], NULL);
		}
		assert_int_equal(atomic_load(&n_moved), 1);
	}
}
