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

/* Call it with the effective uid of the tasks' user. NULL: errno has the reason. */
struct follower *follower_open(void);

struct follower_task {
	const struct settings *settings;
	const char *gpus; /* in the format of --devices; "": all GPUs of the node */
	char **argv;	  /* command line of the program; not NULL */
	char **environment;
};

enum follower_result {
	FOLLOWER_JOINED =
		2, /* *ret: "NAME=value" words with their NULs, and an empty one; f owns them */
	FOLLOWER_REFUSED, /* the client has written the reason to the task's stderr */
	FOLLOWER_LATE,	  /* no answer within settings.wait_s */
	FOLLOWER_FAILED,  /* errno has the reason */
};
/* *ret_first: this task had to start the client, so it also reports failures. */
enum follower_result follower_join(struct follower *f, const struct follower_task *task,
				   const char **ret, bool *ret_first);

/* Frees f, which may be NULL. False: a client ran after drain_s seconds, and was killed. */
bool follower_close(struct follower *f, unsigned drain_s);
