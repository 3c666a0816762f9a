/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/seeing.h"

#include <cupti_driver_cbid.h>

#include "client/agent/arguments.h"
#include "client/agent/capture.h"
#include "client/agent/visits.h"
#include "proto/base/clock.h"

/* A call that does next to nothing is made some times without a callback and some times with one,
 * in turns, and the least of each is taken: what another program does to the machine meanwhile
 * makes both longer. Nobody is let into the capture yet, so the callback itself returns at once,
 * and the difference is CUPTI's. What our callback does is timed on the launches themselves
 * (choosing.c). */

enum { ROUNDS = 8, CALLS = 16 };

#define LATE_NS (5 * CLOCK_NS_PER_S)

static uint64_t time_calls(const struct profiler *p)
{
	uint64_t begin_ns = clock_now_ns();
	int version;

	for (int i = 0; i < CALLS; i++) {
		p->cuDriverGetVersion(&version);
	}
	return clock_now_ns() - begin_ns;
}

static bool listen(const struct profiler *p, CUpti_SubscriberHandle subscriber, uint32_t enable)
{
	return p->cuptiEnableCallback(enable, subscriber, CUPTI_CB_DOMAIN_DRIVER_API,
				      CUPTI_DRIVER_TRACE_CBID_cuDriverGetVersion) == CUPTI_SUCCESS;
}

double seeing_calibrate(const struct profiler *p, CUpti_SubscriberHandle subscriber)
{
	uint64_t without_ns = UINT64_MAX, with_ns = UINT64_MAX, ns;

	for (int i = 0; i < ROUNDS; i++) {
		ns = time_calls(p);
		without_ns = ns < without_ns ? ns : without_ns;
		if (!listen(p, subscriber, 1)) {
			return 0;
		}
		ns = time_calls(p);
		with_ns = ns < with_ns ? ns : with_ns;
		listen(p, subscriber, 0);
	}
	return with_ns > without_ns ? (double)(with_ns - without_ns) / (2 * CALLS) : 0;
}

/* A stream that captures a graph must not be asked, nor may others be while one does. One that
 * began before a late capture is found at its next launch, which should not take so long. */
static bool may_ask(const struct capture *c)
{
	return atomic_load(&c->active) && !stream_captures_any(&c->stream_captures) &&
	       (!c->late || clock_now_ns() - c->made_ns > LATE_NS);
}

/* With the context's lock: whoever begins a graph capture waits for it (callbacks.c). */
static void ask(struct capture *c, CUstream stream)
{
	if (may_ask(c)) {
		choosing_note_gpu(&c->choosing,
				  c->profiler->cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
	}
}

void seeing_ask_gpu(struct capture *c, const struct visit *v, CUpti_CallbackId id,
		    const CUpti_CallbackData *data)
{
	struct ranges *r = v->last_context;
	struct arguments g;

	if (data->callbackSite == CUPTI_API_ENTER && r && r->context == data->context &&
	    arguments_read(id, data->functionParams, &g) && pthread_mutex_trylock(&r->lock) == 0) {
		ask(c, streams_normal(g.stream, g.per_thread_stream));
		pthread_mutex_unlock(&r->lock);
	}
}
