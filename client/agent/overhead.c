/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/overhead.h"

#include <cupti_driver_cbid.h>

#include <sys/syscall.h>
#include <unistd.h>

#include "client/agent/arguments.h"
#include "client/agent/capture.h"
#include "client/agent/section.h"
#include "proto/base/clock.h"

/* Calibration: the agent makes a cheap driver call several times, alternating rounds without and
 * with a callback. The agent takes the minimum of each, because other load on the machine can only
 * make rounds longer. No thread is inside the capture yet, so the agent's callback returns at once
 * and the difference is CUPTI's own cost. choosing.c times the agent's part of a callback.
 *
 * Critical path: a thread's callbacks delay the program only if the GPU then runs out of work. If a
 * stream is idle at a launch, the GPU has waited for that launch; but after a call that waits for
 * the GPU the stream is always idle, however fast the thread is. So the thread begins an
 * observation at one launch in 2 * CHOOSING_TIMES_ONE_IN: if the stream is idle at this launch or
 * at a later one, before the thread waits for the GPU, the callbacks were on the critical path. At
 * later launches the thread queries the stream at growing distances, because each query costs 0.2
 * to 1.4 us. */

enum { ROUNDS = 8, CALLS = 16, LAUNCHES_OBSERVED = 64 };
enum {
	UNREPORTED_MAX = 64
}; /* timed callbacks of a thread, after which they are reported as CRITICAL_UNKNOWN */
enum {
	CTX_SYNCHRONIZE_V2 = 800
}; /* of CUPTI_DRIVER_TRACE_CBID_*; the headers of CUDA 12 lack it */

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

double overhead_calibrate(const struct profiler *p, CUpti_SubscriberHandle subscriber)
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

/* While any stream is being captured into a graph, the agent must not query a stream. A late
 * capture does not know of stream captures that began before it; but CUPTI's Start fails during a
 * stream capture, so a successful Start proves that there was none. */
static bool may_ask(struct capture *c, const struct ranges *r)
{
	return capture_is_measuring(c) && !stream_captures_any(&c->stream_captures) &&
	       (!c->late || (r->has_started && atomic_load(&c->n_contexts) == 1) ||
		clock_now_ns() - c->made_ns > LATE_NS);
}

/* Queries the stream with the context's lock held: a thread that begins a stream capture waits for
 * that lock (callbacks.c). */
static enum critical ask(struct capture *c, const struct section *v, CUcontext context,
			 CUstream stream)
{
	struct ranges *r = v->last_context;
	enum critical critical = CRITICAL_UNKNOWN;

	if (!r || r->context != context || !lock_try(&r->gate.lock)) {
		return critical;
	}
	if (may_ask(c, r)) {
		critical = c->profiler->cuStreamQuery(stream) == CUDA_ERROR_NOT_READY ? CRITICAL_NOT
										      : CRITICAL;
	}
	lock_release(&r->gate.lock);
	return critical;
}

static void settle(struct capture *c, struct section *v, enum critical critical)
{
	v->observation.open = false;
	v->thread_id = v->thread_id ? v->thread_id : (uint32_t)syscall(SYS_gettid);
	choosing_note_callbacks(&c->choosing, v->thread_id, v->observation.stream, critical,
				&v->times);
}

/* Queries the stream. An idle stream means that the GPU waited for the thread; if the stream is
 * busy, the observation goes on. */
static void look(struct capture *c, struct section *v, CUcontext context, CUstream stream)
{
	struct observation *o = &v->observation;
	enum critical critical = ask(c, v, context, stream);

	if (critical == CRITICAL_NOT && o->next < LAUNCHES_OBSERVED) {
		o->next = o->next > 0 ? 2 * o->next : 1;
	} else {
		settle(c, v, critical);
	}
}

/* A number for a stream. The default stream has the same handle in every context, and the
 * per-thread default stream in every thread, so the number includes context and thread. */
static uint32_t number_stream(const struct section *v, CUcontext context, CUstream stream)
{
	uint64_t number = (uintptr_t)context ^ (uint64_t)(uintptr_t)stream << 1;

	number += stream == CU_STREAM_PER_THREAD ? (uintptr_t)v : 0;
	return (uint32_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

/* Counts launches into the observed stream; launches into other streams say nothing about it. */
static void observe_launch(struct capture *c, struct section *v, CUcontext context, CUstream stream,
			   bool timed)
{
	struct observation *o = &v->observation;
	uint32_t number = number_stream(v, context, stream);

	if (!o->open && timed) {
		*o = (struct observation){ .open = true, .stream = number };
	} else if (o->open && o->stream == number) {
		o->launches++;
	}
	if (o->open && o->stream == number && o->launches >= o->next) {
		look(c, v, context, stream);
	}
}

bool overhead_is_synchronize(CUpti_CallbackId id)
{
	return id == CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize ||
	       id == CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize_ptsz ||
	       id == CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize || id == CTX_SYNCHRONIZE_V2 ||
	       id == CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize;
}

/* Does this call return only after the GPU has finished earlier work? */
static bool waits_for_gpu(CUpti_CallbackId id)
{
	return overhead_is_synchronize(id) || id == CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2 ||
	       id == CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2_ptds;
}

void overhead_observe(struct capture *c, struct section *v, CUpti_CallbackId id,
		      const CUpti_CallbackData *data, bool timed)
{
	bool waits =
		v->launching != NULL || waits_for_gpu(id); /* a measured launch waits as well */
	struct arguments g;

	if (data->callbackSite != CUPTI_API_ENTER) {
		return;
	}
	if (waits) {
		if (v->observation.open) {
			settle(c, v, CRITICAL_NOT);
		}
	} else if (v->times.n >= UNREPORTED_MAX) {
		settle(c, v, CRITICAL_UNKNOWN);
	} else if ((timed || v->observation.open) && arguments_read(id, data->functionParams, &g)) {
		observe_launch(c, v, data->context, streams_normal(g.stream, g.per_thread_stream),
			       timed);
	}
}
