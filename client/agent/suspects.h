/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a capture has learnt of functions and graphs whose kernels did not end within a moment. Any
 * thread may ask and tell; what two tell at once may be lost, which only costs another wait. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { SUSPECTS_MAX = 64, SUSPECT_CERTAIN = 2 };

struct suspect {
	_Atomic(uintptr_t) work; /* handle of the function or graph; 0: free */
	/* How many kernels in a row did not end while a launch waited for them, but after it. */
	atomic_uint in_vain;
	/* How many kernels ended before another stream was given work. */
	atomic_uint proofs;
	/* The longest time that a kernel has taken which ended while a launch waited. */
	_Atomic(uint64_t) takes_ns;
	atomic_bool told;
};

struct suspects {
	struct suspect v[SUSPECTS_MAX];
};

/* NULL: nothing is known; suspects_note() makes an entry, and returns NULL if there is no room. */
struct suspect *suspects_find(struct suspects *l, uintptr_t work);
struct suspect *suspects_note(struct suspects *l, uintptr_t work);

/* Launches no longer wait for a suspect's kernels. */
static inline bool suspect_is_certain(const struct suspect *e)
{
	return e && atomic_load(&e->in_vain) >= SUSPECT_CERTAIN;
}

/* A kernel ended while a launch waited for it, so it ended by itself: the launching thread could
 * not let it go. */
void suspects_ended_by_itself(struct suspects *l, uintptr_t work, uint64_t takes_ns);

/* A kernel ended after a launch had waited for it in vain. alone: before any other stream was given
 * work, so it does not wait for later launches. */
void suspects_ended_later(struct suspects *l, uintptr_t work, bool alone);
