/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAKE_QUEUE_H
#define FAKE_QUEUE_H

/* Inside the fake driver API library: work that has not been done yet. */

#include "tests/fake/gpu.h"

/* Parts of kernels' names. Arguments point into the program's own memory. */
#define QUEUE_WAITS "waits" /* (uint32_t *flag): ends when it is not 0 */
#define QUEUE_SETS "sets"   /* (uint32_t *flag): makes it 1 */
#define QUEUE_MEETS                                                                   \
	"meets" /* (uint32_t *mine, uint32_t *theirs): makes mine 1, waits for theirs \
		 */

void queue_kernel(CUcontext context, CUstream stream, const char *name, void **arguments);

/* What the range profiler puts around a range. */
void queue_barrier(CUcontext context);

/* Waits on the CPU until the context has nothing to do. */
void queue_drain(CUcontext context);

#endif
