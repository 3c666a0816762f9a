/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_NVTX_H
#define GPUCTR_AGENT_NVTX_H

/* The NVTX ranges of this process, as its own calls open and close them. */

#include <stdint.h>

#include "client/agent/intern.h"

/* Numbers of ranges are made in intern from now on; before, ranges are only kept. */
void nvtx_attach(struct intern *in);

/* In a forked child: ranges are still followed, but nobody asks for numbers any more. */
void nvtx_detach_after_fork(void);

/* The innermost range open on the calling thread, with all around it; 0: none. */
uint32_t nvtx_current_range(void);

/* The set of start/end ranges open in the process; 0: none. */
uint32_t nvtx_active_set(void);

/* Called by NVTX in each library that uses it; export_table is its function of that name. */
int nvtx_initialize(const void *(*export_table)(uint32_t));

#endif
