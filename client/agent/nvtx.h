/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The NVTX ranges that the process opens and closes. */

#include <stdbool.h>
#include <stdint.h>

#include "client/agent/intern.h"
#include "client/agent/nvtx_filter.h"

/* The path of the calling thread's ranges, in the numbers of `in`. Counts as a launch of the
 * thread. */
void nvtx_current_path(struct intern *in, struct site_path *ret);

/* The number in `in` of the set of the process's open start/end ranges; 0: none is open. */
uint32_t nvtx_active_set(struct intern *in);

/* Do the open ranges select a launch that the calling thread makes now? capture: number of the
 * capture that f belongs to. */
bool nvtx_selects(struct nvtx_filter *f, uint32_t capture);

/* Sets whether ranges and marks may begin phases from now on. */
void nvtx_watch(bool on);

/* Called by the NVTX code in each library that uses NVTX, with NVTX's function export_table. */
int nvtx_initialize(const void *(*export_table)(uint32_t));
