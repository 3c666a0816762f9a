/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The time at which an ended worker is replaced: at once after the first RESTARTS_AT_ONCE
 * successive lives shorter than a minute; later with a delay, so that a worker that always fails
 * does not use up the machine. Replacing never stops, because a user may cause the ends, and
 * captures of others must go on. Pure: the caller passes the time. */

#include <stddef.h>
#include <stdint.h>

enum {
	RESTARTS_AT_ONCE = 10,
	RESTART_STABLE_S = 60,
	RESTART_DELAY_S = 4,
};

struct restart {
	uint64_t began_ns;
	unsigned ends;	 /* successive lives shorter than RESTART_STABLE_S */
	uint64_t due_ns; /* time to replace the worker; 0: it lives */
};

void restart_begin(struct restart *r, uint64_t now_ns);

/* Called when the worker has ended or could not be started. Returns the delay. */
uint64_t restart_end(struct restart *r, uint64_t now_ns);

static inline int restart_is_due(const struct restart *r, uint64_t now_ns)
{
	return r->due_ns != 0 && r->due_ns <= now_ns;
}

/* Milliseconds until the first of n workers must be replaced, rounded up, for poll(); 0: one is
 * due; -1: all live. */
int restart_next_ms(const struct restart *r, size_t n, uint64_t now_ns);
