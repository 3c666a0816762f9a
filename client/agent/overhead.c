/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/overhead.h"

#include <cupti_driver_cbid.h>

#include <sys/syscall.h>
#include <unistd.h>

#include "client/agent/arguments.h"
#include "client/agent/capture.h"
#include "client/agent/section.h"
#include "proto/base/clock.h"

/* Calibration: the agent makes a call that does next to nothing some times without a callback and
 * some times with one, in turns, and takes the least of each, because other programs of the machine
 * only make both longer. No thread is inside the capture yet, so the agent's callback returns at
 * once, and the difference is CUPTI's. choosing.c times what the agent's own callback takes.
 *
 * Critical path: a thread's callbacks delay the program only if the GPU then runs out of work. A
 * launch that finds its stream idle was awaited by the GPU; but so it is behind a call that waits
 * for the GPU, however fast the thread is. So the thread observes a launch in
 * 2 * CHOOSING_TIMES_ONE_IN: if the stream is idle at this launch or at one of those that follow,
 * before the thread waits for the GPU, the callbacks were on the critical path. The launches that
 * follow are asked at growing distances, because each question costs 0.2 to 1.4 us. */

enum { ROUNDS = 8, CALLS = 16, LAUNCHES_OBSERVED = 64 };
enum { UNREPORTED_MAX = 64 }; /* timed callbacks of a thread whose stream nobody could ask */
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

/* A stream that is being captured must not be asked, nor may others be while one is. A late capture
 * has not been told of stream captures that began before it; but CUPTI's Start fails while there is
 * one, so once it has succeeded there is none. */
static bool may_ask(struct capture *c, const struct ranges *r)
{
	return capture_is_measuring(c) && !stream_captures_any(&c->stream_captures) &&
	       (!c->late || (r->has_started && atomic_load(&c->n_contexts) == 1) ||
		clock_now_ns() - c->made_ns > LATE_NS);
}

/* With the context's lock, for which who begins a stream capture waits (callbacks.c). */
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

/* Idle: the GPU has waited for the thread. Busy: it has not yet. */
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

/* Default streams have the same handle in each context, and those of threads in each thread. */
static uint32_t number_stream(const struct section *v, CUcontext context, CUstream stream)
{
	uint64_t number = (uintptr_t)context ^ (uint64_t)(uintptr_t)stream << 1;

	number += stream == CU_STREAM_PER_THREAD ? (uintptr_t)v : 0;
	return (uint32_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

/* Launches into other streams say nothing of the one that is observed. */
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

/* The call returns when the GPU has done what came before. */
static bool waits_for_gpu(CUpti_CallbackId id)
{
	return overhead_is_synchronize(id) || id == CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2 ||
	       id == CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2_ptds;
}

void overhead_observe(struct capture *c, struct section *v, CUpti_CallbackId id,
		      const CUpti_CallbackData *data, bool timed)
{
	bool waits =
		v->launching != NULL || waits_for_gpu(id); /* a launch that is measured as well */
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
