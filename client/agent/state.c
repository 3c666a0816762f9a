/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/state.h"

/* A capture of gpuctr-replay has no context of CUDA, and goes from attaching to delivering. When
 * the program exits no thread is waited for, and stopping is followed by delivering.
 *
 * Whether threads of the program are still inside the capture is another question, which section.c
 * answers: a capture that is over lingers until the last of them has left. */

#define TO(state) (1U << (state))

static const unsigned moves[CAPTURE_STATES] = {
	[CAPTURE_ATTACHING] = TO(CAPTURE_MEASURING) | TO(CAPTURE_STOPPING) | TO(CAPTURE_DELIVERING),
	[CAPTURE_MEASURING] = TO(CAPTURE_STOPPING),
	[CAPTURE_STOPPING] = TO(CAPTURE_CLOSING) | TO(CAPTURE_DELIVERING),
	[CAPTURE_CLOSING] = TO(CAPTURE_DELIVERING),
	[CAPTURE_DELIVERING] = TO(CAPTURE_LEAVING),
	[CAPTURE_LEAVING] = TO(CAPTURE_OVER),
	[CAPTURE_OVER] = 0,
};

static atomic_bool exiting;

bool state_move(_Atomic(enum capture_state) *state, enum capture_state to)
{
	enum capture_state from = atomic_load(state);

	while (moves[from] & TO(to)) {
		if (atomic_compare_exchange_strong(state, &from, to)) {
			return true;
		}
	}
	return false;
}

void state_note_exit(void)
{
	atomic_store(&exiting, true);
}

bool state_is_exiting(void)
{
	return atomic_load(&exiting);
}
