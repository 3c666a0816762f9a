/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/agent/nvtx_filter.h"

/* The matches of the calling thread's stack, in buffer or in the stack's own memory; before them
 * are those of the stack below its topmost range. */
const uint64_t *nvtx_match_stack(struct nvtx_filter *f, uint32_t capture,
				 struct nvtx_matched *buffer);

/* Is a launch that the calling thread makes now measured, by the ranges that are open? capture is
 * the number of the one that f belongs to. */
bool nvtx_selects(struct nvtx_filter *f, uint32_t capture);
