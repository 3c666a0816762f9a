/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gpuctr/gpuctr.h>

#include "client/cli/options.h"

/* Selects registered processes. A process has to match each given condition; of a list, one
 * item. */
struct selector {
	struct strings pids;
	struct strings jobs;	 /* JOB, JOB.STEP, ARRAYJOB_TASK, as processes claim */
	struct strings programs; /* globs */
	bool exact;		 /* jobs are Slurm's ids, with or without a step, and no arrays */
	bool all, everybodys;	 /* all of one's own processes; for root, everybody's */
};

/* For rows of a table of options: pids is a struct strings, s a struct selector. */
bool selector_take_pids(void *pids, const char *value);
bool selector_take_all(void *s, const char *value);

bool selector_is_empty(const struct selector *s);
void selector_deinit(struct selector *s);
bool selector_matches(const struct selector *s, const struct gpuctr_registered_process *p);

/* The pid of a process as this client sees it: the pid that the daemon reports, unless process
 * and client share a container's namespace of pids. */
unsigned selector_pid(const struct gpuctr_registered_process *p);
/* The same in a given namespace, for tests. */
unsigned selector_pid_in(const struct gpuctr_registered_process *p,
			 unsigned long long own_namespace);

/* The scheduler's name of the process's job, with its step, as selector.jobs takes it; "": none. */
void selector_job(const struct gpuctr_registered_process *p, char *text, size_t size);
