/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/agent/agent.h"
#include "client/agent/claims.h"
#include "client/agent/courier.h"
#include "client/agent/descriptor.h"
#include "client/agent/connection.h"
#include "client/agent/nvtx.h"
#include "client/agent/standby.h"
#include "client/agent/thread.h"
#include "client/agent/trial.h"
#include "proto/base/clock.h"

/* The functions by which the program's libraries enter the agent.
 *
 * libcuda calls InitializeInjection() once, within the program's first cuInit(). With a token the
 * process is measured from here on; in standby it is only registered. NVTX calls
 * InitializeInjectionNvtx2() from each library that uses it, often earlier; the agent follows
 * ranges from then on, because a range may open long before the launches in it.
 *
 * Nothing here prints, and no failure affects the program: without a daemon, a token or CUPTI it
 * runs unmeasured, and the agent reports why if it reaches the daemon. */

#define AGENT_EXPORT __attribute__((visibility("default")))

AGENT_EXPORT int InitializeInjection(void);
AGENT_EXPORT int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t));

static const char *environment(const char *name)
{
	const char *value = secure_getenv(name);

	return value && value[0] ? value : NULL;
}

static bool wants_standby(void)
{
	const char *standby = environment("GPUCTR_STANDBY");

	return standby && strcmp(standby, "1") == 0 && environment("GPUCTR_SOCKET") &&
	       !environment("GPUCTR_TOKEN");
}

/* --- one capture, from the start --- */

static struct connection token_connection = { .fd = -1 };

static void leave_to_parent(void)
{
	descriptor_leave(token_connection.fd, token_connection.file);
	token_connection.fd = -1;
}

static sem_t watched, started;

static void *serve(void *argument)
{
	token_connection.plain = true;
	courier_watch_me();
	sem_post(&watched);
	while (sem_wait(&started) < 0) {
	}
	agent_run(argument);
	connection_close(&token_connection);
	return NULL;
}

static void tell_no_thread(const struct capture *c, int error)
{
	char text[128];
	struct wire_message m = {
		.type = WIRE_NOTICE,
		.notice = { c->welcome.capture, c->welcome.process, GPUCTR_E_INTERNAL, text,
			    "Raise the program's limits of memory and of processes (ulimit -v, "
			    "-u)." },
	};

	snprintf(text, sizeof(text),
		 "no thread could be started in the program (%s), which runs on unmeasured",
		 strerror(-error));
	connection_send(&token_connection, &m, -1, CLOCK_NS_PER_S);
}

static void begin(const char *token)
{
	char program[LIMIT_NAME_BYTES];
	struct wire_agent_hello hello = { .token = token, .program = program };
	struct refusal why = { 0 };
	struct capture *c = agent_begin(&token_connection, false);
	bool ok;
	int r;

	standby_program_name(program, sizeof(program));
	claims_collect(false);
	hello.claims = claims_list();
	if (!c) {
		return;
	}
	if (hello_say(&token_connection, agent_socket_path(), &hello, &c->arena, &c->welcome,
		      &why) != 0) {
		agent_drop(c); /* no message can be sent; the client notices that no process came */
		return;
	}
	courier_start(&token_connection, false);
	sem_init(&watched, 0, 0);
	sem_init(&started, 0, 0);
	/* Done first, before the program may forbid new threads. */
	r = thread_start(serve, c, 0, NULL);
	if (r != 0) {
		tell_no_thread(c, r);
		connection_close(&token_connection); /* the process counts as lost */
		agent_drop(c);
		return;
	}
	while (sem_wait(&watched) < 0) {
	}
	ok = agent_start(c, token);
	sem_post(&started);
	if (!ok) {
		agent_wait(CLOCK_NS_PER_S); /* else a crash may lose the report */
	}
}

int InitializeInjection(void)
{
	static bool entered;
	const char *socket_path = environment("GPUCTR_SOCKET"),
		   *token = environment("GPUCTR_TOKEN");
	int saved = errno, cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (socket_path && !entered && (token || wants_standby()) && trial_is_passed()) {
		entered = true;
		agent_init(socket_path, token ? leave_to_parent : standby_leave_to_parent);
		if (token) {
			begin(token);
		} else {
			standby_begin();
		}
	}
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
	return 1;
}

int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t))
{
	int saved = errno;
	int r = environment("GPUCTR_TOKEN") || wants_standby() ? nvtx_initialize(export_table) : 0;

	errno = saved;
	return r;
}
