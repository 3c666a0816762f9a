/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "client/agent/copy_gate.h"
#include "proto/base/clock.h"

enum { THREADS = 4, TURNS = 200 };

static atomic_int within;
static atomic_bool over, has_entered;

static void pause_ms(unsigned ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000L }, NULL);
}

static int begin(void **state)
{
	(void)state;
	atomic_store(&within, 0);
	atomic_store(&over, false);
	atomic_store(&has_entered, false);
	copy_gate_begin();
	return 0;
}

static void *copy_all_the_time(void *unused)
{
	struct copy_pass p = { 0 };

	(void)unused;
	while (!atomic_load(&over)) {
		copy_gate_enter(&p);
		copy_gate_enter(&p); /* a copy within a copy */
		atomic_fetch_add(&within, 1);
		atomic_fetch_sub(&within, 1);
		copy_gate_leave(&p);
		copy_gate_leave(&p);
	}
	return NULL;
}

TEST_WITH(nobody_is_within_while_it_is_closed, begin, NULL)
{
	pthread_t threads[THREADS];

	for (size_t i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_create(&threads[i], NULL, copy_all_the_time, NULL), 0);
	}
	for (int i = 0; i < TURNS; i++) {
		if (copy_gate_close()) { /* else a thread was stopped within for long */
			for (int k = 0; k < 1000; k++) {
				assert_int_equal(atomic_load(&within), 0);
			}
		}
		copy_gate_open();
	}
	atomic_store(&over, true);
	for (size_t i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
	}
}

static void *enter_once(void *argument)
{
	struct copy_pass *p = argument;

	copy_gate_enter(p);
	atomic_store(&has_entered, true);
	return NULL;
}

TEST_WITH(who_comes_meanwhile_waits, begin, NULL)
{
	struct copy_pass p = { 0 };
	pthread_t thread;

	assert_true(copy_gate_close());
	assert_int_equal(pthread_create(&thread, NULL, enter_once, &p), 0);
	pause_ms(30);
	assert_false(atomic_load(&has_entered));
	copy_gate_open();
	pthread_join(thread, NULL);
	assert_true(atomic_load(&has_entered));
	copy_gate_leave(&p);
	assert_true(copy_gate_close());
	copy_gate_open();
}

/* A copy may wait for a GPU that waits for the thread that closes. */
TEST_WITH(who_stays_within_is_not_waited_for_long, begin, NULL)
{
	struct copy_pass p = { 0 };

	copy_gate_enter(&p);
	assert_false(copy_gate_close());
	copy_gate_open();
	copy_gate_leave(&p);
	assert_true(copy_gate_close());
	copy_gate_open();
}

/* A gate that is never opened, because a thread hangs within CUPTI, stops nobody for good. */
TEST_WITH(who_waits_does_not_wait_for_ever, begin, NULL)
{
	struct copy_pass p = { 0 };
	pthread_t thread;

	assert_true(copy_gate_close());
	assert_int_equal(pthread_create(&thread, NULL, enter_once, &p), 0);
	pthread_join(thread, NULL);
	copy_gate_leave(&p);
	copy_gate_open();
}

TEST_WITH(a_child_is_not_held_for_its_parent, begin, NULL)
{
	struct copy_pass p = { 0 };
	pthread_t thread;

	assert_true(copy_gate_close());
	copy_gate_forget();
	assert_int_equal(pthread_create(&thread, NULL, enter_once, &p), 0);
	pause_ms(300); /* less than what it is held for */
	assert_true(atomic_load(&has_entered));
	pthread_join(thread, NULL);
	copy_gate_leave(&p);
}

/* CUPTI itself copies, within the call for which the gate is closed. */
TEST_WITH(who_closes_it_passes, begin, NULL)
{
	struct copy_pass p = { 0 };
	uint64_t begin_ns;

	assert_true(copy_gate_close());
	begin_ns = clock_now_ns();
	copy_gate_enter(&p);
	assert_true(clock_now_ns() < begin_ns + 500 * CLOCK_NS_PER_MS); /* others: 1 s */
	copy_gate_leave(&p);
	copy_gate_open();
}

/* Of such a call CUPTI told no end, or no beginning. */
TEST_WITH(who_was_within_in_an_earlier_subscription_is_forgotten, begin, NULL)
{
	struct copy_pass p = { 0 }, q = { 0 };

	copy_gate_enter(&p);
	copy_gate_begin();
	assert_true(copy_gate_close());
	copy_gate_open();
	copy_gate_leave(&p);
	copy_gate_leave(&q);
	copy_gate_enter(&q);
	assert_false(copy_gate_close());
	copy_gate_open();
	copy_gate_leave(&q);
}
