/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Inside of the fake driver API library: work that is not done yet. */

#include "tests/fake/gpu.h"

/* Parts of kernels' names. Their arguments point into the program's own memory. */
#define QUEUE_WAITS "waits" /* (uint32_t *flag): ends when it is not 0 */
#define QUEUE_SETS "sets"   /* (uint32_t *flag): makes it 1 */
#define QUEUE_MEETS                                                                   \
	"meets" /* (uint32_t *mine, uint32_t *theirs): makes mine 1, waits for theirs \
		 */
#define QUEUE_DELAYS                                                                           \
	"delays" /* (uint32_t *flag, uint64_t ns, uint32_t *ended): ends when flag is not 0 or \
		    that time is over, and then counts one in ended */
#define QUEUE_LASTS "lasts" /* (uint64_t ns): takes so long */

/* Called within a call that trace_enter() has begun. name may hold one of the words above. */
void queue_kernel(CUcontext context, CUstream stream, const char *name, void **arguments,
		  const struct fake_work *work, const struct fake_shape *shape);
void queue_graph(CUcontext context, CUstream stream, struct fake_graph *graph,
		 const struct fake_work *work);

/* Puts in what the range profiler puts around a range. pass is called when all earlier work has
 * ended, and is_gone asked while it has not, with the queue locked, unless the owner was forgotten.
 */
void queue_barrier(CUcontext context, const struct fake_barrier *barrier);
void queue_forget(const void *owner);

/* Waits on the CPU until every barrier has been passed. */
void queue_wait_barriers(void);

/* Waits for all work of the context, and ends its events. */
void queue_end_context(CUcontext context);

/* Has the context no work? The second waits on the CPU until it has none. */
bool queue_is_idle(CUcontext context);
void queue_drain(CUcontext context);
