/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The part of the guard that asks the driver and waits. Only guard.c uses it, except for suspects.
 * Needs, as guard.h does, the context's lock held and the context current. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/agent/guard.h"

/* Does the process use several contexts? */
bool guard_wait_is_wide(const struct capture *c);

/* May streams be queried and events recorded? That would invalidate a stream capture under way. */
bool guard_wait_may_ask(const struct capture *c);

/* Is the stream `only` idle? If it is NULL: are all streams idle, apart from `except`? */
bool guard_wait_is_done(struct capture *c, struct ranges *r, CUstream only, CUstream except);

/* Creates the event when it is first needed. */
bool guard_wait_make_event(struct capture *c, CUevent *event);

/* From now on launches look for the end of the stream's present work, of which a kernel of this
 * function is the last. waited: a launch has waited for it in vain. */
void guard_wait_watch(struct capture *c, struct ranges *r, uintptr_t work, CUstream stream,
		      bool waited);

/* How long a launch waits for a kernel of this function, or for streams that run the function. */
uint64_t guard_wait_limit_ns(struct capture *c, uint32_t pass, uintptr_t work);

/* Waits until guard_wait_is_done(). False: timed out; the time is added with gate_spend(). */
bool guard_wait_for(struct capture *c, struct ranges *r, CUstream only, CUstream except,
		    uint64_t limit_ns);

/* To be called after a wait that timed out, with its limit. */
void guard_wait_note_in_vain(struct capture *c, struct ranges *r, uint64_t limit_ns);

/* Waits for all streams apart from `except`. The limit depends on the function that keeps them busy
 * and on earlier waits in vain. */
bool guard_wait_for_streams(struct capture *c, struct ranges *r, CUstream except, uint32_t pass);

/* Sleeps between two queries of a wait that began at since_ns; at first returns at once. */
void guard_wait_pause(uint64_t since_ns);

/* What a capture knows about functions and graphs whose kernels did not end within a moment. Any
 * thread may read and write an entry. If two threads write at once, one value may be lost, which
 * only costs another wait. */

enum { SUSPECTS_MAX = 64, SUSPECT_CERTAIN = 2 };

struct suspect {
	_Atomic(uintptr_t) work; /* handle of the function or graph; 0: free */
	/* How many kernels in a row ended only after a launch had waited for them. */
	atomic_uint in_vain;
	/* How many kernels ended before another stream was given work. */
	atomic_uint proofs;
	/* The longest time of a kernel that ended while a launch waited for it. */
	_Atomic(uint64_t) takes_ns;
	atomic_bool told;
};

struct suspects {
	struct suspect v[SUSPECTS_MAX];
};

/* NULL: there is no entry for this function or graph. */
struct suspect *suspects_find(struct suspects *l, uintptr_t work);

/* Launches no longer wait for a suspect's kernels. */
static inline bool suspect_is_certain(const struct suspect *e)
{
	return e && atomic_load(&e->in_vain) >= SUSPECT_CERTAIN;
}
