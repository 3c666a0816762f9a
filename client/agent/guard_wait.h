/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The part of the guard that asks the driver and waits. Only guard.c uses it, but for suspects. As
 * in guard.h: with the context's lock held and the context current. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/agent/guard.h"

/* Does the process use several contexts? */
bool guard_wait_is_wide(const struct capture *c);

/* Streams may be asked, and events recorded, only while none captures a graph: it would be spoilt.
 */
bool guard_wait_may_ask(const struct capture *c);

/* Is this stream idle; with only NULL: are all streams but except? */
bool guard_wait_is_done(struct capture *c, struct ranges *r, CUstream only, CUstream except);

/* Creates the event when it is first needed. */
bool guard_wait_make_event(struct capture *c, CUevent *event);

/* From now on launches look for the end of what the stream has got, of which this function is the
 * last one. waited: in vain. */
void guard_wait_watch(struct capture *c, struct ranges *r, uintptr_t work, CUstream stream,
		      bool waited);

/* How long a launch waits for a kernel of this function, or for streams that run it. */
uint64_t guard_wait_limit_ns(struct capture *c, uint32_t pass, uintptr_t work);

/* Waits until guard_wait_is_done(). False: in vain, which is noted in the process's account. */
bool guard_wait_for(struct capture *c, struct ranges *r, CUstream only, CUstream except,
		    uint64_t limit_ns);

/* To be called after a wait in vain, with its limit. */
void guard_wait_note_in_vain(struct capture *c, struct ranges *r, uint64_t limit_ns);

/* Waits for all streams but except, as long as what they run is waited for. */
bool guard_wait_for_streams(struct capture *c, struct ranges *r, CUstream except, uint32_t pass);

/* Sleeps between two looks of a wait that began then. */
void guard_wait_pause(uint64_t since_ns);

/* What a capture has learnt of functions and graphs whose kernels did not end within a moment. Any
 * thread may ask and tell; what two tell at once may be lost, which only costs another wait. */

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

/* NULL: nothing is known. */
struct suspect *suspects_find(struct suspects *l, uintptr_t work);

/* Launches no longer wait for a suspect's kernels. */
static inline bool suspect_is_certain(const struct suspect *e)
{
	return e && atomic_load(&e->in_vain) >= SUSPECT_CERTAIN;
}
