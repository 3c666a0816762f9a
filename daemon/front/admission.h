/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_FRONT_ADMISSION_H
#define GPUCTR_FRONT_ADMISSION_H

/* Who may measure which of this machine's GPUs now: the settings, and what a scheduler has stated
 * on top of them. */

#include <stdbool.h>
#include <stdint.h>

#include "daemon/broker/policy.h"
#include "proto/wire/wire.h"

struct capture;
struct front;

/* May this peer say anything at all? False with r filled. */
bool admission_allows(const struct front *f, const struct credentials *c, struct refusal *r);

/* The GPUs that names (none: all that c may measure) stand for, as a mask. A code with r filled
 * when one is not there, or not c's to measure. */
int admission_choose(const struct front *f, const struct credentials *c,
		     const struct wire_strings *names, uint64_t *ret, struct refusal *r);

/* Of these GPUs, those that c may measure by owning a job alone: not any more when it has ended. */
uint64_t admission_by_job(const struct front *f, const struct credentials *c, uint64_t gpus);

/* Of the capture's GPUs, those that are not its user's to measure now, whatever it was when they
 * were chosen. */
uint64_t admission_lost(const struct front *f, const struct capture *c);

/* Do the settings of now allow who the capture that they have opened under those of then? False
 * with r filled. */
bool admission_still_allows(const struct front *f, const struct credentials *who,
			    const struct capture *c, struct refusal *r);

/* The chip that is meant: this machine's when none is named, and "" on one without GPUs. */
const char *admission_chip(const struct front *f, const char *chip);

/* A bit for the GPU of this index or UUID; 0: there is none. */
uint64_t admission_find_gpu(const struct front *f, const char *name);

#endif
