/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "client/slurm/settings.h"

/* The captures of one step on one node: one for each list of GPUs that its tasks use, each held by
 * a `gpuctr-client follow` that runs as the user, beside the tasks.
 *
 *	slurmstepd  follower_open()             before it forks the tasks
 *	task        follower_join()             in each of them, as the user: the first of a list
 *	                                        starts the client, the others wait with it
 *	slurmstepd  follower_close()            after the last of them: waits for the last records
 */
struct follower;

/* To be called as the tasks' user, or with that effective uid. NULL: errno says why. */
struct follower *follower_open(void);

struct follower_task {
	const struct settings *settings;
	const char *gpus; /* as --devices takes them; "": all of the node */
	char **argv;	  /* of the program; not NULL */
	char **environment;
};

enum follower_result {
	FOLLOWER_JOINED =
		2,	  /* *ret: "NAME=value" each with its NUL, and an empty one; the follower's
			   */
	FOLLOWER_REFUSED, /* the client has said why, on our stderr */
	FOLLOWER_LATE,	  /* not within the settings' wait_s */
	FOLLOWER_FAILED,  /* errno */
};
/* *ret_first: this task had to start the client, and so reports what went wrong. */
enum follower_result follower_join(struct follower *f, const struct follower_task *task,
				   const char **ret, bool *ret_first);

/* Frees it. False: a client was still running after drain_s seconds and was killed. Takes NULL. */
bool follower_close(struct follower *f, unsigned drain_s);
