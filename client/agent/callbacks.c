/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/capture.h"

#include <cupti_driver_cbid.h>

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "client/agent/arguments.h"
#include "client/agent/contexts.h"
#include "client/agent/copy_gate.h"
#include "client/agent/launches.h"
#include "client/agent/section.h"
#include "client/agent/trace.h"
#include "proto/base/clean.h"
#include "proto/base/clock.h"

/* CUPTI calls on_callback() on the program's threads before and after each driver call that
 * launches work or gives the GPU other work, and when streams and contexts come and go. Between the
 * two callbacks of a measured launch the thread is in a section: so the capture is not freed, and a
 * launch within the launch (libraries make such launches from host callbacks) is left alone. */

enum { LEAVING_MS = 50 };

/* --- which calls --- */

enum call {
	CALL_OTHER,
	CALL_LAUNCH,
	CALL_LAUNCHES_APART,
	CALL_BEGINS_STREAM_CAPTURE,
	CALL_ENDS_STREAM_CAPTURE,
	CALL_PROFILER, /* cudaProfilerStart() and cudaProfilerStop() make it as well */
	CALL_DESTROYS_STREAM,
};

#define ONE(call) CUPTI_DRIVER_TRACE_CBID_##call
/* Does not use ONE(), because cuda.h defines some of these names as macros for newer calls. */
#define BOTH(call, what) \
	[CUPTI_DRIVER_TRACE_CBID_##call] = what, [CUPTI_DRIVER_TRACE_CBID_##call##_ptsz] = what

static const uint8_t calls[CUPTI_DRIVER_TRACE_CBID_SIZE] = {
	BOTH(cuLaunchKernel, CALL_LAUNCH),
	BOTH(cuLaunchKernelEx, CALL_LAUNCH),
	BOTH(cuLaunchCooperativeKernel, CALL_LAUNCH),
	BOTH(cuGraphLaunch, CALL_LAUNCH),
	[ONE(cuLaunch)] = CALL_LAUNCHES_APART,
	[ONE(cuLaunchGrid)] = CALL_LAUNCHES_APART,
	[ONE(cuLaunchGridAsync)] = CALL_LAUNCHES_APART,
	[ONE(cuLaunchCooperativeKernelMultiDevice)] = CALL_LAUNCHES_APART,
	BOTH(cuStreamBeginCapture, CALL_BEGINS_STREAM_CAPTURE),
	BOTH(cuStreamBeginCapture_v2, CALL_BEGINS_STREAM_CAPTURE),
	BOTH(cuStreamBeginCaptureToGraph, CALL_BEGINS_STREAM_CAPTURE),
	BOTH(cuStreamEndCapture, CALL_ENDS_STREAM_CAPTURE),
	[ONE(cuProfilerStart)] = CALL_PROFILER,
	[ONE(cuProfilerStop)] = CALL_PROFILER,
	[ONE(cuStreamDestroy)] = CALL_DESTROYS_STREAM,
	[ONE(cuStreamDestroy_v2)] = CALL_DESTROYS_STREAM,
};

static atomic_bool is_copy[CUPTI_DRIVER_TRACE_CBID_SIZE]; /* a copy or fill, by callback id */

static enum call call_of(CUpti_CallbackId id)
{
	return (enum call)calls[id];
}

static bool is_launch(CUpti_CallbackId id)
{
	return call_of(id) == CALL_LAUNCH;
}

/* After some failures it goes on. UNMATCHED: it began in another stream, which this one has joined.
 */
static bool stream_capture_ended(CUresult result)
{
	return result != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD &&
	       result != CUDA_ERROR_STREAM_CAPTURE_UNMATCHED &&
	       result != CUDA_ERROR_ILLEGAL_STATE && result != CUDA_ERROR_INVALID_HANDLE &&
	       result != CUDA_ERROR_INVALID_VALUE && result != CUDA_ERROR_INVALID_CONTEXT;
}

/* Waits until Starts and Stops under way have returned, but gives up on a launch that hangs. */
static void wait_for_turns(struct capture *c)
{
	contexts_for_each(r, c) {
		if (gate_lock(&r->gate, &c->patience)) {
			lock_release(&r->gate.lock);
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

/* A stream capture is counted before it begins, so that no thread synchronises in between. */
static void on_begin_stream_capture(struct capture *c, struct section *v, CUpti_CallbackId id,
				    const CUpti_CallbackData *data)
{
	const CUresult *result = data->functionReturnValue;
	bool began = !result || *result == CUDA_SUCCESS, is_capturing;
	struct stream_capture of = { .context = data->context, .stream = stream_of(id, data) };

	if (data->callbackSite == CUPTI_API_EXIT) {
		of.id = began ? stream_captures_find(c->profiler, of.stream, &is_capturing) : 0;
		stream_captures_began(&c->stream_captures, &of, began, v->begins);
		v->begins = false;
		return;
	}
	if (v->begins) { /* the last call's end was missed: its stream capture may be unknown */
		stream_captures_began(&c->stream_captures, &of, false, true);
	}
	v->begins = true;
	/* CUPTI traces only nodes of graphs that were made while tracing was on. In a late capture,
	 * tracing is not turned on here, to leave the program's stream captures alone. */
	if (stream_captures_begin(&c->stream_captures) && !c->late) {
		times_begin(c);
	}
	wait_for_turns(c);
}

/* A stream capture counts until the call that ends it has returned. */
static void on_end_stream_capture(struct capture *c, struct section *v, CUpti_CallbackId id,
				  const CUpti_CallbackData *data)
{
	const CUresult *result = data->functionReturnValue;
	CUstream stream = stream_of(id, data);
	bool is_capturing;

	if (data->callbackSite == CUPTI_API_ENTER) {
		v->ending = stream_captures_find(c->profiler, stream, &is_capturing);
		v->ends = true;
		return;
	}
	if (!result || stream_capture_ended(*result)) {
		stream_captures_ended(&c->stream_captures, stream, v->ends ? v->ending : 0,
				      v->ends);
	}
	v->ends = false;
}

/* Removes the stream before the driver takes locks, as another thread may be querying it. */
static void on_destroy_stream(struct capture *c, struct section *v, CUpti_CallbackId id,
			      const CUpti_CallbackData *data)
{
	const CUresult *result = data->functionReturnValue;
	CUstream stream = stream_of(id, data);
	bool is_capturing;

	if (data->callbackSite == CUPTI_API_ENTER) {
		v->destroying = 0;
		if (stream_captures_any(&c->stream_captures)) {
			v->destroying = stream_captures_find_in(
				&c->stream_captures, stream,
				stream_captures_find(c->profiler, stream, &is_capturing));
		}
		contexts_for_each(r, c) {
			streams_remove(&r->guard.streams, stream);
		}
	} else if (v->destroying != 0 && (!result || *result == CUDA_SUCCESS)) {
		stream_captures_destroyed(&c->stream_captures, v->destroying);
	}
}

/* The program does not yet have the handle of a new stream, and still has that of an ending one.
 * The driver holds locks during this callback, so the functions for streams take no lock that
 * another thread may hold over a driver call. contexts_end() does, but gives up after two seconds,
 * and waits for kernels with a limit as well. */
static void on_resource(struct capture *c, const struct section *v, CUpti_CallbackId id,
			const CUpti_ResourceData *data)
{
	CUstream stream = data->resourceHandle.stream;
	struct ranges *r;

	if (id == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING) {
		stream_captures_end_context(&c->stream_captures, data->context);
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

static void on_driver_call(struct capture *c, struct section *v, CUpti_CallbackId id,
			   const CUpti_CallbackData *data)
{
	bool enters = data->callbackSite == CUPTI_API_ENTER;

	switch (call_of(id)) {
	case CALL_LAUNCH:
		launches_on_launch(c, v, id, data);
		break;
	case CALL_LAUNCHES_APART:
		apart_on_launch(c, v, id, data);
		break;
	case CALL_BEGINS_STREAM_CAPTURE:
		on_begin_stream_capture(c, v, id, data);
		break;
	case CALL_ENDS_STREAM_CAPTURE:
		on_end_stream_capture(c, v, id, data);
		break;
	case CALL_PROFILER:
		if (!enters) {
			phase_on_profiler_call(&c->filter.phase, id == ONE(cuProfilerStart));
		}
		break;
	case CALL_DESTROYS_STREAM:
		on_destroy_stream(c, v, id, data);
		break;
	default:
		other_work_on_call(c, v, id, data);
	}
}

static void handle(struct capture *c, struct section *v, CUpti_CallbackDomain domain,
		   CUpti_CallbackId id, const void *data)
{
	bool was_launching = v->launching != NULL;
	int cancel = PTHREAD_CANCEL_DISABLE;

	/* If a thread were cancelled while it holds a lock of ours, all other threads would
	 * stop. */
	if (!was_launching) {
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	}
	if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
		on_resource(c, v, id, data);
	} else {
		on_driver_call(c, v, id, data);
	}
	if (v->launching && !was_launching) {
		v->cancel_before = cancel; /* restored after the launch */
	} else if (!v->launching) {
		pthread_setcancelstate(was_launching ? v->cancel_before : cancel, NULL);
	}
}

/* The end of a context or stream must be seen, because neither may be queried afterwards. Stream
 * captures and calls that give the GPU work are counted from beginning to end. A new stream may be
 * missed, because the first launch into it makes it known as well. */
static bool must_not_be_missed(const struct section *v, CUpti_CallbackDomain domain,
			       CUpti_CallbackId id, const void *data)
{
	const CUpti_CallbackData *data_of_call = data;
	enum call call;

	if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
		return id == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING;
	}
	call = call_of(id);
	return call == CALL_BEGINS_STREAM_CAPTURE || call == CALL_ENDS_STREAM_CAPTURE ||
	       call == CALL_DESTROYS_STREAM ||
	       (data_of_call->callbackSite == CUPTI_API_EXIT && v->other != NULL);
}

/* Counts launches that a signal handler made since the callback began. A range that is open by now
 * may hold their kernels. */
static void count_interruptions(struct capture *c, struct section *v)
{
	unsigned n = atomic_exchange_explicit(&v->interruptions, 0, memory_order_relaxed);

	atomic_fetch_add(&c->counters.seen, n);
	atomic_fetch_add(&c->counters.unready, n);
	if (v->last_context && !c->method->beside) {
		guard_disturb(v->last_context, &(struct guard_work){ .launch = true });
	}
}

static void handle_in_section(struct section *v, CUpti_CallbackDomain domain, CUpti_CallbackId id,
			      const void *data)
{
	struct capture *c = atomic_load_explicit(&v->capture, memory_order_relaxed);
	bool inside = c != NULL, was_launching = v->launching != NULL;

	if (!inside) {
		c = must_not_be_missed(v, domain, id, data) ? section_begin_surely(v)
							    : section_begin(v);
	}
	if (c) {
		handle(c, v, domain, id, data);
		if (atomic_load_explicit(&v->interruptions, memory_order_relaxed) > 0) {
			count_interruptions(c, v);
		}
	}
	/* A section lasts from the callback before a launch to the one after it. */
	if (!v->launching && (!inside || was_launching)) {
		section_end(v);
	}
}

/* Called outside of a section, so that a signal handler of a waiting thread may launch. */
static void pass_copy_gate(struct section *v, CUpti_CallbackId id, const CUpti_CallbackData *call)
{
	if (!atomic_load_explicit(&is_copy[id], memory_order_relaxed)) {
		return;
	}
	if (call->callbackSite == CUPTI_API_ENTER) {
		copy_gate_enter(&v->copies);
	} else {
		copy_gate_leave(&v->copies);
	}
}

/* userdata is not the capture, which may be over. CUPTI makes streams of its own within the agent's
 * calls, so resource callbacks are handled also inside another callback. */
static void CUPTIAPI on_callback(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId id,
				 const void *data)
{
	struct section *v = section_of_thread();
	const CUpti_CallbackData *call = data;
	bool interrupts;

	if (!v) {
		return;
	}
	interrupts = atomic_load_explicit(&v->in_callback, memory_order_relaxed);
	if (interrupts && domain == CUPTI_CB_DOMAIN_DRIVER_API) {
		if (call->callbackSite == CUPTI_API_ENTER && is_launch(id)) {
			atomic_fetch_add_explicit(&v->interruptions, 1, memory_order_relaxed);
		}
		return;
	}
	if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
		pass_copy_gate(v, id, call);
	}
	atomic_store_explicit(&v->in_callback, true, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	handle_in_section(v, domain, id, data);
	atomic_signal_fence(memory_order_seq_cst);
	atomic_store_explicit(&v->in_callback, interrupts, memory_order_relaxed);
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

/* Calls with many variants are recognised by the beginnings of their names: copies and fills; other
 * calls that give the GPU work or make it wait. */
static const char *const copies[] = { "cuMemcpy", "cuMemset" };
static const char *const other_work[] = {
	"cuStreamWriteValue", "cuStreamWaitValue",	 "cuStreamBatchMemOp",
	"cuLaunchHostFunc",   "cuStreamAddCallback",	 "cuWaitExternal",
	"cuMemPrefetch",      "cuMemDiscardAndPrefetch", "cuGraphUpload",
	"cuMemMapArrayAsync", "cuStreamWaitEvent",
};

static bool begins_as(const char *name, const char *const *beginnings, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0) {
			return true;
		}
	}
	return false;
}

/* To be called before tracing may be turned on. */
static void watch_named(struct capture *c)
{
	const struct profiler *p = c->profiler;

	copy_gate_begin();
	for (uint32_t id = 1; id < CUPTI_DRIVER_TRACE_CBID_SIZE; id++) {
		const char *name = NULL;
		bool copy;

		if (p->cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, id, &name) !=
			    CUPTI_SUCCESS ||
		    !name) {
			continue;
		}
		copy = begins_as(name, copies, ARRAY_SIZE(copies));
		if (copy) {
			atomic_store(&is_copy[id], true);
		}
		if (copy ||
		    (!c->method->beside && begins_as(name, other_work, ARRAY_SIZE(other_work)))) {
			p->cuptiEnableCallback(1, c->subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id);
		}
	}
}

int callbacks_subscribe(struct capture *c, struct refusal *r)
{
	CUptiResult result = c->profiler->cuptiSubscribe(&c->subscriber, on_callback, NULL);

	if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
		refusal_set(r, GPUCTR_E_CUPTI_IN_USE,
			    "Run it without torch.profiler, nsys or ncu while measuring: CUPTI "
			    "takes one of them a process.",
			    "the program uses CUPTI itself");
		return r->code;
	}
	if (result != CUPTI_SUCCESS) {
		return refuse(c, result, r);
	}
	watch_named(c);
	return 0;
}

int callbacks_enable(struct capture *c, struct refusal *r)
{
	const struct profiler *p = c->profiler;
	CUptiResult result = CUPTI_SUCCESS;

	for (CUpti_CallbackId id = 0; result == CUPTI_SUCCESS && id < ARRAY_SIZE(calls); id++) {
		if (call_of(id) == CALL_OTHER) {
			continue;
		}
		result = p->cuptiEnableCallback(1, c->subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id);
		/* An older CUPTI may not know the newest calls, which its driver lacks, too. */
		if (result == CUPTI_ERROR_INVALID_PARAMETER && id != ONE(cuLaunchKernel)) {
			result = CUPTI_SUCCESS;
		}
	}
	for (size_t i = 0; result == CUPTI_SUCCESS && i < ARRAY_SIZE(resources); i++) {
		result = p->cuptiEnableCallback(1, c->subscriber, CUPTI_CB_DOMAIN_RESOURCE,
						resources[i]);
	}
	return result == CUPTI_SUCCESS ? 0 : refuse(c, result, r);
}

/* A thread in which CUPTI is about to call on_callback() uses memory that cuptiUnsubscribe() frees.
 * While two threads launched 75,000 kernels a second each, with callbacks on, two of 16,000 to
 * 20,000 calls of cuptiUnsubscribe() ended the program with a SIGSEGV; of 9,000 after a pause, or
 * with the threads held, none did (H100, CUPTI 2025.3). */
static void leave_threads_time(void)
{
	nanosleep(&(struct timespec){ 0, LEAVING_MS * CLOCK_NS_PER_MS }, NULL);
}

void callbacks_unsubscribe(struct capture *c)
{
	const struct profiler *p = c->profiler;

	if (c->subscriber) {
		p->cuptiEnableDomain(0, c->subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
		p->cuptiEnableDomain(0, c->subscriber, CUPTI_CB_DOMAIN_RESOURCE);
		leave_threads_time();
		p->cuptiUnsubscribe(c->subscriber);
		c->subscriber = NULL;
	}
}
