/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_TURNS_H
#define GPUCTR_AGENT_TURNS_H

/* Whose turn it is, of the passes of one context; and what part of the time turns take, of a
 * process. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/wire/limits.h"

struct turns {
	uint64_t seed, drawn;
	uint32_t n;
};

/* n from 1 to LIMIT_GROUPS. */
void turns_init(struct turns *t, uint64_t seed, uint32_t n);

/* The pass after this one, below n: mostly that which CUPTI has next, now and then the one after
 * it, where that may be. */
uint32_t turns_next(struct turns *t, uint32_t pass, bool may_leave_out);

struct turn_shares {
	uint32_t n;
	uint64_t ticks[LIMIT_GROUPS]; /* times that it was the turn of one */
	_Atomic float share[LIMIT_GROUPS];
};

void turn_shares_init(struct turn_shares *s, uint32_t n);

/* It is the turn of pass; each tenth of a second or so, by one thread at a time. */
void turn_shares_note(struct turn_shares *s, uint32_t pass);

/* The chance that a launch comes when it is the turn of pass, by what was noted until now. Any
 * thread. */
static inline float turn_shares_of(const struct turn_shares *s, uint32_t pass)
{
	return atomic_load_explicit(&s->share[pass], memory_order_relaxed);
}

#endif
