/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/agent/lock.h"

/* Built with -DLOCK_ORDER in every build. */

static struct lock agent, context, other_context, leaf;

static int set_up(void **state)
{
	(void)state;
	lock_init(&agent, LOCK_AGENT);
	lock_init(&context, LOCK_CONTEXT);
	lock_init(&other_context, LOCK_CONTEXT);
	lock_init(&leaf, LOCK_LEAF);
	return 0;
}

/* In a child, which is to end by the signal; 0: it ends by itself. */
static void expect_signal(void (*f)(void), int signal)
{
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		close(STDERR_FILENO);
		f();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(WIFSIGNALED(status) ? WTERMSIG(status) : 0, signal);
	assert_true(signal != 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

static void take_in_order(void)
{
	lock_acquire(&agent);
	lock_acquire(&context);
	lock_acquire(&leaf);
	lock_release(&leaf);
	lock_release(&agent); /* in whatever order */
	lock_release(&context);
	lock_acquire(&agent);
	lock_release(&agent);
}

static void take_earlier(void)
{
	lock_acquire(&leaf);
	lock_acquire(&context);
}

static void take_the_same_kind(void)
{
	lock_acquire(&context);
	lock_acquire(&other_context);
}

static void take_between(void)
{
	lock_acquire(&agent);
	lock_acquire(&leaf);
	lock_acquire(&context);
}

static void try_earlier(void)
{
	lock_acquire(&leaf);
	if (!lock_try(&context) || lock_try(&context) ||
	    !lock_until(&agent, clock_now_ns() + CLOCK_NS_PER_S) || lock_until(&agent, 0)) {
		_exit(1);
	}
	lock_release(&agent);
	lock_release(&context);
	lock_release(&leaf);
	take_in_order();
}

static void take_under_a_tried_one(void)
{
	if (lock_try(&leaf)) {
		lock_acquire(&context);
	}
}

static void *take_agent(void *argument)
{
	(void)argument;
	lock_acquire(&agent);
	lock_release(&agent);
	return NULL;
}

static void take_in_another_thread(void)
{
	pthread_t thread;

	lock_acquire(&leaf);
	if (pthread_create(&thread, NULL, take_agent, NULL) == 0) {
		pthread_join(thread, NULL);
	}
}

TEST(kinds_that_rise_pass)
{
	expect_signal(take_in_order, 0);
	expect_signal(take_in_another_thread, 0);
}

TEST(a_wrong_order_aborts)
{
	expect_signal(take_earlier, SIGABRT);
	expect_signal(take_the_same_kind, SIGABRT);
	expect_signal(take_between, SIGABRT);
}

/* Their waiting ends by itself; what is waited for while they are held is looked at. */
TEST(tries_may_break_the_order)
{
	expect_signal(try_earlier, 0);
	expect_signal(take_under_a_tried_one, SIGABRT);
}

TEST_GROUP(set_up, NULL)
