/* SPDX-License-Identifier: Apache-2.0 */

/* Ask, wait, print. No loop is needed: gpuctr_dispatch() waits by itself. */

#include "client/cli/request.h"

#include <errno.h>
#include <stdio.h>

#include "client/cli/say.h"
#include "client/cli/verb.h"
#include "proto/base/clock.h"

/* How long the library waits for an answer, and how long the client does. The socket of a service
 * that is restarted stays open, but systemd gives the service 15 s to stop, and the supervisor
 * waits some seconds before it restarts a worker that has ended too often. */
enum { ATTEMPT_S = 5, PATIENCE_S = 30 };

#define NS_PER_S UINT64_C(1000000000)

static void fail(struct request *request, int result)
{
	say_failure(request->g, result);
	request->status = EXIT_VERB_FAILED;
}

int request_connect(const char *socket, struct gpuctr **ret)
{
	uint64_t by_ns = clock_now_ns() + PATIENCE_S * NS_PER_S, begin_ns;
	int r;

	for (;;) {
		begin_ns = clock_now_ns();
		r = gpuctr_connect(socket, "gpuctr-client", ret);
		if (r != GPUCTR_E_NO_DAEMON || clock_now_ns() >= by_ns ||
		    clock_now_ns() - begin_ns < ATTEMPT_S * NS_PER_S) {
			say_clear();
			return r;
		}
		gpuctr_disconnect(*ret);
		say_status("the daemon listens and is slow to answer: waiting for it");
	}
}

const struct gpuctr_error *request_try(struct request *request, const char *socket)
{
	static const struct gpuctr_error no_memory = { GPUCTR_E_INTERNAL, "out of memory", "" };

	*request = (struct request){ 0 };
	if (request_connect(socket, &request->g) == 0) {
		return NULL;
	}
	return request->g ? gpuctr_last_error(request->g) : &no_memory;
}

void request_answer(struct request *request, const struct gpuctr_error *error)
{
	if (error) {
		say_gpuctr_error(error);
		request->status = EXIT_VERB_FAILED;
	}
	request->done = true;
}

bool request_open(struct request *request, const char *socket)
{
	const struct gpuctr_error *why = request_try(request, socket);

	if (why) {
		request_answer(request, why);
		request->g = gpuctr_disconnect(request->g);
	}
	return !why;
}

int request_finish(struct request *request, int result)
{
	while (result == 0 && !request->done) {
		result = gpuctr_dispatch(request->g, -1);
	}
	if (!request->done) {
		fail(request, result);
	} else if (request->b.failed) {
		fail(request, -ENOMEM);
	}
	if (request->status == 0 && request->b.n > 0) {
		fwrite(request->b.data, 1, request->b.n, stdout);
	}
	buf_deinit(&request->b);
	gpuctr_disconnect(request->g);
	return request->status;
}
