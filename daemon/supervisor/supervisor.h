/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declarations that the supervisor's files share. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/config/control.h"
#include "daemon/front/front.h"
#include "daemon/supervisor/restart.h"
#include "daemon/config/config.h"

/* --- worker.c --- */

/* The start of a worker. The supervisor forks a child, which executes this program anew as a
 * worker: so no worker has the supervisor's memory, and no two have the same memory layout. */

/* Everything that the supervisor passes to a worker. Descriptors have the supervisor's numbers; the
 * worker gets them under others. -1: none. */
struct worker_start {
	enum worker_id id;
	int log_level;
	int link;		  /* link to the front; for the front: link to the supervisor */
	struct front_start front; /* for the front only */
};

const char *worker_name(enum worker_id id);

/* In a forked child: executes the worker. Returns only if that fails, with -errno. program becomes
 * the first word of its command line. */
int worker_execute(const struct worker_start *start, const char *program);

/* Is this process a worker, by its command line? */
bool worker_is_asked(int argc, char **argv);

/* Runs the worker. Returns the exit status. */
int worker_main(const char *name);

/* --- workers.c --- */

/* The four workers: how they are started, reaped, and replaced. */

struct supervisor {
	struct front_start front; /* for the next front: settings, jobs, sockets, audit file */
	int argc;
	char **argv;   /* command line, which a reload parses again */
	uid_t starter; /* the user who, besides root, may own the settings file */
	pid_t pids[WORKERS];
	int control; /* link to the front */
	int signals;
	int namer_fd; /* pipe to which the namer writes; -1: no namer runs */
	pid_t namer_pid;
	uint32_t namer_uid;
	bool own_socket; /* this process has bound the socket and removes it at the end */
	bool stopping;
	struct restart restarts[WORKERS];
};

/* Starts the front and all other workers. -errno: the front was not started. */
int workers_start(struct supervisor *s);
/* Ends the front, then the workers that were linked to it. */
void workers_end(struct supervisor *s);
/* Kills a worker that hangs; it is then reaped and replaced like any other. */
void workers_kill_hung(struct supervisor *s, enum worker_id id);
/* Notes all workers that have ended before one is replaced, because a new front needs new other
 * workers. */
void workers_reap(struct supervisor *s);
/* Replaces the workers that are due. Tries a worker that cannot be started again later. */
void workers_replace_due(struct supervisor *s);
/* Milliseconds until the next worker is due, for poll(); -1: none. */
int workers_next_ms(const struct supervisor *s);

/* --- namer.c --- */

/* Asks name services for the name of a uid, for the front. Name services load code into the asking
 * process and may take any time, so a child without capabilities asks, for some seconds at most. */

/* Asks for one uid at a time: a new request gives up the previous one. */
void namer_ask(struct supervisor *s, uint32_t uid);

/* Called when namer_fd is readable: sends the answer to the front. */
void namer_answer(struct supervisor *s);

/* --- options.c --- */

/* Reads the file, which must be root's or starter's, then the command line. 1: go on; 0: done
 * (help, version, check); -errno: the error was printed. */
int options_parse(struct config *c, int argc, char **argv, uid_t starter);

/* --- sockets.c --- */

/* Gets the listening sockets that systemd passes, else binds one at c->socket, open to users whom
 * the policy admits; may wait two seconds for the path. Fills at most room entries of fds; *ret_own
 * says that the socket is ours to remove. Logs errors and returns -errno. */
int sockets_open(const struct config *c, int *fds, size_t room, size_t *ret_n, bool *ret_own);

/* Gets only the sockets that systemd passes; returns their number. They do not block. */
size_t sockets_take_passed(int *fds, size_t room);
