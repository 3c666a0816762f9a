/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>

#include "tests/unit/launches_fixture.h"

/* A signal handler launches while its thread is in a callback of ours, at the instants at which the
 * thread has the context's lock and is in no launch that it has noted. */

enum instant { NEVER, LOCKED, UNLOCKING };

static enum instant instant;

static void launch(void)
{
	enter(LAUNCH);
	leave(LAUNCH, CUDA_SUCCESS);
}

/* In libc's place, for the agent. */
static void interrupt_at(enum instant now, const pthread_mutex_t *m)
{
	if (instant == now && r && m == &r->gate.lock.mutex) {
		instant = NEVER;
		launch();
	}
}

int pthread_mutex_trylock(pthread_mutex_t *m)
{
	int (*real)(pthread_mutex_t *) =
		(int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_trylock");
	int result = real(m);

	if (result == 0) {
		interrupt_at(LOCKED, m);
	}
	return result;
}

int pthread_mutex_unlock(pthread_mutex_t *m)
{
	int (*real)(pthread_mutex_t *) =
		(int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_unlock");

	interrupt_at(UNLOCKING, m);
	return real(m);
}

LAUNCHES_TEST(a_launch_by_a_signal_handler_waits_for_nobody)
{
	static const enum instant instants[] = { LOCKED, UNLOCKING };

	for (size_t i = 0; i < ARRAY_SIZE(instants); i++) {
		instant = instants[i];
		launch();
		assert_int_equal(instant, NEVER);
		assert_int_equal(n_opened, i + 1);
		assert_int_equal(n_closed, i + 1);
		assert_int_equal(atomic_load(&c->counters.seen), 2 * (i + 1));
		assert_int_equal(atomic_load(&c->counters.unready), i + 1);
		expect_unlocked();
	}
	assert_int_equal(atomic_load(&c->patience.spent_ns), 0);
}

/* The range that is open meanwhile counts the handler's kernel as well. */
LAUNCHES_TEST(a_range_that_is_interrupted_is_disturbed)
{
	instant = LOCKED;
	enter(LAUNCH);
	assert_true(gate_is_disturbed(&r->gate));
	leave(LAUNCH, CUDA_SUCCESS);
}

static void close_with_a_launch_in_it(struct capture *capture, struct ranges *ranges,
				      struct section *v, bool launched)
{
	if (n_closed++ == 0) {
		launch();
	}
	(void)capture;
	(void)ranges;
	(void)v;
	(void)launched;
}

/* It may hold a lock that the handler's launch would want. */
LAUNCHES_TEST(a_signal_handler_launches_while_a_launch_is_noted)
{
	const struct method interrupted = { .open = open_one,
					    .close = close_with_a_launch_in_it,
					    .beside = true };

	c->method = &interrupted;
	launch();
	assert_int_equal(n_opened, 1);
	assert_int_equal(n_closed, 1);
	c->method = &method;
}
