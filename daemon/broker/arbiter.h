/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Decides who may use the counters of which GPU now. A GPU has one holder, because the hardware
 * allows one. Users take turns, and each user's claims are served first come, first served. A claim
 * may cover several GPUs and gets all of them at once or none, so two claims never wait for each
 * other. A claim that waits for a busy GPU also keeps later claims off the free GPUs that it needs,
 * so it cannot be overtaken for ever. Pure: no clock, no loop, no GPU. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/base/list.h"

enum {
	ARBITER_E_BUSY = 1,   /* held by another claim, and this one does not wait */
	ARBITER_E_FULL = 2,   /* the queue has reached its limit */
	ARBITER_E_QUEUED = 3, /* not an error: arbiter_next() grants it later */

	ARBITER_OVERTAKEN_MAX = 32, /* how many later claims may be served before a waiting one */
};

struct claim {
	struct list link; /* in the queue or among the holders */
	uint64_t gpus;	  /* mask, not 0 */
	uid_t user;	  /* takes turns with others */
	enum claim_state { CLAIM_IDLE, CLAIM_WAITING, CLAIM_HOLDING } state;
	unsigned overtaken; /* number of later claims that were served before this one */
};

struct arbiter {
	struct list queue; /* in the order in which they are served */
	struct list holders;
	uint64_t held; /* union of the holders' masks */
	unsigned n_waiting, max_waiting;
};

void arbiter_init(struct arbiter *a, unsigned max_waiting);
void claim_init(struct claim *c, uint64_t gpus, uid_t user);

/* Returns 0 if c holds its GPUs, or ARBITER_E_*. A claim that waits may have been inserted before
 * others, whose positions then change. */
int arbiter_request(struct arbiter *a, struct claim *c, bool wait);

/* Gives the GPUs back or leaves the queue; does nothing for an idle claim. Call arbiter_next()
 * after it. */
void arbiter_release(struct arbiter *a, struct claim *c);

/* Gives the next waiting claim its GPUs, if they are free, and returns it. NULL: no claim can have
 * its GPUs. */
struct claim *arbiter_next(struct arbiter *a);

/* The place in the queue: 1 is next; 0: not waiting. */
unsigned arbiter_position(const struct arbiter *a, const struct claim *c);

/* The claim for which c waits, or would wait: the holder of one of its GPUs, else a claim before it
 * in the queue; NULL: none. */
const struct claim *arbiter_blocker(const struct arbiter *a, const struct claim *c);
