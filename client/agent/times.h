/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Where a capture has the kernels' times from: CUPTI's tracing (activity.h), or the lengths of the
 * ranges around them. */

#include <stdbool.h>

struct capture;

/* Where somebody else in the process uses CUPTI's records. */
#define TIMES_OTHERS_REMEDY \
	"Run the program without its own tracing (torch.profiler, CUPTI's activity API)."

/* While metrics can still be added to the plan: decides for lengths of ranges if tracing would
 * change what is measured. */
void times_init(struct capture *c);

/* Before a context is set up for its first range, or a graph is captured: CUPTI traces from now on,
 * unless times_init() has settled it. Not before, because tracing costs each launch of the process
 * something, whether it is measured or not. The launch whose callback this is called in is traced
 * as well. False: another thread is at it, within CUPTI, and does not come back. */
bool times_begin(struct capture *c);
