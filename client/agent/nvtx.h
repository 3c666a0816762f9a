/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The NVTX ranges of this process, as its own calls open and close them. */

#include <stdbool.h>
#include <stdint.h>

#include "client/agent/intern.h"
#include "client/agent/nvtx_filter.h"

/* Where the calling thread is in `in`; it counts as a launch there. */
void nvtx_current_path(struct intern *in, struct site_path *ret);

/* The number in `in` of the set of start/end ranges that are open in the process; 0: none is open.
 */
uint32_t nvtx_active_set(struct intern *in);

/* Is a launch that the calling thread makes now measured, by the ranges that are open? capture is
 * the number of the one that f belongs to. */
bool nvtx_selects(struct nvtx_filter *f, uint32_t capture);

/* Sets whether ranges and marks may begin phases of a capture from now on. */
void nvtx_watch(bool on);

/* Called by NVTX in each library that uses it; export_table is its function of that name. */
int nvtx_initialize(const void *(*export_table)(uint32_t));
