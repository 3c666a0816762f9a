/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Where a capture is. Any thread may read the state, and move it forward: it only rises. */

#include <stdatomic.h>
#include <stdbool.h>

enum capture_state {
	CAPTURE_ATTACHING, /* CUPTI is being opened; no launch is measured yet */
	CAPTURE_MEASURING, /* launches are measured */
	/* No launch is measured any more; contexts let go of the counters, the program's threads
	 * leave the capture, and what is queued goes out. */
	CAPTURE_STOPPING,
	CAPTURE_OVER, /* the queue takes no batch; CUPTI is left, and goodbye is said */
};

/* True: the capture is in that state from now on. False: it was there already, or is beyond. */
static inline bool state_move(_Atomic(enum capture_state) *state, enum capture_state to)
{
	enum capture_state from = atomic_load(state);

	while (from < to && !atomic_compare_exchange_weak(state, &from, to)) {
	}
	return from < to;
}

/* The program exits: captures end, none begins, and nobody calls CUPTI to tidy up. Both may be
 * called in a signal handler. */
void state_note_exit(void);
bool state_is_exiting(void);
