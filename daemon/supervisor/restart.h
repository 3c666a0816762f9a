/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_DAEMON_RESTART_H
#define GPUCTR_DAEMON_RESTART_H

/* When a worker that has ended is replaced: at once, RESTARTS_AT_ONCE times while none of its lives
 * lasts a minute; from then on after a delay that doubles, so that a process that cannot live does
 * not take the machine's time. Nobody ever gives up: what ends a worker may be a user's doing, and
 * the others' captures are not to end with it. Pure: the clock is the caller's. */

#include <stdint.h>

enum {
	RESTARTS_AT_ONCE = 10,
	RESTART_STABLE_S = 60,
	RESTART_DELAY_MIN_MS = 500,
	RESTART_DELAY_MAX_MS = 8000,
};

struct restart {
	uint64_t began_ns;
	unsigned ends;	 /* in a row, of lives shorter than RESTART_STABLE_S */
	uint64_t due_ns; /* to be replaced then; 0: it lives */
};

void restart_begin(struct restart *r, uint64_t now_ns);

/* It has ended, or could not be started. Returns the delay. */
uint64_t restart_end(struct restart *r, uint64_t now_ns);

static inline int restart_is_due(const struct restart *r, uint64_t now_ns)
{
	return r->due_ns != 0 && r->due_ns <= now_ns;
}

#endif
