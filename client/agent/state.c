/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/state.h"

static atomic_bool exiting;

void state_note_exit(void)
{
	atomic_store(&exiting, true);
}

bool state_is_exiting(void)
{
	return atomic_load(&exiting);
}
