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

/* One thread with a small stack sleeps until its courier (courier.h) has something of the daemon's
 * for it; CUPTI is not opened, nothing of the program is watched but its NVTX ranges. When a
 * capture begins here, a thread of its own with an ordinary stack makes it, runs it and says
 * goodbye, and the small one is the control thread until then: so one thread at a time uses the
 * connection.
 *
 * Without a daemon, or when it has ended, the thread tries again, after half a second, twice as
 * long each time, half a minute at most, each time between half and one and a half of that:
 * thousands of agents whose daemon was restarted do not come at the same instant.
 *
 * A filter that came since and covers the thread may kill whoever makes a call of the system: the
 * thread sleeps on for good, and the courier refuses captures. Without a courier the thread waits
 * itself, and looks itself; a filter that forbids that too kills the program. */

enum {
	STACK_BYTES = 128 * 1024,
	ANSWER_TIMEOUT_S = 30,
	BEGIN_S = 1,   /* cuInit() waits so long for the thread to be out of the way */
	LISTEN_S = 5,  /* at a time; then it looks whether the connection is still ours */
	DRIVER_S = 30, /* for the cuInit() that has called the agent, to end */
};

#define DELAY_FIRST_NS (CLOCK_NS_PER_S / 2)
#define DELAY_MOST_NS (30 * CLOCK_NS_PER_S)

static struct {
	struct connection connection; /* of the thread; of the capture while there is one */
	uid_t uid;		      /* as whom it is connected */
	char program[LIMIT_NAME_BYTES];
	uint64_t delay_ns;
	bool hidden;
	sem_t begun; /* hide() has been called */
} standby = { .connection = { .fd = -1 } };

/* A file's name may be any bytes. */
void standby_program_name(char *name, size_t size)
{
	snprintf(name, size, "%s",
		 program_invocation_short_name ? program_invocation_short_name : "");
	utf8_repair(name);
}

/* --- a capture --- */

/* Is the capture over before it has begun? */
static bool is_called_off(void)
{
	struct wire_message m;
	int r = connection_receive(&standby.connection, &m, CLOCK_NS_PER_MS);

	return (r < 0 && r != -EAGAIN) || (r == 0 && m.type == WIRE_AGENT_STOP) ||
	       state_is_exiting();
}

/* Our library is loaded within the program's cuInit(), which CUPTI must not meet half done. One
 * that has failed looks the same for ever. */
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

/* 0: it is over, and the connection may be used on, or is closed. -errno: there was none. */
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

/* From here on the thread makes no call of the system unasked. */
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
	r = hello_send(&standby.connection, agent_socket_path(), &hello);
	if (r < 0) {
		return r;
	}
	standby.connection.plain = true;
	hide();
	return connection_receive(&standby.connection, answer, ANSWER_TIMEOUT_S * CLOCK_NS_PER_S);
}

/* Until the connection ends, or is another's: the daemon knows us by the user that we were when we
 * connected, and a program may have given up root since. A courier sees that, and ends it. */
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
