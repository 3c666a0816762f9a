/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Decides who may measure which of this machine's GPUs, by the settings and by the jobs that a
 * scheduler has reported. */

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

/* May this user ask for the status, or does somebody measure a program of this user? False with r
 * filled. */
bool admission_is_known(const struct front *f, const struct credentials *c, struct refusal *r);

/* May this user have a connection? A user whom admission_is_known() accepts may; if the settings
 * name operators, every user may. False with r filled. */
bool admission_lets_in(const struct front *f, const struct credentials *c, struct refusal *r);

/* The mask of the GPUs that o names; without names, of all GPUs that c may measure for programs of
 * target. Returns a code with r filled if a GPU does not exist or c may not measure it, unless o
 * asks for only the GPUs that c may measure. */
int admission_choose(const struct front *f, const struct credentials *c, uid_t target,
		     const struct wire_open_capture *o, uint64_t *ret, struct refusal *r);

/* The subset of gpus that c may measure only as the owner of a job, and no longer once the job has
 * ended. */
uint64_t admission_by_job(const struct front *f, const struct credentials *c, uint64_t gpus);

/* The subset of the capture's GPUs that its user may not measure any more. */
uint64_t admission_lost(const struct front *f, const struct capture *c);

/* Do the present settings still allow this user the capture, which was opened under earlier
 * settings? False with r filled. */
bool admission_still_allows(const struct front *f, const struct credentials *who,
			    const struct capture *c, struct refusal *r);

/* The chip of a request: the one that it names, else this machine's; "" without GPUs. */
const char *admission_chip(const struct front *f, const char *chip);

/* The bit of the GPU with this index or UUID; 0: there is none. */
uint64_t admission_find_gpu(const struct front *f, const char *name);
