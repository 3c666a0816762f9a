/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gpuctr/gpuctr.h>

#include "client/cli/options.h"

/* Selects registered processes. A process has to match each given condition; of a list, one
 * item. */
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

/* Rows of a table of options, for a struct that has a struct selector as this member. */
#define SELECTOR_OPTIONS(of, member)                                                             \
	{ 'p', "pid", "LIST", "these processes", OPTION_TAKEN(selector_take_pids, of, member) }, \
		{ 0, "tree", "LIST", "these processes and all that come from them",              \
		  OPTION_TAKEN(selector_take_trees, of, member) },                               \
		{ 0, "job", "LIST", "JOB, JOB.STEP or ARRAYJOB_TASK, as the processes say",      \
		  OPTION_AT(LIST, of, member.jobs) },                                            \
		{ 0, "program", "GLOB", "whose program's name matches",                          \
		  OPTION_AT(LIST, of, member.programs) },                                        \
		{ 0, "container", "LIST", "in these containers, by how their ids begin",         \
		  OPTION_TAKEN(selector_take_containers, of, member) },                          \
		{ 0, "user", "USER", "of this user (root may)",                                  \
		  OPTION_AT(TEXT, of, member.user) },                                            \
	{                                                                                        \
		'a', "all", NULL, "everything of mine that is registered",                       \
			OPTION_AT(FLAG, of, member.all)                                          \
	}

/* Of these rows: s is a struct selector. */
bool selector_take_pids(void *s, const char *value);
bool selector_take_trees(void *s, const char *value);
bool selector_take_containers(void *s, const char *value);

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
