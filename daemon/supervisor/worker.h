/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A worker's beginning. The supervisor forks a child, which executes this program anew as a worker:
 * so no worker has the supervisor's memory, and no two have the same layout. All that it gets is
 * named here. */

#include <stdbool.h>

#include "daemon/config/control.h"
#include "daemon/front/front.h"

/* What the supervisor tells a worker. The descriptors are its own, which the worker gets under
 * other numbers; -1: none. */
struct worker_start {
	enum worker_id id;
	int log_level;
	int link;		  /* to the front; of the front to the supervisor */
	struct front_start front; /* what the front alone gets */
};

const char *worker_name(enum worker_id id);

/* In a forked child: goes on as the worker. Returns only if that fails, with -errno. program
 * becomes the first word of its command line. */
int worker_execute(const struct worker_start *start, const char *program);

/* Is this process one, by its command line? */
bool worker_is_asked(int argc, char **argv);

/* Runs it. Returns the exit status. */
int worker_main(const char *name);
