/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_NVTX_STACK_H
#define GPUCTR_AGENT_NVTX_STACK_H

/* What nvtx.c keeps of a thread's push/pop ranges. */

#include "client/agent/nvtx_event.h"

struct entry {
	struct event event;
	uint32_t range; /* 0: no number yet */
	uint32_t generation;
	uint64_t name; /* nvtx_current_name(); 0: not asked yet */
};

struct stack {
	struct entry *v;
	size_t n, room;
	uint32_t thread;
};

#endif
