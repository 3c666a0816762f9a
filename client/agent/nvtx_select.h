/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/agent/nvtx_filter.h"
#include "client/agent/nvtx_scope.h"

/* The matches of the calling thread's stack, in buffer or in the stack's own memory; before them
 * are those of the stack below its topmost range. */
const uint64_t *nvtx_match_stack(struct nvtx_filter *f, uint32_t capture,
				 struct nvtx_matched *buffer);

/* If the scope is on: pushes those ranges of the calling thread on it that it does not know yet,
 * also ranges from before the capture. */
void nvtx_adopt_stack(struct nvtx_scope *scope, uint32_t capture);

/* Is a launch that the calling thread makes now measured, by the ranges that are open? capture is
 * the number of the one that f and scope belong to. */
bool nvtx_selects(struct nvtx_filter *f, struct nvtx_scope *scope, uint32_t capture);
