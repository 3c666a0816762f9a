/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/granter/leases.h"

/* Whom the granter watches: never a process for another that has its number. That it watches each
 * once, and as long as it has objects, is seen in the granter's box (tests/fuzz/granter_box.h). */

static struct callers callers;

static int begin(void **state)
{
	(void)state;
	callers_init(&callers);
	return 0;
}

static struct caller *add(uint32_t pid)
{
	struct caller *c = NULL;

	assert_int_equal(caller_add(&callers, pid, &c), 0);
	assert_non_null(c);
	return c;
}

static unsigned count(const struct list *all)
{
	unsigned n = 0;

	for (const struct list *i = all->next; i != all; i = i->next) {
		n++;
	}
	return n;
}

static unsigned count_watched(void)
{
	return count(&callers.watched);
}

TEST_WITH(a_number_that_is_used_again_is_another_process, begin, NULL)
{
	struct caller *before, *after;
	pid_t child = fork();

	if (child == 0) {
		pause();
		_exit(0);
	}
	assert_true(child > 0);
	before = add((uint32_t)child);
	assert_ptr_equal(add((uint32_t)child), before);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	before->pid = (uint32_t)getpid(); /* as if the kernel had given us the child's number */
	after = add((uint32_t)getpid());
	assert_ptr_not_equal(after, before);
	assert_ptr_equal(add((uint32_t)getpid()), after);
	assert_int_equal(count_watched(), 2);
	caller_release(&callers, before);
	caller_release(&callers, before);
	caller_release(&callers, after);
	assert_int_equal(count_watched(), 1);
	caller_release(&callers, after);
	assert_int_equal(count_watched(), 0);
}

/* Of two that are watched one is let go of: its place is free again, and no other is lost. */
TEST_WITH(places_are_used_again, begin, NULL)
{
	struct caller *first = add((uint32_t)getpid()), *second = add((uint32_t)getppid());

	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(count(&callers.unused), CALLERS - 2);
		caller_release(&callers, first);
		assert_int_equal(count(&callers.unused), CALLERS - 1);
		assert_int_equal(count_watched(), 1);
		first = add((uint32_t)getpid());
	}
	assert_ptr_equal(add((uint32_t)getppid()), second);
	caller_release(&callers, first);
	caller_release(&callers, second);
	caller_release(&callers, second);
	assert_int_equal(count(&callers.unused), CALLERS);
}
