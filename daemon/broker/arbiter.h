/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Decides who may use the counters of which GPU now. A GPU has one holder, because the hardware
 * allows one. Users take turns, and each user's reservations are served first come, first served. A
 * reservation may cover several GPUs and gets all of them at once or none, so two reservations
 * never wait for each other. A reservation that waits for a busy GPU also keeps later reservations
 * off the free GPUs that it needs, so it is not overtaken for ever. Pure: no clock, no loop, no
 * GPU. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/base/list.h"

enum {
	ARBITER_E_BUSY = 1,   /* another reservation holds a GPU, and this one does not wait */
	ARBITER_E_FULL = 2,   /* the queue has reached its limit */
	ARBITER_E_QUEUED = 3, /* not an error: arbiter_next() grants it later */

	ARBITER_OVERTAKEN_MAX =
		32, /* most later reservations that are served before a waiting one */
};

struct reservation {
	struct list link; /* in the queue or among the holders */
	uint64_t gpus;	  /* mask, not 0 */
	uid_t user;	  /* users take turns */
	enum reservation_state { RESERVATION_IDLE, RESERVATION_WAITING, RESERVATION_HOLDING } state;
	unsigned overtaken; /* number of later reservations that were served before this one */
};

struct arbiter {
	struct list queue; /* in the order in which they are served */
	struct list holders;
	uint64_t held; /* union of the holders' masks */
	unsigned n_waiting, max_waiting;
};

void arbiter_init(struct arbiter *a, unsigned max_waiting);
void reservation_init(struct reservation *c, uint64_t gpus, uid_t user);

/* Returns 0 if c holds its GPUs, or ARBITER_E_*. A reservation that waits may have been inserted
 * before others, whose positions then change. */
int arbiter_request(struct arbiter *a, struct reservation *c, bool wait);

/* Gives the GPUs back or leaves the queue; does nothing for an idle reservation. Call
 * arbiter_next() after it. */
void arbiter_release(struct arbiter *a, struct reservation *c);

/* Gives the next waiting reservation its GPUs, if they are free, and returns it. NULL: no
 * reservation can have its GPUs. */
struct reservation *arbiter_next(struct arbiter *a);

/* The position in the queue: 1 is next; 0: not waiting. */
unsigned arbiter_position(const struct arbiter *a, const struct reservation *c);

/* Does a waiting reservation want one of these GPUs? */
bool arbiter_is_waited_for(const struct arbiter *a, uint64_t gpus);

/* The reservation for which c waits, or would wait: the holder of one of its GPUs, else a
 * reservation before it in the queue; NULL: none. */
const struct reservation *arbiter_blocker(const struct arbiter *a, const struct reservation *c);
