/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_FRONT_ADMISSION_H
#define GPUCTR_FRONT_ADMISSION_H

/* Who may measure which of this machine's GPUs now: the settings, and what a scheduler has stated
 * on top of them. */

#include <stdbool.h>
#include <stdint.h>

#include "daemon/broker/policy.h"
#include "proto/wire.h"

struct front;

/* May this peer say anything at all? False with r filled. */
bool admission_allows(const struct front *f, const struct credentials *c, struct refusal *r);

/* The GPUs that names (none: all that c may measure) stand for, as a mask. A code with r filled
 * when one is not there, or not c's to measure. */
int admission_choose(const struct front *f, const struct credentials *c,
		     const struct wire_strings *names, uint64_t *ret, struct refusal *r);

/* A bit for the GPU of this index or UUID; 0: there is none. */
uint64_t admission_find_gpu(const struct front *f, const char *name);

#endif
