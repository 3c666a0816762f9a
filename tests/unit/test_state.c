/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <pthread.h>

#include "client/agent/state.h"

/* One that the program's exit has stopped while it was attaching does not begin to measure. */
TEST(a_capture_only_goes_forward)
{
	for (enum capture_state from = 0; from <= CAPTURE_OVER; from++) {
		for (enum capture_state to = 0; to <= CAPTURE_OVER; to++) {
			_Atomic(enum capture_state) at = from;

			assert_int_equal(state_move(&at, to), to > from);
			assert_int_equal(atomic_load(&at), to > from ? to : from);
		}
	}
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
