/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_BROKER_ARBITER_H
#define GPUCTR_BROKER_ARBITER_H

/* Who may use the counters of which GPU now: one holder a GPU (the hardware allows one), first come
 * first served. A claim may cover several GPUs and gets all of them at once or none, so two claims
 * can never wait for each other. A claim that waits for a busy GPU also keeps later claims off the
 * free GPUs it needs: it cannot be overtaken for ever. Pure: no clock, no loop, no GPU. */

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/list.h"

enum {
	ARBITER_E_BUSY = 1,   /* held, and the claim does not wait */
	ARBITER_E_FULL = 2,   /* the queue has reached its limit */
	ARBITER_E_QUEUED = 3, /* not an error: granted later by arbiter_next() */
};

struct claim {
	struct list link; /* in the queue or among the holders */
	uint64_t gpus;	  /* mask, not 0 */
	enum claim_state { CLAIM_IDLE, CLAIM_WAITING, CLAIM_HOLDING } state;
};

struct arbiter {
	struct list queue;
	struct list holders;
	uint64_t held; /* union of the holders' masks */
	unsigned n_waiting, max_waiting;
};

void arbiter_init(struct arbiter *a, unsigned max_waiting);
void claim_init(struct claim *c, uint64_t gpus);

/* 0: holding. ARBITER_E_*. */
int arbiter_request(struct arbiter *a, struct claim *c, bool wait);

/* Gives back or leaves the queue; an idle claim is left alone. Then call arbiter_next(). */
void arbiter_release(struct arbiter *a, struct claim *c);

/* The next waiting claim that can hold now, already holding; NULL when there is none. */
struct claim *arbiter_next(struct arbiter *a);

/* 1: next in turn; 0: not waiting. */
unsigned arbiter_position(const struct arbiter *a, const struct claim *c);

/* Who keeps c waiting: the holder of one of its GPUs, or else an earlier waiting claim; NULL: none.
 */
const struct claim *arbiter_blocker(const struct arbiter *a, const struct claim *c);

#endif
