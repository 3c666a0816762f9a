/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_BROKER_JOBS_H
#define GPUCTR_BROKER_JOBS_H

/* What a scheduler has stated: this GPU belongs to that user's job. While it does nobody else may
 * measure it, and the owner need not be alone on it: the scheduler answers for that. Pure and flat,
 * so that the supervisor can keep a copy for the front's successor. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { JOBS_MAX = 64, JOB_NAME_BYTES = 64 };

struct job {
	char name[JOB_NAME_BYTES]; /* the scheduler's own; "": free slot */
	uid_t uid;
	uint64_t gpus;	   /* mask of GPU indices, not 0 */
	uint64_t until_ns; /* monotonic; 0: until it is ended */
};

struct jobs {
	struct job slots[JOBS_MAX];
	uint64_t machine; /* which GPUs have which index, as a number; 0: not known yet */
};

/* The statement that comes last counts: GPUs that another job had, and all that one of this name
 * had, are taken from them. -ENOSPC. */
int jobs_begin(struct jobs *j, const struct job *job);

/* Forgotten and copied to *ret; false: there is none of this name. */
bool jobs_end(struct jobs *j, const char *name, struct job *ret);

/* Any one, forgotten and copied to *ret; false: there is none. */
bool jobs_take(struct jobs *j, struct job *ret);

/* One whose time is over, forgotten and copied to *ret; false: none is. */
bool jobs_expire(struct jobs *j, uint64_t now_ns, struct job *ret);

/* Borrowed; NULL: nobody's. */
const struct job *jobs_owner(const struct jobs *j, size_t gpu);

/* Mask of GPUs that belong to jobs of uid; of others. */
uint64_t jobs_gpus_of(const struct jobs *j, uid_t uid);
uint64_t jobs_gpus_of_others(const struct jobs *j, uid_t uid);

#endif
