/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The state of a capture. Any thread may read it and move it forward; it never goes back. */

#include <stdatomic.h>
#include <stdbool.h>

enum capture_state {
	CAPTURE_ATTACHING, /* CUPTI is being opened; no launch is measured yet */
	CAPTURE_MEASURING, /* launches are measured */
	/* No launch is measured any more: contexts release the counters, the program's threads
	 * leave the capture, and the delivering thread sends the queue. */
	CAPTURE_STOPPING,
	CAPTURE_OVER, /* the queue takes no batch; the delivering thread leaves CUPTI and sends
			 goodbye */
};

/* True: the capture is in that state from now on. False: it already was, or has passed the state.
 */
static inline bool state_move(_Atomic(enum capture_state) *state, enum capture_state to)
{
	enum capture_state from = atomic_load(state);

	while (from < to && !atomic_compare_exchange_weak(state, &from, to)) {
	}
	return from < to;
}

/* The program exits: captures end, none begins, and no thread calls CUPTI to tidy up. Both
 * functions may be called in a signal handler. */
void state_note_exit(void);
bool state_is_exiting(void);
