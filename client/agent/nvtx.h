/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The NVTX ranges of this process, as its own calls open and close them. */

#include <stdbool.h>
#include <stdint.h>

#include "client/agent/intern.h"

/* The number in `in` of the innermost range open on the calling thread, which includes the ranges
 * around it; 0: no range is open. */
uint32_t nvtx_current_range(struct intern *in);

/* The number in `in` of the set of start/end ranges that are open in the process; 0: none is open.
 */
uint32_t nvtx_active_set(struct intern *in);

/* Sets whether ranges and marks may begin phases of a capture from now on. */
void nvtx_watch(bool on);

/* Called by NVTX in each library that uses it; export_table is its function of that name. */
int nvtx_initialize(const void *(*export_table)(uint32_t));
