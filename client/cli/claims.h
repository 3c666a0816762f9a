/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "proto/base/json.h"

/* Claims: what a process reports of its job, unchecked, as "NAME=value" of the variables that
 * schedulers set (SLURM_JOB_ID, RANK, ...). Borrowed. */
struct claims {
	const char *const *items;
	size_t n;
};

/* All variables of this process's environment. */
struct claims claims_of_self(void);

/* The value of a claim; NULL: the claim is missing or empty. */
const char *claims_find(const struct claims *c, const char *name);

/* The scheduler's name of the job; NULL: none. */
const char *claims_job(const struct claims *c);
/* The element of an array whose elements share the job's name (LSF); NULL: none. */
const char *claims_element(const struct claims *c);
/* JOB or JOB[ELEMENT]; false and "": the job is unknown. */
bool claims_job_text(const struct claims *c, char *text, size_t size);
/* Slurm's step: its number, or batch, interactive, extern. NULL: the job is not Slurm's. */
const char *claims_step(const struct claims *c);
/* The rank among the processes that compute together, and the scheduler's number of the task. If
 * one of them is missing, the other stands in. NULL: both are missing. */
const char *claims_rank(const struct claims *c);
const char *claims_task(const struct claims *c);
/* The rank by a launcher that is not a scheduler (torchrun, mpirun). */
const char *claims_launcher_rank(const struct claims *c);

/* Appends the object "claims", with a member for each claim. */
void claims_json(const struct claims *c, struct json *j);
