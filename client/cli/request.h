/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include <gpuctr/gpuctr.h>

#include "proto/base/buf.h"

/* One question to the daemon and its answer, for verbs that run no program. */
struct request {
	struct gpuctr *g;
	bool done;    /* set by the handler of the answer */
	int status;   /* exit status */
	struct buf b; /* text gathered for stdout */
};

/* As gpuctr_connect(), but when a daemon listens and does not answer, tries again for half a
 * minute, with a message. When no daemon listens, returns at once. */
int request_connect(const char *socket, struct gpuctr **ret);

/* False: an error was printed, and status is set. */
bool request_open(struct request *request, const char *socket);
/* The same without printing: returns NULL or the error, which lives as long as the request. */
const struct gpuctr_error *request_try(struct request *request, const char *socket);
/* result: of the library call that asked. Waits for the answer, prints the gathered text,
 * disconnects and returns the exit status. */
int request_finish(struct request *request, int result);
/* For the handler of an answer: reports the error, if there is one, and ends the wait. */
void request_answer(struct request *request, const struct gpuctr_error *error);
