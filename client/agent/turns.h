/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The order in which the passes of one context take turns; and the share of the time that each pass
 * has had in a process. */

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

/* The next pass, below n: in most cases the one that CUPTI has next; now and then, if
 * may_leave_out, the one after that. */
uint32_t turns_next(struct turns *t, uint32_t pass, bool may_leave_out);

struct turn_shares {
	uint32_t n;
	uint64_t ticks[LIMIT_GROUPS]; /* how often each pass was noted */
	_Atomic float share[LIMIT_GROUPS];
};

void turn_shares_init(struct turn_shares *s, uint32_t n);

/* Notes that pass has its turn. To be called about ten times a second, by one thread at a time. */
void turn_shares_note(struct turn_shares *s, uint32_t pass);

/* The chance that a launch falls into the turn of pass, estimated from the notes so far. Any thread
 * may call this. */
static inline float turn_shares_of(const struct turn_shares *s, uint32_t pass)
{
	return atomic_load_explicit(&s->share[pass], memory_order_relaxed);
}
