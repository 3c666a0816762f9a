/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_FRONT_ADMISSION_H
#define GPUCTR_FRONT_ADMISSION_H

/* Who may measure which of this machine's GPUs now, by the settings and by what a scheduler has
 * stated. */

#include <stdbool.h>
#include <stdint.h>

#include "daemon/broker/policy.h"
#include "proto/wire/wire.h"

struct capture;
struct front;

/* May this peer measure? False with r filled. */
bool admission_allows(const struct front *f, const struct credentials *c, struct refusal *r);

/* May this peer ask for the daemon's status? Users who may measure may, and monitor-users, who may
 * do nothing else. False with r filled. */
bool admission_allows_questions(const struct front *f, const struct credentials *c,
				struct refusal *r);

/* The GPUs that names stand for, as a mask; without names, all that c may measure for programs of
 * target. A code with r filled when a GPU is not there, or not c's to measure. */
int admission_choose(const struct front *f, const struct credentials *c, uid_t target,
		     const struct wire_strings *names, uint64_t *ret, struct refusal *r);

/* Of these GPUs, those that c may measure only as the owner of a job, and no longer when the job
 * has ended. */
uint64_t admission_by_job(const struct front *f, const struct credentials *c, uint64_t gpus);

/* Of the capture's GPUs, those that its user may not measure any more. */
uint64_t admission_lost(const struct front *f, const struct capture *c);

/* Do the present settings allow who the capture, which was opened under earlier ones? False with r
 * filled. */
bool admission_still_allows(const struct front *f, const struct credentials *who,
			    const struct capture *c, struct refusal *r);

/* The chip that a request means: the one that it names, else this machine's; "" without GPUs. */
const char *admission_chip(const struct front *f, const char *chip);

/* The bit of the GPU with this index or UUID; 0: there is none. */
uint64_t admission_find_gpu(const struct front *f, const char *name);

#endif
