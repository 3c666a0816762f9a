/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_OVERHEAD_H
#define GPUCTR_AGENT_OVERHEAD_H

/* What CUPTI's callbacks cost a program, though nothing is measured: CUPTI calls the agent before
 * and after each launch. */

#include <stdbool.h>
#include <stdint.h>

#include "client/agent/profiler.h"

struct capture;
struct section;

/* What CUPTI itself takes for one callback, in ns. Finding out takes about a tenth of a
 * millisecond. 0: it cannot be told apart from nothing, or CUPTI does not let itself be asked. */
double overhead_calibrate(const struct profiler *p, CUpti_SubscriberHandle subscriber);

/* Of a thread: a launch whose callbacks were timed, for which the thread looks whether they lie on
 * the program's critical path. */
struct observation {
	bool open;
	uint32_t stream;	 /* its number */
	uint32_t launches, next; /* of the thread since, and at which the stream is asked again */
};

/* Is this a call that waits for a stream, an event or a context? CUPTI tells the agent of them only
 * with a budget, for overhead_observe(). */
bool overhead_is_synchronize(CUpti_CallbackId id);

/* At each driver callback of a thread, after the agent's other work in it. timed: the callback was
 * one of those that are timed. Asks nothing that could spoil a graph that is being captured. */
void overhead_observe(struct capture *c, struct section *v, CUpti_CallbackId id,
		      const CUpti_CallbackData *data, bool timed);

#endif
