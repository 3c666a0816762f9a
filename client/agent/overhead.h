/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_SEEING_H
#define GPUCTR_AGENT_SEEING_H

/* What it costs that a call is seen, though nothing is measured: CUPTI tells of it before and
 * after. */

#include "client/agent/profiler.h"

struct capture;
struct visit;

/* What one such telling takes in CUPTI, in ns; it takes about a tenth of a millisecond to find out.
 * 0: it cannot be told apart from nothing, or CUPTI does not let itself be asked. */
double seeing_calibrate(const struct profiler *p, CUpti_SubscriberHandle subscriber);

/* At the callback before a launch, of some launches, with the thread's visit: has its stream work
 * queued? What the callback takes then holds nothing up as long as the GPU does not run dry. Other
 * callbacks are let pass, and nothing is asked that could spoil a graph that is being captured. */
void seeing_ask_gpu(struct capture *c, const struct visit *v, CUpti_CallbackId id,
		    const CUpti_CallbackData *data);

#endif
