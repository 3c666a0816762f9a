/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_TURNS_H
#define GPUCTR_AGENT_TURNS_H

/* Whose turn it is, of several configurations of one context. */

#include <stdint.h>

#include "proto/wire/limits.h"

struct turns {
	uint64_t seed, round;
	uint32_t n, at;
	uint8_t order[LIMIT_GROUPS]; /* of this round */
};

/* n from 1 to LIMIT_GROUPS. */
void turns_init(struct turns *t, uint64_t seed, uint32_t n);

/* The next one, below n. */
uint32_t turns_next(struct turns *t);

#endif
