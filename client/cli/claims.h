/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_CLAIMS_H
#define CLIENT_CLI_CLAIMS_H

#include <stddef.h>

/* What a process says of its job: "NAME=value" of the variables that schedulers set (SLURM_JOB_ID,
 * RANK, ...). Nobody checks it. Borrowed. */
struct claims {
	const char *const *items;
	size_t n;
};

/* One's own environment, all of it. */
struct claims claims_of_self(void);

/* The value of a claim; NULL: not said, or said to be nothing. */
const char *claims_find(const struct claims *c, const char *name);

/* The scheduler's name of the job; NULL: none. */
const char *claims_job(const struct claims *c);
/* The number among the processes that compute together, and the scheduler's number of the task;
 * where one is not said, it is the other's. NULL: neither is. */
const char *claims_rank(const struct claims *c);
const char *claims_task(const struct claims *c);
/* As a launcher says that is no scheduler. */
const char *claims_launcher_rank(const struct claims *c);

#endif
