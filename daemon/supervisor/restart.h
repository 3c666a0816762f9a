/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* When a worker that has ended is replaced: at once for the first RESTARTS_AT_ONCE lives in a row
 * that were shorter than a minute; after that with a delay, so that a process that always fails
 * does not use up the machine. Replacing is never given up: a user may be the cause of the ends,
 * and the captures of others are not to end with it. Pure: the clock is the caller's. */

#include <stddef.h>
#include <stdint.h>

enum {
	RESTARTS_AT_ONCE = 10,
	RESTART_STABLE_S = 60,
	RESTART_DELAY_S = 4,
};

struct restart {
	uint64_t began_ns;
	unsigned ends;	 /* lives in a row that were shorter than RESTART_STABLE_S */
	uint64_t due_ns; /* when it is to be replaced; 0: it lives */
};

void restart_begin(struct restart *r, uint64_t now_ns);

/* The worker has ended, or could not be started. Returns the delay. */
uint64_t restart_end(struct restart *r, uint64_t now_ns);

static inline int restart_is_due(const struct restart *r, uint64_t now_ns)
{
	return r->due_ns != 0 && r->due_ns <= now_ns;
}

/* Milliseconds until the first of n is to be replaced, rounded up, for poll(); 0: one is due; -1:
 * all live. */
int restart_next_ms(const struct restart *r, size_t n, uint64_t now_ns);
