/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/control.h"

#include <pthread.h>

#include "client/agent/confined.h"
#include "client/agent/lock.h"
#include "client/agent/thread.h"
#include "proto/base/clock.h"
#include "proto/base/list.h"

/* A long job delays the looks: the thread that waits for it is in a call that the looks watch. */

enum { STACK_BYTES = 128 * 1024, TICK_MS = 250 };

/* Lives on the stack of the thread that waits for the job. */
struct job {
	struct list link; /* in control.jobs, until taken */
	void (*act)(void *argument);
	void *argument;
	bool taken, done;
};

static struct {
	struct lock lock;      /* protects the members below */
	pthread_cond_t change; /* signals changes of the members below */
	enum { ABSENT, STARTS, RUNS, ENDS } thread;
	struct list jobs;
	void (*look)(void *userdata);
	void *userdata;
	bool looks;
} control = {
	.lock = LOCK_INITIALIZER(LOCK_LEAF),
	.jobs = { &control.jobs, &control.jobs },
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init_change(void)
{
	lock_cond_init(&control.change);
}

/* --- the control thread; with the lock, released during jobs and looks --- */

static void do_job(struct job *j)
{
	list_remove(&j->link);
	j->taken = true;
	lock_release(&control.lock);
	j->act(j->argument);
	lock_acquire(&control.lock);
	j->done = true;
	pthread_cond_broadcast(&control.change);
}

static void look(void)
{
	void (*look_at)(void *userdata) = control.look;
	void *userdata = control.userdata;

	control.looks = true;
	lock_release(&control.lock);
	look_at(userdata);
	lock_acquire(&control.lock);
	control.looks = false;
	pthread_cond_broadcast(&control.change);
}

void control_run(void)
{
	uint64_t look_ns = 0;

	LOCK_SCOPE(&control.lock);
	control.thread = control.thread == STARTS ? RUNS : control.thread;
	pthread_cond_broadcast(&control.change);
	while (control.thread == RUNS) {
		if (!list_is_empty(&control.jobs)) {
			do_job(list_entry(control.jobs.next, struct job, link));
		} else if (!control.look) {
			lock_wait(&control.lock, &control.change);
		} else if (!lock_wait_until(&control.lock, &control.change, look_ns) &&
			   control.look) { /* control_end() may have been called meanwhile */
			look_ns = clock_now_ns() + TICK_MS * CLOCK_NS_PER_MS;
			look();
		}
	}
	control.thread = ABSENT;
	pthread_cond_broadcast(&control.change);
}

static void *run(void *argument)
{
	confined_begin();
	control_run();
	return NULL;
}

/* --- other threads --- */

void control_host(void)
{
	pthread_once(&once, init_change);
	LOCK_SCOPE(&control.lock);
	control.thread = STARTS;
}

int control_start(void)
{
	int r = 0;

	pthread_once(&once, init_change);
	LOCK_SCOPE(&control.lock);
	if (control.thread == ABSENT) {
		control.thread = STARTS;
		r = thread_start(run, NULL, STACK_BYTES, NULL);
		control.thread = r == 0 ? STARTS : ABSENT;
	}
	while (control.thread == STARTS) {
		lock_wait(&control.lock, &control.change);
	}
	return r;
}

/* With the lock. A job that was taken must be done before this stack frame ends. */
static void wait_for(struct job *j, uint64_t by_ns)
{
	while (!j->taken && control.thread == RUNS &&
	       lock_wait_until(&control.lock, &control.change, by_ns)) {
	}
	while (j->taken && !j->done) {
		lock_wait(&control.lock, &control.change);
	}
	if (!j->taken) {
		list_remove(&j->link);
	}
}

bool control_do(void (*act)(void *argument), void *argument, uint64_t timeout_ns)
{
	struct job j = { .act = act, .argument = argument };

	LOCK_SCOPE(&control.lock);
	if (control.thread == RUNS) {
		list_append(&control.jobs, &j.link);
		pthread_cond_broadcast(&control.change);
		wait_for(&j, clock_now_ns() + timeout_ns);
	}
	return j.done;
}

void control_watch(void (*look_at)(void *userdata), void *userdata)
{
	LOCK_SCOPE(&control.lock);
	control.look = look_at;
	control.userdata = userdata;
	if (control.thread == RUNS) {
		pthread_cond_broadcast(&control.change);
	}
}

void control_end(void)
{
	LOCK_SCOPE(&control.lock);
	control.look = NULL;
	if (control.thread != ABSENT) {
		control.thread = ENDS;
		pthread_cond_broadcast(&control.change);
	}
	while (control.looks) {
		lock_wait(&control.lock, &control.change);
	}
}
