/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The cost of CUPTI's callbacks: CUPTI calls the agent before and after each launch, measured or
 * not. */

#include <stdbool.h>
#include <stdint.h>

#include "client/agent/profiler.h"

struct capture;
struct section;

/* CUPTI's own time for one callback, in ns. Measuring it takes about a tenth of a millisecond. 0:
 * too small to measure, or CUPTI does not enable the callback. */
double overhead_calibrate(const struct profiler *p, CUpti_SubscriberHandle subscriber);

/* A thread's observation of one stream: are the callbacks that were timed on the program's critical
 * path? */
struct observation {
	bool open;
	uint32_t stream;	 /* the stream's number */
	uint32_t launches, next; /* launches since the observation began; and at which of them the
				    thread queries the stream next */
};

/* Does this call wait for a stream, an event or a context? The agent has CUPTI report these calls
 * to overhead_observe() only if there is a budget. */
bool overhead_is_synchronize(CUpti_CallbackId id);

/* To be called at the end of each driver callback. timed: the callback was timed. Makes no call
 * that could invalidate a stream capture. */
void overhead_observe(struct capture *c, struct section *v, CUpti_CallbackId id,
		      const CUpti_CallbackData *data, bool timed);
