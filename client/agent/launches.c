/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/agent.h"

#include <cupti_driver_cbid.h>

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/agent/arguments.h"
#include "client/agent/functions.h"
#include "client/agent/nvtx.h"
#include "daemon/base/clean.h"
#include "daemon/base/clock.h"

/* CUPTI calls on_callback on the launching thread before and after each driver call that launches
 * work. Before: decide, note the launch, push a range, with the context's lock held. After: pop,
 * and unlock. What a thread holds in between is in its launching variable, so that a launch within
 * a launch (libraries do that from host callbacks) is left alone. */

static __thread struct ranges *launching;
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

static struct ranges *find_ranges(struct agent *a, CUcontext context, uint32_t context_id)
{
	static __thread struct ranges *last;
	struct ranges *found = NULL;

	if (last && last->context == context && last->context_id == context_id) {
		return last;
	}
	pthread_mutex_lock(&a->lock);
	list_for_each(l, &a->contexts) {
		struct ranges *r = list_entry(l, struct ranges, link);

		if (r->context == context && r->context_id == context_id) {
			found = r;
		}
	}
	if (!found && (found = calloc(1, sizeof(*found))) != NULL) {
		pthread_mutex_init(&found->lock, NULL);
		found->context = context;
		found->context_id = context_id;
		found->device = UINT32_MAX;
		list_append(&a->contexts, &found->link);
	}
	pthread_mutex_unlock(&a->lock);
	last = found;
	return found;
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
		.context = r->context_id,
		.stream = stream_number(a, data->context, g->stream, g->per_thread_stream),
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
	if (stream_is_capturing(a, g.stream)) {
		atomic_fetch_add(&a->counters.capturing, 1);
		return;
	}
	if (!is_wanted(a, f)) {
		return;
	}
	r = find_ranges(a, data->context, data->contextUid);
	if (!r) {
		atomic_fetch_add(&a->counters.unready, 1);
		return;
	}
	pthread_mutex_lock(&r->lock);
	if (!atomic_load(&a->active)) {
		atomic_fetch_add(&a->counters.unready, 1);
		pthread_mutex_unlock(&r->lock);
		return;
	}
	functions_prepare(a, f);
	if (!ranges_open(a, r, &l)) {
		pthread_mutex_unlock(&r->lock);
		return;
	}
	note_launch(a, l, r, f, &g, data);
	launching = r;
}

static void on_launch_exit(struct agent *a, const CUpti_CallbackData *data)
{
	struct ranges *r = launching;
	const CUresult *result = data->functionReturnValue;

	if (!r) {
		return;
	}
	launching = NULL;
	if (r->state == RANGES_STARTED) {
		ranges_close(a, r, !result || *result == CUDA_SUCCESS);
	}
	pthread_mutex_unlock(&r->lock);
}

/* --- other callbacks --- */

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

/* A start or stop that was decided on before is waited for. */
static void wait_for_turns(struct agent *a)
{
	struct ranges *contexts[AGENT_CONTEXTS_MAX];
	size_t n = agent_contexts(a, contexts);

	for (size_t i = 0; i < n; i++) {
		pthread_mutex_lock(&contexts[i]->lock);
		pthread_mutex_unlock(&contexts[i]->lock);
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
	struct ranges *found = NULL;

	pthread_mutex_lock(&a->lock);
	list_for_each(l, &a->contexts) {
		struct ranges *r = list_entry(l, struct ranges, link);

		found = r->context == context ? r : found;
	}
	pthread_mutex_unlock(&a->lock);
	if (found && found != launching) {
		pthread_mutex_lock(&found->lock);
		ranges_disable(a, found);
		found->state = RANGES_BROKEN;
		found->context = NULL; /* a new context may get the same handle */
		free(found->image);
		found->image = NULL;
		host_config_deinit(&found->config);
		pthread_mutex_unlock(&found->lock);
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
	if (domain != CUPTI_CB_DOMAIN_RESOURCE &&
	    !atomic_load_explicit(&a->active, memory_order_relaxed) && !launching) {
		return;
	}
	/* A thread that is cancelled with a lock of ours held would stop all others. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
		on_context_end(a, ((const CUpti_ResourceData *)data)->context);
	} else if (begins_capture(id) || ends_capture(id)) {
		on_capture_call(a, id, data);
	} else if (((const CUpti_CallbackData *)data)->callbackSite == CUPTI_API_ENTER) {
		on_launch_enter(a, id, data);
	} else {
		on_launch_exit(a, data);
	}
	if (launching && !was_launching) {
		cancel_before = cancel; /* until the launch is over */
	} else if (!launching) {
		pthread_setcancelstate(was_launching ? cancel_before : cancel, NULL);
	}
}

/* --- subscription --- */

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
	if (result == CUPTI_SUCCESS) {
		result = p->cuptiEnableCallback(1, a->subscriber, CUPTI_CB_DOMAIN_RESOURCE,
						CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING);
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
