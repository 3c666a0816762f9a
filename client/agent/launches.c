/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/capture.h"

#include <cupti_driver_cbid.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/agent/arguments.h"
#include "client/agent/contexts.h"
#include "client/agent/functions.h"
#include "client/agent/lock.h"
#include "client/agent/nvtx.h"
#include "client/agent/seeing.h"
#include "client/agent/slower.h"
#include "client/agent/visits.h"
#include "client/agent/wanted.h"
#include "proto/base/clean.h"
#include "proto/base/clock.h"

/* CUPTI calls on_callback on the launching thread before and after each driver call that launches
 * work. Before: decide, note the launch, push a range, with the context's lock held. After: pop,
 * and unlock. What a thread holds in between is in its visit, so that a launch within a launch
 * (libraries do that from host callbacks) is left alone, and that the capture lives as long. */

/* --- one launch --- */

/* A stream capture that began before ours has told of itself to nobody: so each stream is asked
 * once, when the thread comes to it. */
static bool stream_is_capturing(struct capture *c, struct visit *v, CUstream stream)
{
	bool first = c->late && !v->last_stream.asked, captures;
	uint64_t id;

	if (!first && !stream_captures_any(&c->stream_captures)) {
		return false;
	}
	id = stream_captures_find(c->profiler, stream, &captures);
	v->last_stream.asked = !captures;
	if (captures && c->late) {
		stream_captures_meet(&c->stream_captures, id);
	}
	return captures;
}

/* The context of a launch, which is mostly the thread's last one. */
static struct ranges *find_context(struct capture *c, struct visit *v, CUcontext context)
{
	if (!v->last_context || v->last_context->context != context) {
		v->last_context = contexts_find(c, context);
	}
	return v->last_context;
}

/* The same, but one that nobody has launched into is left alone: NULL. */
static struct ranges *find_known_context(struct capture *c, struct visit *v, CUcontext context)
{
	struct ranges *r = v->last_context;

	if (r && r->context == context) {
		return r;
	}
	r = atomic_load(&c->n_contexts) > 0 ? contexts_known(c, context) : NULL;
	v->last_context = r ? r : v->last_context;
	return r;
}

/* CUPTI's number of a stream; asked again only when the thread changes streams. A new stream at an
 * old one's address gets the old number at worst until then. */
static void find_stream(struct capture *c, struct visit *v, CUcontext context, CUstream stream,
			bool per_thread)
{
	uint32_t number;

	if (v->last_stream.known && v->last_stream.context == context &&
	    v->last_stream.stream == stream && v->last_stream.per_thread == per_thread) {
		return;
	}
	v->last_stream.known = true;
	v->last_stream.asked = false;
	v->last_stream.context = context;
	v->last_stream.stream = stream;
	v->last_stream.per_thread = per_thread;
	v->last_stream.number = c->profiler->cuptiGetStreamIdEx(context, stream, per_thread,
								&number) == CUPTI_SUCCESS
					? number
					: (uintptr_t)stream;
}

static void note_launch(struct capture *c, struct visit *v, struct launch *l,
			const struct ranges *r, const struct function *f, const struct arguments *g,
			const CUpti_CallbackData *data)
{
	if (v->thread_id == 0) {
		v->thread_id = (uint32_t)syscall(SYS_gettid);
	}
	*l = (struct launch){
		.function = f->id,
		.dynamic_shared_bytes = g->dynamic_shared_bytes,
		.device = r->device,
		.context = data->contextUid,
		.stream = v->last_stream.number,
		.correlation = data->correlationId,
		.thread = v->thread_id,
		.range = nvtx_current_range(&c->intern),
		.set = nvtx_active_set(&c->intern),
		.start_ns = clock_wall_ns(), /* until it is known when it began */
		.kind = g->kind,
		.stratum = v->chosen.stratum,
		.chance = v->chosen.choice.chance,
		.pass = (uint8_t)v->chosen.pass,
	};
	memcpy(l->grid, g->grid, sizeof(l->grid));
	memcpy(l->block, g->block, sizeof(l->block));
	activity_expect(c->activity, data->correlationId);
}

/* Another thread may be within a launch that does not return until this one was made. */
static bool wait_for_lock(struct capture *c, struct ranges *r)
{
	uint64_t patience_ns;

	do {
		patience_ns = guard_patience_ns(&c->patience);
		if (lock_until(&r->lock, clock_now_ns() + patience_ns)) {
			return true;
		}
	} while (ranges_are_turning(r));
	guard_spend(&c->patience, patience_ns);
	return false;
}

/* For work of this stream, which the GPU does not get meanwhile. */
static bool lock_patiently(struct capture *c, struct ranges *r, CUstream stream)
{
	bool locked = pthread_mutex_trylock(&r->lock) == 0, stands;

	if (!locked) {
		stands = guard_begin_standing(&r->guard, stream);
		locked = wait_for_lock(c, r);
		if (stands) {
			guard_end_standing(&r->guard);
		}
	}
	return locked;
}

static bool lock_for_launch(struct capture *c, struct ranges *r, const struct arguments *g)
{
	bool locked = lock_patiently(c, r, streams_normal(g->stream, g->per_thread_stream));

	if (locked) {
		guard_shut(&r->guard);
	}
	return locked;
}

static void unlock_after_launch(struct ranges *r)
{
	atomic_store(&r->call, NULL);
	guard_let_in(&r->guard);
	pthread_mutex_unlock(&r->lock);
}

static void note_for_guard(struct visit *v, struct function *f, const struct arguments *g,
			   struct ranges *r)
{
	v->launched = (struct guard_launch){
		.stream = streams_normal(g->stream, g->per_thread_stream),
		.work = g->function ? (uintptr_t)g->function : (uintptr_t)g->graph,
		.name = f->name,
		.collective = f->collective,
		.proofs = &f->proofs,
		.stream_number = v->last_stream.number,
	};
	snprintf(r->last_kernel, sizeof(r->last_kernel), "%s", f->name);
	r->last_stream = v->launched.stream_number;
	r->last_launch_ns = clock_now_ns();
	r->told_stuck = false;
}

/* With the context's lock, which is held on if a range is open then. False: none is. */
static bool open_range(struct capture *c, struct visit *v, struct function *f,
		       const struct arguments *g, const CUpti_CallbackData *data, struct ranges *r)
{
	struct launch *l;

	/* Or the pass that it was chosen for has given way meanwhile. */
	if (!atomic_load(&c->active) || v->chosen.pass != r->pass) {
		atomic_fetch_add(&c->counters.unready, 1);
		unlock_after_launch(r);
		return false;
	}
	functions_prepare(c, f);
	find_stream(c, v, data->context, g->stream, g->per_thread_stream);
	note_for_guard(v, f, g, r);
	if (!c->method->open(c, r, &v->launched, &l)) {
		unlock_after_launch(r);
		return false;
	}
	note_launch(c, v, l, r, f, g, data);
	v->launching = r;
	return true;
}

/* False: it is not, and counted. */
static bool measure(struct capture *c, struct visit *v, struct function *f,
		    const struct arguments *g, const CUpti_CallbackData *data, struct ranges *r)
{
	CUstreamCaptureMode mode;
	bool opened;

	if (!r || !lock_for_launch(c, r, g)) {
		atomic_fetch_add(&c->counters.unready, 1);
		return false;
	}
	if (!c->late) {
		return open_range(c, v, f, g, data, r);
	}
	mode = stream_captures_relax(c->profiler);
	opened = open_range(c, v, f, g, data, r);
	stream_captures_give_back(c->profiler, mode);
	return opened;
}

static void end_range(struct capture *c, struct visit *v, struct ranges *r, bool launched)
{
	CUstreamCaptureMode mode;

	if (!c->late) {
		c->method->close(c, r, &v->launched, launched);
		return;
	}
	mode = stream_captures_relax(c->profiler);
	c->method->close(c, r, &v->launched, launched);
	stream_captures_give_back(c->profiler, mode);
}

static void on_launch_enter(struct capture *c, struct visit *v, CUpti_CallbackId id,
			    const CUpti_CallbackData *data)
{
	struct arguments g;
	struct function *f;
	struct ranges *r;

	if (!data->context || !arguments_read(id, data->functionParams, &g)) {
		return;
	}
	atomic_fetch_add(&c->counters.seen, 1);
	f = functions_find(c, g.function, data->contextUid,
			   g.kind == WIRE_LAUNCH_GRAPH ? "(CUDA graph)"
			   : data->symbolName	       ? data->symbolName
						       : "(unnamed)");
	if (!f) {
		atomic_fetch_add(&c->counters.unready, 1);
		return;
	}
	if (c->late) {
		find_stream(c, v, data->context, g.stream, g.per_thread_stream);
	}
	if (stream_is_capturing(c, v, streams_normal(g.stream, g.per_thread_stream))) {
		atomic_fetch_add(&c->counters.capturing, 1);
		return;
	}
	if (!wanted_by_filter(c, f, &g)) {
		return;
	}
	r = find_context(c, v, data->context);
	if (r && !wanted_by_budget(c, v, r, f, &g)) {
		return;
	}
	if (!filter_reserve(&c->filter)) {
		atomic_fetch_add(&c->counters.filtered, 1);
	} else if (!measure(c, v, f, &g, data, r)) {
		filter_give_back(&c->filter);
	}
}

static void on_launch_exit(struct capture *c, struct visit *v, const CUpti_CallbackData *data)
{
	struct ranges *r = v->launching;
	const CUresult *result = data->functionReturnValue;

	v->launching = NULL;
	if (r->state == RANGES_STARTED) {
		end_range(c, v, r, !result || *result == CUDA_SUCCESS);
	}
	unlock_after_launch(r);
}

/* --- work that is not measured --- */

/* A launch; or a copy, a fill, or something to wait for. */
static struct guard_work read_work(CUpti_CallbackId id, const CUpti_CallbackData *data)
{
	struct arguments g;
	CUstream stream;
	bool per_thread;

	if (arguments_read(id, data->functionParams, &g)) {
		return (struct guard_work){ streams_normal(g.stream, g.per_thread_stream), true };
	}
	if (arguments_read_stream(id, data->functionParams, &stream, &per_thread)) {
		return (struct guard_work){ streams_normal(stream, per_thread), false };
	}
	return (struct guard_work){ .stream = NULL };
}

/* Between the callbacks the GPU gets it, at a time that nobody knows: ranges of other threads that
 * are open meanwhile may count it. So it waits until another thread's launch is over, which takes
 * microseconds, or until that is no longer to be expected. Its own launch it would wait for in
 * vain. One within another is a part of that.
 */
static void on_other_enter(struct capture *c, struct visit *v, CUpti_CallbackId id,
			   const CUpti_CallbackData *data)
{
	struct ranges *r = find_known_context(c, v, data->context);
	bool insist = v->launching != NULL;

	if (v->other) {
		v->others_within++;
		return;
	}
	v->other = r;
	while (r && !guard_other_begins(&r->guard, insist)) {
		insist = !lock_patiently(c, r, read_work(id, data).stream);
		if (!insist) {
			pthread_mutex_unlock(&r->lock);
		}
	}
}

static void on_other_exit(struct capture *c, struct visit *v, CUpti_CallbackId id,
			  const CUpti_CallbackData *data)
{
	const struct guard_work work = read_work(id, data);
	struct ranges *r = v->other;

	if (r && v->others_within == 0) {
		v->other = NULL;
		guard_other_ends(&r->guard, &work);
		return;
	}
	r = find_known_context(c, v, data->context);
	if (v->others_within > 0) {
		v->others_within--;
		if (r) {
			guard_disturb(&r->guard, &work);
		}
	} else if (r) {
		guard_stranger_ends(&r->guard, &work);
	}
}

/* --- other callbacks --- */

enum { LAUNCH_CALLBACKS = 8 }; /* the first ones */

static const CUpti_CallbackId callbacks[] = {
	CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
	CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
	CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
	CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
	CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
	CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
	CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
	CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz,
	CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture,
	CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_ptsz,
	CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2,
	CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2_ptsz,
	CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToGraph,
	CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToGraph_ptsz,
	CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture,
	CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture_ptsz,
	CUPTI_DRIVER_TRACE_CBID_cuProfilerStart,
	CUPTI_DRIVER_TRACE_CBID_cuProfilerStop,
	CUPTI_DRIVER_TRACE_CBID_cuStreamDestroy,
	CUPTI_DRIVER_TRACE_CBID_cuStreamDestroy_v2,
};

static bool begins_capture(CUpti_CallbackId id)
{
	return id == CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture ||
	       id == CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_ptsz ||
	       id == CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2 ||
	       id == CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2_ptsz ||
	       id == CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToGraph ||
	       id == CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToGraph_ptsz;
}

static bool ends_capture(CUpti_CallbackId id)
{
	return id == CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture ||
	       id == CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture_ptsz;
}

/* Some failures mean that the capture goes on. */
static bool capture_ended(CUresult result)
{
	return result != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD &&
	       result != CUDA_ERROR_ILLEGAL_STATE && result != CUDA_ERROR_INVALID_HANDLE &&
	       result != CUDA_ERROR_INVALID_VALUE && result != CUDA_ERROR_INVALID_CONTEXT;
}

/* A start or stop that was decided on before is waited for, but not a launch that hangs. */
static void wait_for_turns(struct capture *c)
{
	struct ranges *contexts[CONTEXTS_MAX];
	size_t n = contexts_list(c, contexts);

	for (size_t i = 0; i < n; i++) {
		if (lock_until(&contexts[i]->lock,
			       clock_now_ns() + guard_patience_ns(&c->patience))) {
			pthread_mutex_unlock(&contexts[i]->lock);
		}
	}
}

static CUstream stream_of(CUpti_CallbackId id, const CUpti_CallbackData *data)
{
	CUstream stream = NULL;
	bool per_thread = false;

	arguments_read_stream(id, data->functionParams, &stream, &per_thread);
	return streams_normal(stream, per_thread);
}

/* Counted before it begins, so that nothing synchronises in between. */
static void on_begin_capture(struct capture *c, CUpti_CallbackId id, const CUpti_CallbackData *data)
{
	const CUresult *result = data->functionReturnValue;
	bool began = !result || *result == CUDA_SUCCESS, captures;
	CUstream stream = stream_of(id, data);

	if (data->callbackSite == CUPTI_API_EXIT) {
		stream_captures_began(
			&c->stream_captures, stream,
			began ? stream_captures_find(c->profiler, stream, &captures) : 0, began);
		return;
	}
	/* Nodes are traced that were made while tracing was on. What captures already, of a program
	 * that runs, is not disturbed. */
	if (stream_captures_begin(&c->stream_captures) && !c->late) {
		capture_time_kernels(c);
	}
	wait_for_turns(c);
}

/* And after it has ended. */
static void on_end_capture(struct capture *c, struct visit *v, CUpti_CallbackId id,
			   const CUpti_CallbackData *data)
{
	const CUresult *result = data->functionReturnValue;
	CUstream stream = stream_of(id, data);
	bool captures;

	if (data->callbackSite == CUPTI_API_ENTER) {
		v->ending = stream_captures_find(c->profiler, stream, &captures);
	} else if (!result || capture_ended(*result)) {
		stream_captures_ended(&c->stream_captures, stream, v->ending);
	}
}

/* Before the program has the handle of a stream, and while it still has it. The driver holds locks
 * meanwhile: nothing is waited for here that another thread may hold over a call of the driver. */
static void on_resource(struct capture *c, const struct visit *v, CUpti_CallbackId id,
			const CUpti_ResourceData *data)
{
	CUstream stream = data->resourceHandle.stream;
	struct ranges *r;

	if (id == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING) {
		contexts_end(c, data->context, v->launching);
	} else if (id == CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING) {
		r = contexts_known(c, data->context);
		if (r) {
			streams_note(&r->guard.streams, stream, true);
		}
	} else if ((r = contexts_find(c, data->context)) != NULL) {
		streams_note(&r->guard.streams, stream, false);
	}
}

static bool is_profiler_call(CUpti_CallbackId id)
{
	return id == CUPTI_DRIVER_TRACE_CBID_cuProfilerStart ||
	       id == CUPTI_DRIVER_TRACE_CBID_cuProfilerStop;
}

/* cudaProfilerStart() and cudaProfilerStop() come here as well. */
static void on_profiler_call(struct capture *c, CUpti_CallbackId id, const CUpti_CallbackData *data)
{
	if (data->callbackSite == CUPTI_API_EXIT) {
		phase_on_profiler_call(&c->filter.phase,
				       id == CUPTI_DRIVER_TRACE_CBID_cuProfilerStart);
	}
}

static bool is_launch(CUpti_CallbackId id)
{
	for (size_t i = 0; i < LAUNCH_CALLBACKS; i++) {
		if (callbacks[i] == id) {
			return true;
		}
	}
	return false;
}

static void on_launch(struct capture *c, struct visit *v, CUpti_CallbackId id,
		      const CUpti_CallbackData *data)
{
	if (data->callbackSite == CUPTI_API_ENTER && v->launching) {
		v->nested++; /* a launch within a launch is a part of it */
	} else if (data->callbackSite == CUPTI_API_EXIT && v->nested > 0) {
		v->nested--;
	} else if (data->callbackSite == CUPTI_API_ENTER) {
		if (atomic_load_explicit(&c->active, memory_order_relaxed)) {
			on_launch_enter(c, v, id, data);
		}
		if (!v->launching) {
			on_other_enter(c, v, id, data);
		}
	} else if (v->launching) {
		on_launch_exit(c, v, data);
	} else {
		on_other_exit(c, v, id, data);
	}
}

/* Before the driver holds anything: a stream that is being asked is waited for. */
static void on_destroy_stream(struct capture *c, CUpti_CallbackId id,
			      const CUpti_CallbackData *data)
{
	if (data->callbackSite == CUPTI_API_ENTER) {
		contexts_remove_stream(c, stream_of(id, data));
	}
}

static bool destroys_stream(CUpti_CallbackId id)
{
	return id == CUPTI_DRIVER_TRACE_CBID_cuStreamDestroy ||
	       id == CUPTI_DRIVER_TRACE_CBID_cuStreamDestroy_v2;
}

static void on_driver_call(struct capture *c, struct visit *v, CUpti_CallbackId id,
			   const CUpti_CallbackData *data)
{
	if (begins_capture(id)) {
		on_begin_capture(c, id, data);
	} else if (ends_capture(id)) {
		on_end_capture(c, v, id, data);
	} else if (is_profiler_call(id)) {
		on_profiler_call(c, id, data);
	} else if (destroys_stream(id)) {
		on_destroy_stream(c, id, data);
	} else if (is_launch(id)) {
		on_launch(c, v, id, data);
	} else if (data->callbackSite == CUPTI_API_ENTER) {
		on_other_enter(c, v, id, data);
	} else {
		on_other_exit(c, v, id, data);
	}
}

/* Launches that are not measured, of those that are timed. */
static void time_call_begin(struct visit *v, CUpti_CallbackId id, const CUpti_CallbackData *data,
			    bool timed)
{
	if (data->callbackSite == CUPTI_API_ENTER && (timed || slower_wants_more()) &&
	    is_launch(id)) {
		v->call_ns = clock_now_ns();
	}
}

static void time_call_end(struct visit *v)
{
	if (v->call_ns != 0) {
		slower_note(clock_now_ns() - v->call_ns);
		v->call_ns = 0;
	}
}

static void visit(struct capture *c, struct visit *v, CUpti_CallbackDomain domain,
		  CUpti_CallbackId id, const void *data)
{
	bool was_launching = v->launching != NULL;
	uint64_t begin_ns = choosing_begin_callback(&c->choosing, &v->callbacks);
	int cancel;

	time_call_end(v);
	/* A thread that is cancelled with a lock of ours held would stop all others. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
		on_resource(c, v, id, data);
	} else {
		on_driver_call(c, v, id, data);
	}
	/* What measuring costs is noted where it is done. */
	if (begin_ns != 0 && !was_launching && !v->launching) {
		choosing_end_callback(&c->choosing, begin_ns);
		if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
			seeing_ask_gpu(c, v, id, data);
		}
	}
	if (c->choosing.on && !v->launching && domain == CUPTI_CB_DOMAIN_DRIVER_API) {
		time_call_begin(v, id, data, begin_ns != 0);
	}
	if (v->launching && !was_launching) {
		v->cancel_before = cancel; /* until the launch is over */
	} else if (!v->launching) {
		pthread_setcancelstate(was_launching ? v->cancel_before : cancel, NULL);
	}
}

static void CUPTIAPI on_callback(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId id,
				 const void *data)
{
	struct visit *v = visit_of_thread();
	struct capture *c;
	bool inside, was_launching;

	(void)userdata; /* the capture may be over: visit_begin() knows */
	if (!v) {
		return;
	}
	c = atomic_load_explicit(&v->capture, memory_order_relaxed);
	inside = c != NULL;
	was_launching = v->launching != NULL;
	c = inside				 ? c
	    : domain == CUPTI_CB_DOMAIN_RESOURCE ? visit_begin_surely(v)
						 : visit_begin(v);
	if (c) {
		visit(c, v, domain, id, data);
	}
	/* A visit lasts from the callback before a launch to the one after it. */
	if (!v->launching && (!inside || was_launching)) {
		visit_end(v);
	}
}

/* --- subscription --- */

static const CUpti_CallbackId resources[] = {
	CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
	CUPTI_CBID_RESOURCE_STREAM_CREATED,
	CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING,
};

static int refuse(struct capture *c, CUptiResult result, struct refusal *r)
{
	refusal_set(r, GPUCTR_E_PROFILER, "", "CUPTI does not tell of launches (%s, %d)",
		    host_result_name(&c->profiler->host, result), (int)result);
	return r->code;
}

int launches_subscribe(struct capture *c, struct refusal *r)
{
	CUptiResult result = c->profiler->cuptiSubscribe(&c->subscriber, on_callback, NULL);

	if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
		refusal_set(r, GPUCTR_E_CUPTI_IN_USE,
			    "Run it without torch.profiler, nsys or ncu while measuring: CUPTI "
			    "takes one of them a process.",
			    "the program uses CUPTI itself");
		return r->code;
	}
	return result == CUPTI_SUCCESS ? 0 : refuse(c, result, r);
}

/* Other calls that give the GPU work of its own, or something to wait for. They have many variants
 * and are told apart by their names; an older CUPTI may not know some. */
static void watch_other_work(struct capture *c)
{
	static const char *const beginnings[] = { "cuMemcpy",	       "cuMemset",
						  "cuStreamWaitValue", "cuStreamBatchMemOp",
						  "cuLaunchHostFunc",  "cuStreamAddCallback",
						  "cuWaitExternal" };

	for (uint32_t id = 1; id < CUPTI_DRIVER_TRACE_CBID_SIZE; id++) {
		const char *name = NULL;

		if (c->profiler->cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, id, &name) !=
			    CUPTI_SUCCESS ||
		    !name) {
			continue;
		}
		for (size_t i = 0; i < ARRAY_SIZE(beginnings); i++) {
			if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0) {
				c->profiler->cuptiEnableCallback(1, c->subscriber,
								 CUPTI_CB_DOMAIN_DRIVER_API, id);
			}
		}
	}
}

int launches_enable(struct capture *c, struct refusal *r)
{
	const struct profiler *p = c->profiler;
	CUptiResult result = CUPTI_SUCCESS;

	if (c->choosing.on) {
		c->choosing.telling_ns = seeing_calibrate(p, c->subscriber);
	}
	for (size_t i = 0; result == CUPTI_SUCCESS && i < ARRAY_SIZE(callbacks); i++) {
		CUptiResult one = p->cuptiEnableCallback(1, c->subscriber,
							 CUPTI_CB_DOMAIN_DRIVER_API, callbacks[i]);

		/* An older CUPTI may not know the newest calls, which its driver has not either. */
		result = one == CUPTI_ERROR_INVALID_PARAMETER && i > 0 ? CUPTI_SUCCESS : one;
	}
	for (size_t i = 0; result == CUPTI_SUCCESS && i < ARRAY_SIZE(resources); i++) {
		result = p->cuptiEnableCallback(1, c->subscriber, CUPTI_CB_DOMAIN_RESOURCE,
						resources[i]);
	}
	if (result == CUPTI_SUCCESS) {
		watch_other_work(c);
	}
	return result == CUPTI_SUCCESS ? 0 : refuse(c, result, r);
}

void launches_unsubscribe(struct capture *c)
{
	if (c->subscriber) {
		c->profiler->cuptiUnsubscribe(c->subscriber);
		c->subscriber = NULL;
	}
}
