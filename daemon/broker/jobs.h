/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The jobs that a scheduler has reported: this GPU belongs to that user's job. During the job no
 * other user may measure the GPU. The daemon does not check that the owner is alone on the GPU,
 * because the scheduler is responsible for that. Pure and flat, so that the supervisor can keep a
 * copy for the front's successor. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { JOBS_MAX = 64, JOB_NAME_BYTES = 64 };

struct job {
	char name[JOB_NAME_BYTES]; /* given by the scheduler; "": free slot */
	uid_t uid;
	uint64_t gpus;	   /* mask of GPU indices, not 0 */
	uint64_t until_ns; /* monotonic; 0: until the scheduler ends it */
};

struct jobs {
	struct job slots[JOBS_MAX];
	uint64_t machine; /* identifies the numbering of GPUs; 0: not known yet */
};

/* Adds a job. It takes its GPUs from other jobs, and replaces a job of the same name. -ENOSPC. */
int jobs_begin(struct jobs *j, const struct job *job);

/* Removes the job; false: there is none of this name. */
bool jobs_end(struct jobs *j, const char *name);

/* Removes the jobs whose time has run out; false: there is none. */
bool jobs_expire(struct jobs *j, uint64_t now_ns);

/* The job of this name, borrowed; NULL: there is none. */
const struct job *jobs_find(const struct jobs *j, const char *name);

/* The GPUs whose job, or none, is now different from before. */
uint64_t jobs_changed_gpus(const struct jobs *before, const struct jobs *now);

/* The job that owns gpu, borrowed; NULL: none. */
const struct job *jobs_owner(const struct jobs *j, size_t gpu);

/* Masks of the GPUs that belong to jobs of uid, and to jobs of other users. */
uint64_t jobs_gpus_of(const struct jobs *j, uid_t uid);
uint64_t jobs_gpus_of_others(const struct jobs *j, uid_t uid);
