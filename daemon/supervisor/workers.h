/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The four workers: how they are started, reaped, and replaced. */

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/config/control.h"
#include "daemon/front/front.h"
#include "daemon/supervisor/restart.h"
#include "daemon/supervisor/worker.h"

struct supervisor {
	struct front_start front; /* for the next one: settings, jobs, sockets, audit file */
	int argc;
	char **argv;   /* read again by a reload */
	uid_t starter; /* the user whose settings count, beside root's */
	pid_t pids[WORKERS];
	int control; /* link to the front */
	int signals;
	int namer_fd; /* to which the namer writes; -1: there is none */
	pid_t namer_pid;
	uint32_t namer_uid;
	bool own_socket; /* the socket was bound by us and is removed at the end */
	bool stopping;
	struct restart restarts[WORKERS];
};

/* Starts the front, and with it all others. -errno: the front was not started. */
int workers_start(struct supervisor *s);
/* Ends the front, then those that were linked to it. */
void workers_end(struct supervisor *s);
/* Kills a worker that hangs; it is then reaped and replaced like any other. */
void workers_kill_hung(struct supervisor *s, enum worker_id id);
/* Notes every worker that has ended before any is replaced, because a new front comes with new
 * workers. */
void workers_reap(struct supervisor *s);
/* Replaces the workers that are due. One that cannot be started now is tried again later. */
void workers_replace_due(struct supervisor *s);
/* Milliseconds until the next worker is due, for poll(); -1: none is. */
int workers_next_ms(const struct supervisor *s);
