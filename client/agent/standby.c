/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/standby.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "client/agent/agent.h"
#include "client/agent/claims.h"
#include "client/agent/confined.h"
#include "client/agent/control.h"
#include "client/agent/courier.h"
#include "client/agent/descriptor.h"
#include "client/agent/connection.h"
#include "client/agent/thread.h"
#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/base/utf8.h"

/* The standby thread, with a small stack, sleeps until its courier (courier.h) has a message of the
 * daemon's. Meanwhile CUPTI is not opened, and the agent follows only the program's NVTX ranges.
 * When a capture begins, a new thread with an ordinary stack starts it, runs it and sends goodbye,
 * while the standby thread is the control thread: so one thread at a time uses the connection.
 *
 * Without a daemon the standby thread tries again after half a second, and doubles the delay each
 * time up to half a minute. It multiplies each delay by a random number from 0.5 to 1.5, so that
 * the agents of a restarted daemon do not all connect at the same instant.
 *
 * A seccomp filter that the program loads later may kill the standby thread at any system call:
 * then the thread sleeps for good, and the courier refuses captures. Without a courier the thread
 * itself waits and looks for filters; a filter that forbids this, too, kills the program. */

enum {
	STACK_BYTES = 128 * 1024,
	ANSWER_TIMEOUT_S = 30,
	BEGIN_S = 1,   /* how long cuInit() waits until the thread has hidden */
	LISTEN_S = 5,  /* how long to wait before checking that the connection is still ours */
	DRIVER_S = 30, /* how long to wait for the end of the cuInit() that called the agent */
};

#define DELAY_FIRST_NS (CLOCK_NS_PER_S / 2)
#define DELAY_MOST_NS (30 * CLOCK_NS_PER_S)

static struct {
	struct connection connection; /* used by the standby thread, or by the capture */
	uid_t uid;		      /* user as whom the thread has connected */
	char program[LIMIT_NAME_BYTES];
	uint64_t delay_ns;
	bool hidden;
	sem_t begun; /* hide() has been called */
} standby = { .connection = { .fd = -1 } };

/* The name of a file may be any bytes, so it is made valid UTF-8. */
void standby_program_name(char *name, size_t size)
{
	snprintf(name, size, "%s",
		 program_invocation_short_name ? program_invocation_short_name : "");
	utf8_repair(name);
}

/* --- a capture --- */

/* Has the capture ended before it has begun? */
static bool is_called_off(void)
{
	struct wire_message m;
	int r = connection_receive(&standby.connection, &m, CLOCK_NS_PER_MS);

	return (r < 0 && r != -EAGAIN) || (r == 0 && m.type == WIRE_AGENT_STOP) ||
	       state_is_exiting();
}

/* libcuda loads the agent within the program's cuInit(), during which CUPTI must not be opened. A
 * cuInit() that has failed looks as if it never returned, hence the time limit. */
static bool wait_for_driver(struct capture *c)
{
	uint64_t by_ns = clock_now_ns() + DRIVER_S * CLOCK_NS_PER_S;

	while (!profiler_driver_is_ready()) {
		if (is_called_off()) {
			return false;
		}
		if (clock_now_ns() > by_ns) {
			deliver_notice(&c->deliver, GPUCTR_E_NO_DRIVER,
				       "the program's cuInit() has failed, or has not returned for "
				       "30 s",
				       "Capture it again once it uses a GPU.");
			return false;
		}
	}
	return true;
}

static void *serve(void *argument)
{
	struct capture *c = argument;

	if (wait_for_driver(c)) {
		agent_start(c, c->welcome.token);
	}
	agent_run(c);
	return NULL;
}

/* 0: the capture is over, and the connection may be used further or is closed. -errno: no capture
 * could be made. */
static int take_part(const struct wire_message *welcome)
{
	struct capture *c = agent_begin(&standby.connection, true);
	struct thread thread;
	int r;

	if (!c) {
		return -ENOMEM;
	}
	control_host();
	r = hello_keep(welcome, &c->arena, &c->welcome) ? 0 : -ENOMEM;
	r = r < 0 ? r : thread_start(serve, c, 0, &thread);
	if (r < 0) {
		agent_drop(c);
		return r;
	}
	control_run();
	thread_join(&thread);
	return 0;
}

/* --- the connection --- */

/* With a courier, the thread makes no system call of its own accord from here on. */
static void hide(void)
{
	courier_start(&standby.connection, true);
	if (!standby.hidden) {
		standby.hidden = true;
		sem_post(&standby.begun);
	}
}

static int say_hello(struct wire_message *answer)
{
	const struct wire_agent_hello hello = { .program = standby.program,
						.claims = claims_list() };
	int r;

	standby.uid = geteuid();
	r = hello_send(&standby.connection, agent_socket_path(), &hello, true);
	if (r < 0) {
		return r;
	}
	hide();
	return connection_receive(&standby.connection, answer, ANSWER_TIMEOUT_S * CLOCK_NS_PER_S);
}

/* Returns when the connection ends or the program has changed its user, because the daemon knows us
 * by the user as whom we connected. With a courier, the courier notices the change and ends the
 * connection. */
static void listen_for_captures(void)
{
	uint64_t at_a_time_ns =
		standby.connection.courier ? COURIER_FOR_EVER : LISTEN_S * CLOCK_NS_PER_S;
	struct wire_message m;
	int r;

	do {
		r = connection_receive(&standby.connection, &m, at_a_time_ns);
		if (r == 0 && m.type == WIRE_AGENT_WELCOME && confined_is()) {
			confined_decline(&standby.connection, &m);
		} else if (r == 0 && m.type == WIRE_AGENT_WELCOME) {
			courier_be_idle(false);
			r = take_part(&m);
			courier_be_idle(true);
		}
	} while ((r == 0 || r == -EAGAIN) && (confined_is() || geteuid() == standby.uid));
}

static uint64_t random_below(uint64_t n)
{
	uint64_t x = 0;

	if (getrandom(&x, sizeof(x), GRND_NONBLOCK) != (ssize_t)sizeof(x)) {
		x = clock_now_ns() ^ (uint64_t)getpid() << 20;
	}
	return x % n;
}

static void rest(void)
{
	uint64_t ns = standby.delay_ns / 2 + random_below(standby.delay_ns);

	hide();
	if (standby.connection.courier) {
		courier_rest(&standby.connection, ns);
	} else {
		thread_pause(ns);
	}
	standby.delay_ns *= 2;
	standby.delay_ns = standby.delay_ns < DELAY_MOST_NS ? standby.delay_ns : DELAY_MOST_NS;
}

static void *run(void *argument)
{
	struct wire_message answer;

	confined_begin();
	for (;;) {
		if (say_hello(&answer) == 0 && answer.type == WIRE_AGENT_REGISTERED) {
			standby.delay_ns = DELAY_FIRST_NS;
			listen_for_captures();
		}
		connection_close(&standby.connection);
		if (confined_is()) {
			thread_stay();
		}
		rest();
		if (confined_is()) {
			thread_stay();
		}
	}
	return NULL;
}

void standby_begin(void)
{
	struct timespec by;

	standby_program_name(standby.program, sizeof(standby.program));
	claims_collect(true);
	standby.delay_ns = DELAY_FIRST_NS;
	sem_init(&standby.begun, 0, 0);
	if (thread_start(run, NULL, STACK_BYTES, NULL) == 0) {
		clock_gettime(CLOCK_REALTIME, &by);
		by.tv_sec += BEGIN_S;
		while (sem_timedwait(&standby.begun, &by) < 0 && errno == EINTR) {
		}
	}
}

void standby_leave_to_parent(void)
{
	descriptor_leave(standby.connection.fd, standby.connection.file);
	standby.connection.fd = -1;
}
