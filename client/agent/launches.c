/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/agent.h"

#include <cupti_driver_cbid.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/agent/arguments.h"
#include "client/agent/functions.h"
#include "client/agent/lock.h"
#include "client/agent/nvtx.h"
#include "proto/base/clean.h"
#include "proto/base/clock.h"

/* CUPTI calls on_callback on the launching thread before and after each driver call that launches
 * work. Before: decide, note the launch, push a range, with the context's lock held. After: pop,
 * and unlock. What a thread holds in between is in its launching variable, so that a launch within
 * a launch (libraries do that from host callbacks) is left alone. */

static __thread struct ranges *launching;
static __thread struct guard_launch launched; /* what launching is for */
static __thread uint32_t thread_id;

/* --- one launch --- */

static bool stream_is_capturing(struct agent *a, CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	return atomic_load(&a->capturing) > 0 &&
	       a->profiler.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Is this launch to be measured, by the filter, skip and count? Counts it otherwise. */
static bool is_wanted(struct agent *a, const struct function *f)
{
	if (f->selected && filter_takes(&a->filter)) {
		return true;
	}
	atomic_fetch_add(&a->counters.filtered, 1);
	return false;
}

/* With the agent's lock. A context that ended has none of the handles that are compared. */
static struct ranges *find_context(struct agent *a, CUcontext context)
{
	struct ranges *found = NULL;

	list_for_each(l, &a->contexts) {
		struct ranges *r = list_entry(l, struct ranges, link);

		found = r->context == context ? r : found;
	}
	return found;
}

/* Finds or makes it; NULL: out of memory. */
static struct ranges *find_ranges(struct agent *a, CUcontext context)
{
	struct ranges *r;

	pthread_mutex_lock(&a->lock);
	r = find_context(a, context);
	if (!r && (r = calloc(1, sizeof(*r))) != NULL) {
		pthread_mutex_init(&r->lock, NULL);
		guard_init(&r->guard);
		r->guard.blocks = a->blocks;
		r->context = context;
		r->device = UINT32_MAX;
		list_append(&a->contexts, &r->link);
		atomic_fetch_add(&a->n_contexts, 1);
	}
	pthread_mutex_unlock(&a->lock);
	return r;
}

/* The same for the context of a launch, which is mostly the thread's last one. */
static struct ranges *ranges_of_launch(struct agent *a, const CUpti_CallbackData *data)
{
	static __thread struct ranges *last;

	if (!last || last->context != data->context) {
		last = find_ranges(a, data->context);
	}
	return last;
}

/* CUPTI's number of a stream; asked again only when the thread changes streams. A new stream at an
 * old one's address gets the old number at worst until then. */
static uint64_t stream_number(struct agent *a, CUcontext context, CUstream stream, bool per_thread)
{
	static __thread struct {
		CUcontext context;
		CUstream stream;
		bool per_thread, known;
		uint64_t number;
	} last;
	uint32_t number;

	if (last.known && last.context == context && last.stream == stream &&
	    last.per_thread == per_thread) {
		return last.number;
	}
	last.known = true;
	last.context = context;
	last.stream = stream;
	last.per_thread = per_thread;
	last.number = a->profiler.cuptiGetStreamIdEx(context, stream, per_thread, &number) ==
				      CUPTI_SUCCESS
			      ? number
			      : (uintptr_t)stream;
	return last.number;
}

static void note_launch(struct agent *a, struct launch *l, const struct ranges *r,
			const struct function *f, const struct arguments *g,
			const CUpti_CallbackData *data)
{
	if (thread_id == 0) {
		thread_id = (uint32_t)syscall(SYS_gettid);
	}
	*l = (struct launch){
		.function = f->id,
		.dynamic_shared_bytes = g->dynamic_shared_bytes,
		.device = r->device,
		.context = data->contextUid,
		.stream = launched.stream_number,
		.correlation = data->correlationId,
		.thread = thread_id,
		.range = nvtx_current_range(),
		.set = nvtx_active_set(),
		.start_ns = clock_wall_ns(), /* until it is known when it began */
		.kind = g->kind,
	};
	memcpy(l->grid, g->grid, sizeof(l->grid));
	memcpy(l->block, g->block, sizeof(l->block));
	activity_expect(&a->activity, data->correlationId);
}

/* The GPU gets work that is not measured, in this stream; NULL: in some stream. */
static void note_other_work(struct agent *a, CUcontext context, CUstream stream)
{
	struct ranges *r;

	pthread_mutex_lock(&a->lock);
	r = find_context(a, context);
	if (r) {
		guard_disturb(&r->guard, stream);
	}
	pthread_mutex_unlock(&a->lock);
}

/* Another thread may be within a launch that does not return until this one was made. */
static bool lock_for_launch(struct agent *a, struct ranges *r)
{
	uint64_t patience_ns;

	if (pthread_mutex_trylock(&r->lock) == 0) {
		return true;
	}
	do {
		patience_ns = guard_patience_ns(&a->patience);
		if (lock_until(&r->lock, clock_now_ns() + patience_ns)) {
			return true;
		}
	} while (ranges_are_turning(r));
	guard_spend(&a->patience, patience_ns);
	return false;
}

static void unlock_after_launch(struct ranges *r)
{
	atomic_store(&r->call, NULL);
	pthread_mutex_unlock(&r->lock);
}

static void note_for_guard(struct agent *a, struct function *f, const struct arguments *g,
			   const CUpti_CallbackData *data, struct ranges *r)
{
	launched = (struct guard_launch){
		.stream = streams_normal(g->stream, g->per_thread_stream),
		.work = g->function ? (uintptr_t)g->function : (uintptr_t)g->graph,
		.name = f->name,
		.collective = f->collective,
		.proofs = &f->proofs,
		.stream_number = stream_number(a, data->context, g->stream, g->per_thread_stream),
	};
	snprintf(r->last_kernel, sizeof(r->last_kernel), "%s", f->name);
	r->last_stream = launched.stream_number;
	r->last_launch_ns = clock_now_ns();
	r->told_stuck = false;
}

static void on_launch_enter(struct agent *a, CUpti_CallbackId id, const CUpti_CallbackData *data)
{
	struct arguments g;
	struct function *f;
	struct ranges *r;
	struct launch *l;

	if (launching || !data->context || !arguments_read(id, data->functionParams, &g)) {
		return;
	}
	atomic_fetch_add(&a->counters.seen, 1);
	f = functions_find(a, g.function, data->contextUid,
			   g.kind == WIRE_LAUNCH_GRAPH ? "(CUDA graph)"
			   : data->symbolName	       ? data->symbolName
						       : "(unnamed)");
	if (!f) {
		atomic_fetch_add(&a->counters.unready, 1);
		return;
	}
	if (stream_is_capturing(a, streams_normal(g.stream, g.per_thread_stream))) {
		atomic_fetch_add(&a->counters.capturing, 1);
		return;
	}
	if (!is_wanted(a, f)) {
		return;
	}
	r = ranges_of_launch(a, data);
	if (!r || !lock_for_launch(a, r)) {
		atomic_fetch_add(&a->counters.unready, 1);
		return;
	}
	if (!atomic_load(&a->active)) {
		atomic_fetch_add(&a->counters.unready, 1);
		pthread_mutex_unlock(&r->lock);
		return;
	}
	functions_prepare(a, f);
	note_for_guard(a, f, &g, data, r);
	if (!ranges_open(a, r, &launched, &l)) {
		unlock_after_launch(r);
		return;
	}
	note_launch(a, l, r, f, &g, data);
	launching = r;
}

static void on_launch_exit(struct agent *a, CUpti_CallbackId id, const CUpti_CallbackData *data)
{
	struct ranges *r = launching;
	const CUresult *result = data->functionReturnValue;
	struct arguments g;

	if (!r) {
		if (arguments_read(id, data->functionParams, &g)) {
			note_other_work(a, data->context,
					streams_normal(g.stream, g.per_thread_stream));
		}
		return;
	}
	launching = NULL;
	if (r->state == RANGES_STARTED) {
		ranges_close(a, r, &launched, !result || *result == CUDA_SUCCESS);
	}
	unlock_after_launch(r);
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
static void wait_for_turns(struct agent *a)
{
	struct ranges *contexts[AGENT_CONTEXTS_MAX];
	size_t n = agent_contexts(a, contexts);

	for (size_t i = 0; i < n; i++) {
		if (lock_until(&contexts[i]->lock,
			       clock_now_ns() + guard_patience_ns(&a->patience))) {
			pthread_mutex_unlock(&contexts[i]->lock);
		}
	}
}

/* Counted before a capture begins and after it has ended, so that nothing synchronises in between.
 */
static void on_capture_call(struct agent *a, CUpti_CallbackId id, const CUpti_CallbackData *data)
{
	const CUresult *pointer = data->functionReturnValue;
	CUresult result = data->callbackSite == CUPTI_API_EXIT && pointer ? *pointer : CUDA_SUCCESS;
	unsigned n;

	if (begins_capture(id) && data->callbackSite == CUPTI_API_ENTER) {
		atomic_fetch_add(&a->capturing, 1);
		wait_for_turns(a);
	} else if (begins_capture(id) && result != CUDA_SUCCESS) {
		atomic_fetch_sub(&a->capturing, 1);
	} else if (ends_capture(id) && data->callbackSite == CUPTI_API_EXIT &&
		   capture_ended(result)) {
		for (n = atomic_load(&a->capturing);
		     n > 0 && !atomic_compare_exchange_weak(&a->capturing, &n, n - 1);) {
		}
	}
}

static void on_context_end(struct agent *a, CUcontext context)
{
	struct ranges *found;

	pthread_mutex_lock(&a->lock);
	found = find_context(a, context);
	pthread_mutex_unlock(&a->lock);
	if (found && found != launching) {
		pthread_mutex_lock(&found->lock);
		/* The driver waits for its kernels as well. */
		if (found->object &&
		    !(guard_is_quiet(a, found, true) && ranges_disable(a, found))) {
			ranges_abandon(a, found);
		}
		found->state = RANGES_BROKEN;
		found->context = NULL; /* a new context may get the same handle */
		atomic_fetch_sub(&a->n_contexts, 1);
		guard_deinit(&found->guard);
		free(found->image);
		found->image = NULL;
		host_config_deinit(&found->config);
		pthread_mutex_unlock(&found->lock);
	}
}

/* Before the program has the handle, and while it still has it. */
static void on_stream(struct agent *a, CUpti_CallbackId id, const CUpti_ResourceData *data)
{
	CUstream stream = data->resourceHandle.stream;
	struct ranges *r;

	if (id == CUPTI_CBID_RESOURCE_STREAM_CREATED) {
		r = find_ranges(a, data->context);
		if (r) {
			streams_add(&r->guard.streams, stream);
		}
		return;
	}
	/* A context takes its streams with it, and may have ended by now. */
	pthread_mutex_lock(&a->lock);
	r = find_context(a, data->context);
	if (r) {
		streams_remove(&r->guard.streams, stream);
	}
	pthread_mutex_unlock(&a->lock);
}

static void on_resource(struct agent *a, CUpti_CallbackId id, const CUpti_ResourceData *data)
{
	if (id == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING) {
		on_context_end(a, data->context);
	} else {
		on_stream(a, id, data);
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

static void on_driver_call(struct agent *a, CUpti_CallbackId id, const CUpti_CallbackData *data)
{
	bool enters = data->callbackSite == CUPTI_API_ENTER;

	if (begins_capture(id) || ends_capture(id)) {
		on_capture_call(a, id, data);
	} else if (!is_launch(id)) {
		note_other_work(a, data->context, NULL);
	} else if (enters) {
		on_launch_enter(a, id, data);
	} else {
		on_launch_exit(a, id, data);
	}
}

static void CUPTIAPI on_callback(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId id,
				 const void *data)
{
	static __thread int cancel_before;
	struct agent *a = userdata;
	bool was_launching = launching != NULL;
	int cancel;

	/* A context ends also when the capture is over: the delivering thread may still be at it.
	 */
	if (domain != CUPTI_CB_DOMAIN_RESOURCE && !begins_capture(id) && !ends_capture(id) &&
	    !atomic_load_explicit(&a->active, memory_order_relaxed) && !launching) {
		return;
	}
	/* A thread that is cancelled with a lock of ours held would stop all others. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
		on_resource(a, id, data);
	} else {
		on_driver_call(a, id, data);
	}
	if (launching && !was_launching) {
		cancel_before = cancel; /* until the launch is over */
	} else if (!launching) {
		pthread_setcancelstate(was_launching ? cancel_before : cancel, NULL);
	}
}

/* --- subscription --- */

static const CUpti_CallbackId resources[] = {
	CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
	CUPTI_CBID_RESOURCE_STREAM_CREATED,
	CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING,
};

static int refuse(struct agent *a, CUptiResult result, struct refusal *r)
{
	refusal_set(r, GPUCTR_E_PROFILER, "", "CUPTI does not tell of launches (%s, %d)",
		    host_result_name(&a->profiler.host, result), (int)result);
	return r->code;
}

int launches_subscribe(struct agent *a, struct refusal *r)
{
	CUptiResult result = a->profiler.cuptiSubscribe(&a->subscriber, on_callback, a);

	if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
		refusal_set(r, GPUCTR_E_CUPTI_IN_USE,
			    "Run it without torch.profiler, nsys or ncu while measuring: CUPTI "
			    "takes one of them a process.",
			    "the program uses CUPTI itself");
		return r->code;
	}
	return result == CUPTI_SUCCESS ? 0 : refuse(a, result, r);
}

/* Other calls that give the GPU work of its own, or something to wait for. They have many variants
 * and are told apart by their names; an older CUPTI may not know some. */
static void watch_other_work(struct agent *a)
{
	static const char *const beginnings[] = { "cuMemcpy",	       "cuMemset",
						  "cuStreamWaitValue", "cuStreamBatchMemOp",
						  "cuLaunchHostFunc",  "cuStreamAddCallback",
						  "cuWaitExternal" };

	for (uint32_t id = 1; id < CUPTI_DRIVER_TRACE_CBID_SIZE; id++) {
		const char *name = NULL;

		if (a->profiler.cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, id, &name) !=
			    CUPTI_SUCCESS ||
		    !name) {
			continue;
		}
		for (size_t i = 0; i < ARRAY_SIZE(beginnings); i++) {
			if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0) {
				a->profiler.cuptiEnableCallback(1, a->subscriber,
								CUPTI_CB_DOMAIN_DRIVER_API, id);
			}
		}
	}
}

int launches_enable(struct agent *a, struct refusal *r)
{
	const struct profiler *p = &a->profiler;
	CUptiResult result = CUPTI_SUCCESS;

	for (size_t i = 0; result == CUPTI_SUCCESS && i < ARRAY_SIZE(callbacks); i++) {
		CUptiResult one = p->cuptiEnableCallback(1, a->subscriber,
							 CUPTI_CB_DOMAIN_DRIVER_API, callbacks[i]);

		/* An older CUPTI may not know the newest calls, which its driver has not either. */
		result = one == CUPTI_ERROR_INVALID_PARAMETER && i > 0 ? CUPTI_SUCCESS : one;
	}
	for (size_t i = 0; result == CUPTI_SUCCESS && i < ARRAY_SIZE(resources); i++) {
		result = p->cuptiEnableCallback(1, a->subscriber, CUPTI_CB_DOMAIN_RESOURCE,
						resources[i]);
	}
	if (result == CUPTI_SUCCESS) {
		watch_other_work(a);
	}
	return result == CUPTI_SUCCESS ? 0 : refuse(a, result, r);
}

void launches_unsubscribe(struct agent *a)
{
	if (a->subscriber) {
		a->profiler.cuptiUnsubscribe(a->subscriber);
		a->subscriber = NULL;
	}
}
