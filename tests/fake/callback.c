/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks of the fake profiler library: one subscriber, driver API and resource domains.
 *
 * Unsubscribing waits until no other thread is inside of the callback, so that the subscriber's
 * library may be unloaded after it. The vendor's does not wait for a thread that is about to call,
 * so to unsubscribe less than 10 ms after launches were told of is a violation.
 *
 * With GPUCTR_FAKE_STUCK the records of a thread all name one launch from then on, as the vendor's
 * do: the launch that the thread was in when cuptiEnableCallback() turned its callback off
 * (`disabled`), or the first one while tracing is on (`first`).
 *
 * To turn kernels' tracing on or off while a thread is within a fill is a violation: the vendor's
 * ended the program in one of some thousand cases. */

#include "tests/fake/left.h"
#include "tests/fake/profiler.h"
#include "tests/fake/state.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct CUpti_Subscriber_st {
	CUpti_CallbackFunc callback;
	void *user_data;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUpti_Subscriber_st the_subscriber;
static struct CUpti_Subscriber_st *_Atomic subscriber;
static _Atomic int inside;
static _Thread_local int depth;
static _Atomic bool on_driver[CUPTI_DRIVER_TRACE_CBID_SIZE];
static _Atomic bool on_resource[CUPTI_CBID_RESOURCE_SIZE];

static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic uint64_t off_ns; /* when a launch's callback was turned off */

enum stuck { STUCK_NEVER, STUCK_DISABLED, STUCK_FIRST };
enum { NAMES = 1 << 16, LEAVING_NS = 10000000, TURNING_NS = 200000 };

static enum stuck sticks;
static _Atomic bool is_stuck;		/* a thread */
static _Thread_local uint32_t stuck_to; /* this launch; 0: to none */
static _Thread_local uint32_t told_of;	/* the launch whose callback the thread got; 0: none */
static _Atomic bool is_disabled[CUPTI_DRIVER_TRACE_CBID_SIZE]; /* by cuptiEnableCallback() */
static _Atomic int fills, turning;
static struct {
	_Atomic uint32_t is, named;
} names[NAMES]; /* of launches of stuck threads */

static void read_environment(void)
{
	const char *text = getenv("GPUCTR_FAKE_STUCK");

	sticks = !text ? STUCK_NEVER : strcmp(text, "first") == 0 ? STUCK_FIRST : STUCK_DISABLED;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void deliver(CUpti_CallbackDomain domain, uint32_t cbid, const void *data)
{
	struct CUpti_Subscriber_st *to;

	atomic_fetch_add(&inside, 1);
	depth++;
	to = atomic_load(&subscriber);
	if (to) {
		to->callback(to->user_data, domain, cbid, data);
	}
	depth--;
	atomic_fetch_sub(&inside, 1);
}

/* --- launches that stick to their threads --- */

static void stick(uint32_t correlation)
{
	bool stuck = false;

	if (atomic_compare_exchange_strong(&is_stuck, &stuck, true)) {
		stuck_to = correlation;
	}
}

/* Around a launch of which the tool is told. */
static void note_told(const struct fake_call *call)
{
	pthread_once(&once, read_environment);
	if (!call->result) {
		told_of = atomic_load(&on_driver[call->cbid]) ? call->correlation_id : 0;
		return;
	}
	if (sticks == STUCK_DISABLED && told_of != 0 && atomic_load(&is_disabled[call->cbid])) {
		stick(told_of);
	}
	told_of = 0;
}

/* --- fills --- */

static void check_fills(void)
{
	if (atomic_load(&fills) > 0 && atomic_load(&turning) > 0) {
		fake_violation("kernels' tracing is turned on or off while a thread fills");
	}
}

void callback_turn_tracing(bool begins)
{
	if (!begins) {
		atomic_fetch_sub(&turning, 1);
		return;
	}
	atomic_fetch_add(&turning, 1);
	check_fills();
	nanosleep(&(struct timespec){ .tv_nsec = TURNING_NS }, NULL);
}

/* What a callback does is before a fill, or behind it. */
static void begin_fill(const struct fake_call *call)
{
	if (call->cbid == CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async && !call->result) {
		atomic_fetch_add(&fills, 1);
		check_fills();
	}
}

static void end_fill(const struct fake_call *call)
{
	if (call->cbid == CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async && call->result) {
		atomic_fetch_sub(&fills, 1);
	}
}

uint32_t callback_name(uint32_t correlation)
{
	bool known = atomic_load(&names[correlation % NAMES].is) == correlation;

	return known ? atomic_load(&names[correlation % NAMES].named) : correlation;
}

static void note_launch(uint32_t correlation)
{
	pthread_once(&once, read_environment);
	if (sticks == STUCK_FIRST && activity_traces_kernels()) {
		stick(correlation);
	}
	if (stuck_to != 0) {
		atomic_store(&names[correlation % NAMES].named, stuck_to);
		atomic_store(&names[correlation % NAMES].is, correlation);
	}
}

/* CUPTI never tells the kernels of a graph that is made while they are not traced. */
static void note_capture(const struct fake_call *call)
{
	if (call->cbid == CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2 && !call->result &&
	    atomic_load(&subscriber) && !activity_traces_kernels()) {
		atomic_fetch_add(&fake_state()->counters.untraced_captures, 1);
	}
}

static void on_api(const struct fake_call *call)
{
	CUpti_CallbackData data = {
		.callbackSite = call->result ? CUPTI_API_EXIT : CUPTI_API_ENTER,
		.functionName = call->name,
		.functionParams = call->params,
		.functionReturnValue = call->result,
		.symbolName = call->symbol,
		.context = call->context,
		.contextUid = call->context_uid,
		.correlationData = call->correlation_data,
		.correlationId = call->correlation_id,
	};

	if (call->symbol) {
		note_told(call);
	}
	end_fill(call);
	if (atomic_load(&on_driver[call->cbid])) {
		deliver(CUPTI_CB_DOMAIN_DRIVER_API, call->cbid, &data);
		note_capture(call);
	}
	begin_fill(call);
	if (call->symbol && !call->result) {
		note_launch(call->correlation_id);
	}
}

static void on_resource_event(uint32_t cbid, CUcontext context, CUstream stream)
{
	CUpti_ResourceData data = { .context = context, .resourceHandle.stream = stream };

	if (atomic_load(&on_resource[cbid])) {
		deliver(CUPTI_CB_DOMAIN_RESOURCE, cbid, &data);
	}
	if (cbid == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING) {
		ranges_context_ends(context);
	}
}

static void on_executed(CUcontext context, const struct fake_run *run)
{
	struct fake_work counted = run->work;

	if (activity_traces_kernels()) {
		counted.traced_warps = run->work.warps;
		counted.traced_threads = run->work.threads;
	}
	ranges_executed(context, &counted);
	activity_executed(context, run);
}

void callback_listen(const struct fake_hooks *driver)
{
	static const struct fake_listener listener = {
		.api = on_api,
		.resource = on_resource_event,
		.executed = on_executed,
	};

	driver->listen(&listener);
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *ret, CUpti_CallbackFunc callback,
			   void *user_data)
{
	CUptiResult r = call_begin("cuptiSubscribe");

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (!ret || !callback) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	if (!call_driver()) {
		return CUPTI_ERROR_NOT_INITIALIZED;
	}
	pthread_mutex_lock(&lock);
	if (atomic_load(&subscriber)) {
		r = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	} else {
		the_subscriber.callback = callback;
		the_subscriber.user_data = user_data;
		atomic_store(&subscriber, &the_subscriber);
		left_count(LEFT_SUBSCRIBERS, 1);
		*ret = &the_subscriber;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

static void disable_all(void)
{
	memset((void *)on_driver, 0, sizeof(on_driver));
	memset((void *)on_resource, 0, sizeof(on_resource));
}

static void end_subscription(void)
{
	disable_all();
	if (atomic_exchange(&subscriber, NULL)) {
		left_count(LEFT_SUBSCRIBERS, -1);
	}
	/* bounded, because a forked child counts threads that it does not have */
	for (int i = 0; i < 10000 && atomic_load(&inside) > depth; i++) {
		nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
	}
}

static bool tells_of_launches(void)
{
	return atomic_load(&on_driver[CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel]) ||
	       now_ns() < atomic_load(&off_ns) + LEAVING_NS;
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle handle)
{
	CUptiResult r = call_begin("cuptiUnsubscribe");

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (!handle || handle != atomic_load(&subscriber)) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	if (tells_of_launches()) {
		fake_violation("cuptiUnsubscribe: a thread may be about to call");
	}
	end_subscription();
	return CUPTI_SUCCESS;
}

static CUptiResult set_one(uint32_t enable, CUpti_CallbackDomain domain, uint32_t cbid)
{
	if (domain == CUPTI_CB_DOMAIN_DRIVER_API && cbid < CUPTI_DRIVER_TRACE_CBID_SIZE) {
		bool was_on = atomic_exchange(&on_driver[cbid], enable != 0);

		if (was_on && !enable && cbid == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel) {
			atomic_store(&off_ns, now_ns());
		}
	} else if (domain == CUPTI_CB_DOMAIN_RESOURCE && cbid < CUPTI_CBID_RESOURCE_SIZE) {
		atomic_store(&on_resource[cbid], enable != 0);
	} else if (domain <= CUPTI_CB_DOMAIN_INVALID || domain >= CUPTI_CB_DOMAIN_SIZE ||
		   domain == CUPTI_CB_DOMAIN_DRIVER_API || domain == CUPTI_CB_DOMAIN_RESOURCE) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle handle,
				CUpti_CallbackDomain domain, CUpti_CallbackId cbid)
{
	CUptiResult r = call_begin("cuptiEnableCallback");

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (!handle || handle != atomic_load(&subscriber) || cbid == 0) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	if (domain == CUPTI_CB_DOMAIN_DRIVER_API && cbid < CUPTI_DRIVER_TRACE_CBID_SIZE) {
		atomic_store(&is_disabled[cbid], !enable);
	}
	return set_one(enable, domain, cbid);
}

CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle handle,
			      CUpti_CallbackDomain domain)
{
	CUptiResult r = call_begin("cuptiEnableDomain");

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (!handle || handle != atomic_load(&subscriber)) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	r = set_one(enable, domain, 1);
	for (uint32_t i = 1; i < CUPTI_DRIVER_TRACE_CBID_SIZE && r == CUPTI_SUCCESS; i++) {
		(void)set_one(enable, domain, i);
	}
	return r;
}

/* Names of the callbacks that somebody has asked for. */
CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid, const char **ret)
{
	if (domain != CUPTI_CB_DOMAIN_DRIVER_API || cbid == 0 ||
	    cbid >= CUPTI_DRIVER_TRACE_CBID_SIZE) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	switch (cbid) {
	case CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async:
		*ret = "cuMemsetD32Async";
		break;
	case CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2:
		*ret = "cuMemcpyDtoDAsync_v2";
		break;
	case CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent:
		*ret = "cuStreamWaitEvent";
		break;
	case CUPTI_DRIVER_TRACE_CBID_cuStreamWaitValue32_v2:
		*ret = "cuStreamWaitValue32_v2";
		break;
	case CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchAsync_v2:
		*ret = "cuMemPrefetchAsync_v2";
		break;
	case CUPTI_DRIVER_TRACE_CBID_cuGraphUpload:
		*ret = "cuGraphUpload";
		break;
	case CUPTI_DRIVER_TRACE_CBID_cuMemMapArrayAsync:
		*ret = "cuMemMapArrayAsync";
		break;
	default:
		*ret = "(other)";
	}
	return CUPTI_SUCCESS;
}
