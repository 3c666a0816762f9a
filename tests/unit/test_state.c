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

static void a_capture_only_goes_forward(void **state)
{
	(void)state;
	for (enum capture_state from = 0; from < CAPTURE_STATES; from++) {
		for (enum capture_state to = 0; to <= from; to++) {
			assert_false(may_move(from, to));
		}
	}
}

/* Whatever is left out on the way, goodbye is said, and nothing is taken for it first. */
static void every_capture_ends_with_goodbye(void **state)
{
	(void)state;
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
static void what_was_stopped_does_not_begin_to_measure(void **state)
{
	_Atomic(enum capture_state) capture = CAPTURE_ATTACHING;

	(void)state;
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

static void of_many_threads_one_moves_it(void **state)
{
	pthread_t threads[8];

	(void)state;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_capture_only_goes_forward),
		cmocka_unit_test(every_capture_ends_with_goodbye),
		cmocka_unit_test(what_was_stopped_does_not_begin_to_measure),
		cmocka_unit_test(of_many_threads_one_moves_it),
	};

	return cmocka_run_group_tests_name("state", tests, NULL, NULL);
}
