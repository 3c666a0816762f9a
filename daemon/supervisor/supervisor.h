/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of the supervisor need of each other. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/config/control.h"
#include "daemon/front/front.h"
#include "daemon/supervisor/restart.h"
#include "daemon/config/config.h"

/* --- worker.c --- */

/* A worker's beginning. The supervisor forks a child, which executes this program anew as a worker:
 * so no worker has the supervisor's memory, and no two have the same layout. All that it gets is
 * named here. */

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

/* --- workers.c --- */

/* The four workers: how they are started, reaped, and replaced. */

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

/* --- namer.c --- */

/* Asks name services which name a uid has, for the front. They load code into who asks and may take
 * any time, so a child asks, without a capability, and for a few seconds at most. */

/* Asks for one at a time: what is asked for meanwhile gives up the one before. */
void namer_ask(struct supervisor *s, uint32_t uid);

/* Its descriptor is readable: tells the front. */
void namer_answer(struct supervisor *s);

/* --- options.c --- */

/* Reads the file, which must be root's or starter's, then the command line. 1: go on; 0: done
 * (help, version, check); -errno: the error was printed. */
int options_parse(struct config *c, int argc, char **argv, uid_t starter);

/* --- sockets.c --- */

/* The listening sockets that systemd passes, else one that is bound at c->socket, open to whom the
 * policy lets in, for which it may wait two seconds. Fills at most room entries of fds; *ret_own
 * says that the socket is ours to remove. Logs errors and returns -errno. */
int sockets_open(const struct config *c, int *fds, size_t room, size_t *ret_n, bool *ret_own);

/* Those that systemd passes alone; returns how many. They do not block. */
size_t sockets_take_passed(int *fds, size_t room);
