/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/agent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/agent/confined.h"
#include "client/agent/copy_gate.h"
#include "client/agent/lock.h"
#include "client/agent/permission.h"
#include "client/agent/section.h"
#include "client/agent/thread.h"
#include "proto/base/clock.h"

/* One thread makes, runs and frees each capture; captures follow one another. The program may end
 * at any time, also within a signal handler. Another thread that uses agent.capture holds the lock;
 * the thread that frees the capture first removes it under that lock.
 *
 * Exit handlers run in reverse order, and ours needs CUPTI alive: so it is registered again after
 * CUPTI was opened. A forked child has neither our threads nor CUDA: there the exit handler does
 * nothing, and takes no lock, which a thread of the parent may have held. */

enum { EXIT_PATIENCE_S = 10 };

static struct {
	char socket_path[108];
	void (*on_fork)(void);
	struct profiler profiler;
	struct activity activity;
	bool opened;	    /* the libraries were opened; used by the thread that starts captures */
	atomic_bool forked; /* this process is a forked child without exec */
	_Atomic uint64_t exit_by_ns; /* deadline of all exit handlers together; 0: none */
	struct lock lock;
	pthread_cond_t ended;
	struct capture *capture; /* the capture under way */
	struct capture *kept;	 /* a capture that has ended during exit and is not freed */
} agent = { .lock = LOCK_INITIALIZER(LOCK_AGENT) };

/* With the lock. */
static void wait_for_end(uint64_t by_ns)
{
	while (agent.capture && lock_wait_until(&agent.lock, &agent.ended, by_ns)) {
	}
}

/* Waits until all measured launches were delivered. */
static void on_exit_of_program(void)
{
	uint64_t by_ns = clock_now_ns() + EXIT_PATIENCE_S * CLOCK_NS_PER_S, first_ns = 0;

	if (!atomic_compare_exchange_strong(&agent.exit_by_ns, &first_ns, by_ns)) {
		by_ns = first_ns;
	}
	if (atomic_load(&agent.forked) || !lock_until(&agent.lock, by_ns)) {
		return;
	}
	state_note_exit();
	if (agent.capture) {
		capture_request_end(agent.capture, by_ns);
	}
	wait_for_end(by_ns);
	lock_release(&agent.lock);
}

/* In a forked child CUDA does not work, and the connections belong to the parent. */
static void on_fork_in_child(void)
{
	atomic_store(&agent.forked, true);
	if (agent.on_fork) {
		agent.on_fork();
	}
	permission_forget();
	confined_leave_to_parent();
	sections_forget();
	copy_gate_forget();
}

static int compare_bytes(const void *a, const void *b)
{
	return *(const char *)a - *(const char *)b;
}

/* qsort() of glibc before 2.37 calls sysinfo() at its first large array. So it is called here,
 * before the program loads a filter that may forbid sysinfo(). */
static void sort_once(void)
{
	char large[2048] = "";

	qsort(large, sizeof(large), 1, compare_bytes);
}

void agent_init(const char *socket_path, void (*on_fork)(void))
{
	agent.on_fork = on_fork;
	snprintf(agent.socket_path, sizeof(agent.socket_path), "%s", socket_path);
	lock_cond_init(&agent.ended);
	activity_init(&agent.activity);
	sort_once();
	pthread_atfork(NULL, NULL, on_fork_in_child);
	atexit(on_exit_of_program);
	at_quick_exit(on_exit_of_program);
}

const char *agent_socket_path(void)
{
	return agent.socket_path;
}

struct capture *agent_begin(struct connection *connection, bool late)
{
	struct capture *c = capture_new(&agent.profiler, &agent.activity, connection, late);

	LOCK_SCOPE(&agent.lock);
	if (c && !state_is_exiting()) {
		agent.capture = c;
	} else if (c) {
		capture_free(c);
		c = NULL;
	}
	return c;
}

static int open_libraries(struct refusal *r)
{
	if (!agent.opened) {
		if (profiler_open(&agent.profiler, r) != 0) {
			return r->code;
		}
		agent.opened = true;
		atexit(on_exit_of_program);
		at_quick_exit(on_exit_of_program);
	}
	return 0;
}

bool agent_start(struct capture *c, const char *token)
{
	struct refusal why = { 0 };

	if (open_libraries(&why) != 0) {
		deliver_refusal(&c->deliver, &why);
		return false;
	}
	return capture_start(c, agent.socket_path, token, &why) == 0;
}

/* Removes the capture from agent.capture before freeing it. If the program exits, keeps the
 * capture, and the thread stops here. */
void agent_drop(struct capture *c)
{
	lock_acquire(&agent.lock);
	agent.capture = NULL;
	agent.kept = c;
	pthread_cond_broadcast(&agent.ended);
	lock_release(&agent.lock);
	if (state_is_exiting()) {
		thread_stay();
	}
	agent.kept = NULL;
	capture_free(c);
}

void agent_run(struct capture *c)
{
	capture_run(c);
	agent_drop(c);
}

void agent_wait(uint64_t timeout_ns)
{
	uint64_t by_ns = clock_now_ns() + timeout_ns;

	LOCK_SCOPE(&agent.lock);
	wait_for_end(by_ns);
}
