/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_SELECT_H
#define CLIENT_CLI_SELECT_H

#include <stdint.h>

#include <gpuctr/gpuctr.h>

#include "client/cli/buf.h"
#include "client/cli/options.h"

/* Which of the registered processes are meant. What is given is joined by "and", the words of one
 * list by "or". */
struct selector {
	struct strings pids;
	struct strings trees;	   /* pids: these and all that come from them */
	struct strings jobs;	   /* JOB, JOB.STEP, ARRAYJOB_TASK, as a process says of itself */
	struct strings programs;   /* globs */
	struct strings containers; /* how their ids begin */
	bool exact;	  /* jobs are ids of Slurm's, with or without a step, and no arrays */
	const char *user; /* name or number */
	bool all;	  /* of one's own */
};

bool selector_is_empty(const struct selector *s);
void selector_deinit(struct selector *s);
bool selector_matches(const struct selector *s, const struct gpuctr_registered_process *p);

/* The value of a claim, or NULL. */
const char *select_claim(const struct gpuctr_registered_process *p, const char *name);
/* Its number among the processes that we see: the daemon's, unless both of us are in the same
 * namespace of pids that is not the machine's, as in a container. */
unsigned select_pid(const struct gpuctr_registered_process *p);
/* The same in a given namespace, for tests. */
unsigned select_pid_in(const struct gpuctr_registered_process *p, unsigned long long own_namespace);

/* The scheduler's name of the process's job, with its step, as selector.jobs takes it; "": none. */
void select_job(const struct gpuctr_registered_process *p, char *text, size_t size);

/* One that was chosen. */
struct chosen {
	unsigned pid;	  /* as the daemon sees it */
	unsigned own_pid; /* as we see it */
	char program[64];
	char rank[32]; /* as it says; "": it does not */
	bool foreign;  /* another user's */
};

struct selected {
	unsigned *ids;	      /* owned */
	struct chosen *items; /* owned; in the same order */
	size_t n;
	unsigned busy;	     /* matched, and measured by somebody already: told */
	unsigned registered; /* that were there to choose from */
};

/* Asks the daemon, and tells of those that match and are busy and of pids that are not registered.
 * 0, -ENOMEM, or a code of the library, as for gpuctr_last_error(). */
int select_processes(struct gpuctr *g, const struct selector *s, struct selected *ret);
/* The same; false: there are none that could be captured, which was told, as any error was. */
bool select_some(struct gpuctr *g, const struct selector *s, struct selected *ret);
void selected_deinit(struct selected *s);

/* "python3 (pid 4711), python3 (pid 4712) and 6 more" */
void selected_describe(const struct selected *s, struct buf *b);
/* Takes out what the daemon has left out of the capture, and says so. *ret is what was chosen
 * there; false: the notice is of nothing that was chosen. */
bool selected_leave_out(struct selected *s, const struct gpuctr_notice *notice, struct chosen *ret);

#endif
