/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdlib.h>

/* Where the library looks for the agent. given: value of --agent; NULL: not given. */
static inline const char *agent_path(const char *given)
{
	const char *path = given ? given : getenv("GPUCTR_AGENT");

	return path && path[0] ? path : GPUCTR_AGENT_PATH;
}
