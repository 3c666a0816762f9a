/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Where a capture is. Any thread may read the state, and move it forward; state.c has the moves. */

#include <stdatomic.h>
#include <stdbool.h>

enum capture_state {
	CAPTURE_ATTACHING,  /* CUPTI is being opened; no launch is measured yet */
	CAPTURE_MEASURING,  /* launches are measured */
	CAPTURE_STOPPING,   /* no launch is measured any more; contexts let go of the counters */
	CAPTURE_CLOSING,    /* and the program's threads leave: calls of theirs may go unnoticed */
	CAPTURE_DELIVERING, /* no batch is expected any more: what is queued goes out */
	CAPTURE_LEAVING,    /* the queue takes no batch; CUPTI is left, and goodbye is said */
	CAPTURE_OVER,	    /* goodbye was said */
	CAPTURE_STATES,
};

/* True: the capture is in that state from now on. False: the table has no such transition, because
 * another thread was faster; nothing has changed. */
bool state_move(_Atomic(enum capture_state) *state, enum capture_state to);

/* The program exits: captures end, none begins, and nobody calls CUPTI to tidy up. Both may be
 * called in a signal handler. */
void state_note_exit(void);
bool state_is_exiting(void);
