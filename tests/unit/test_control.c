/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <stdatomic.h>

#include "client/agent/control.h"
#include "client/agent/thread.h"
#include "proto/base/clock.h"

static atomic_uint n_looks;
static _Atomic pid_t worked_in;

static void note_thread(void *argument)
{
	atomic_store(&worked_in, thread_number());
	*(bool *)argument = true;
}

static void look(void *userdata)
{
	assert_ptr_equal(userdata, &n_looks);
	atomic_fetch_add(&n_looks, 1);
}

static void wait_for_looks(unsigned n)
{
	while (atomic_load(&n_looks) < n) {
		thread_pause(CLOCK_NS_PER_MS);
	}
}

TEST(nothing_is_done_without_a_thread)
{
	bool done = false;

	assert_false(control_do(note_thread, &done, CLOCK_NS_PER_S));
	assert_false(done);
	control_end();
}

static _Atomic pid_t host;

static void *host_captures(void *argument)
{
	(void)argument;
	atomic_store(&host, thread_number());
	control_run();
	return NULL;
}

/* control_start() starts no thread of its own then, and each capture has the host again. */
TEST(a_thread_that_is_there_is_the_control_thread)
{
	for (int i = 0; i < 3; i++) {
		bool done = false;
		pthread_t thread;

		control_host();
		assert_int_equal(pthread_create(&thread, NULL, host_captures, NULL), 0);
		assert_int_equal(control_start(), 0);
		assert_true(control_do(note_thread, &done, CLOCK_NS_PER_S));
		assert_int_equal(atomic_load(&worked_in), atomic_load(&host));
		control_end();
		pthread_join(thread, NULL);
	}
}

/* A capture that never came to need it. */
TEST(the_end_may_come_before_the_thread)
{
	control_host();
	control_end();
	control_run();
}

/* A capture that cannot begin is over at once. */
TEST(the_end_may_come_as_the_thread_begins_to_look)
{
	for (int i = 0; i < 5000; i++) {
		pthread_t thread;

		control_host();
		assert_int_equal(pthread_create(&thread, NULL, host_captures, NULL), 0);
		assert_int_equal(control_start(), 0); /* it runs */
		control_watch(look, &n_looks);
		control_end();
		pthread_join(thread, NULL);
	}
	atomic_store(&n_looks, 0);
}

/* Last, because its thread ends by itself. */
TEST(one_thread_does_jobs_and_looks)
{
	bool done = false;

	atomic_store(&n_looks, 0);
	assert_int_equal(control_start(), 0);
	assert_true(control_do(note_thread, &done, CLOCK_NS_PER_S));
	assert_true(done);
	assert_int_not_equal(atomic_load(&worked_in), thread_number());
	control_watch(look, &n_looks);
	wait_for_looks(2);
	assert_true(control_do(note_thread, &done, CLOCK_NS_PER_S));
	control_end();
	assert_false(control_do(note_thread, &done, CLOCK_NS_PER_S));
}
