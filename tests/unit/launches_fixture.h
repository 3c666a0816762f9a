/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_LAUNCHES_FIXTURE_H
#define TESTS_UNIT_LAUNCHES_FIXTURE_H

/* What test_launches*.c and test_trace_graphs.c share. */

#include "tests/unit/unit.h"

/* As in arguments.c. */
#define __CUDA_API_VERSION_INTERNAL

#include <cuda.h>
#include <cupti_driver_cbid.h>
#include <errno.h>
#include <generated_cuda_meta.h>
#include <pthread.h>
#include <time.h>

#include "client/agent/capture.h"
#include "client/agent/contexts.h"
#include "client/agent/section.h"
#include "proto/base/clock.h"

/* What is done in CUPTI's callbacks, called by the test in its place; how a launch is measured is
 * the test's as well. */

#define CONTEXT ((CUcontext)(uintptr_t)0x10)
#define LAUNCH CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel
#define LAUNCH_EX CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx
#define COPY CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2
#define BEGIN CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2
#define END CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture
#define DESTROY CUPTI_DRIVER_TRACE_CBID_cuStreamDestroy_v2
#define MS CLOCK_NS_PER_MS
#define PATIENCE_NS (2 * CLOCK_NS_PER_S)

static CUpti_CallbackFunc callback;
static unsigned n_opened, n_closed, n_failed, n_disabled, n_destroyed;
static int n_pushed;		      /* contexts */
static const struct ranges *stubborn; /* does not let go */
static struct capture *c;
static struct ranges *r;
static struct connection unconnected = { .fd = -1 };
static struct activity activity;

/* --- CUPTI and the driver --- */

static CUptiResult subscribe(CUpti_SubscriberHandle *ret, CUpti_CallbackFunc function,
			     void *userdata)
{
	(void)userdata;
	*ret = (void *)(uintptr_t)1;
	callback = function;
	return CUPTI_SUCCESS;
}

static CUptiResult no_name(CUpti_CallbackDomain domain, uint32_t id, const char **ret)
{
	(void)domain;
	(void)id;
	(void)ret;
	return CUPTI_ERROR_INVALID_PARAMETER;
}

/* Each stream of each context has a number of its own, and each context has two default streams. */
static inline uint32_t number_of(CUcontext context, CUstream stream, bool per_thread)
{
	return 7 + 1000 * (uint32_t)(uintptr_t)context + 2 * (uint32_t)(uintptr_t)stream +
	       per_thread;
}

static CUptiResult get_stream(CUcontext context, CUstream stream, uint8_t per_thread, uint32_t *ret)
{
	*ret = number_of(context, stream, per_thread != 0);
	return CUPTI_SUCCESS;
}

static CUresult capture_info(CUstream stream, CUstreamCaptureStatus *ret, cuuint64_t *id)
{
	(void)stream;
	(void)id;
	*ret = CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

static CUresult get_attribute(int *ret, CUfunction_attribute which, CUfunction f)
{
	(void)which;
	(void)f;
	*ret = 16;
	return CUDA_SUCCESS;
}

static CUresult load(CUfunction f)
{
	(void)f;
	return CUDA_SUCCESS;
}

static CUresult push_context(CUcontext context)
{
	(void)context;
	n_pushed++;
	return CUDA_SUCCESS;
}

static CUresult pop_context(CUcontext *context)
{
	*context = NULL;
	n_pushed--;
	return CUDA_SUCCESS;
}

static CUresult query(CUstream stream)
{
	(void)stream;
	return CUDA_SUCCESS;
}

static CUresult destroy_event(CUevent event)
{
	(void)event;
	n_destroyed++;
	return CUDA_SUCCESS;
}

static const struct profiler profiler = {
	.cuCtxPushCurrent = push_context,
	.cuCtxPopCurrent = pop_context,
	.cuStreamQuery = query,
	.cuEventDestroy = destroy_event,
	.cuptiSubscribe = subscribe,
	.cuptiGetCallbackName = no_name,
	.cuptiGetStreamIdEx = get_stream,
	.stream_capture_info = capture_info,
	.cuFuncGetAttribute = get_attribute,
	.cuFuncLoad = load,
};

/* --- how launches are measured --- */

static struct launch noted; /* of the launch that was measured last */

static bool open_one(struct capture *capture, struct ranges *ranges, struct section *v,
		     struct launch **ret)
{
	(void)capture;
	(void)v;
	ranges->state = RANGES_STARTED;
	*ret = &noted;
	n_opened++;
	return true;
}

static void close_one(struct capture *capture, struct ranges *ranges, struct section *v,
		      bool launched)
{
	(void)capture;
	(void)ranges;
	(void)v;
	n_closed++;
	n_failed += !launched;
}

static bool end_all(struct capture *capture, struct ranges *ranges)
{
	(void)capture;
	(void)ranges;
	return true;
}

static bool disable(struct capture *capture, struct ranges *ranges)
{
	(void)capture;
	n_disabled += ranges != stubborn;
	return ranges != stubborn;
}

static const struct method method = { open_one, close_one, end_all, disable };

static int begin(void **state)
{
	struct wire_selection selection = {
		.kernel_name = "", .kernel_regex = "", .capture_range = "", .step = ""
	};
	struct refusal refusal;

	(void)state;
	n_opened = n_closed = n_failed = n_disabled = n_destroyed = 0;
	n_pushed = 0;
	stubborn = NULL;
	activity_init(&activity);
	c = capture_new(&profiler, &activity, &unconnected, false);
	assert_non_null(c);
	c->passes.n = 1;
	c->has_times = true;
	assert_int_equal(filter_init(&c->filter, &selection, &refusal), 0);
	assert_int_equal(callbacks_subscribe(c, &refusal), 0);
	c->method = &method;
	r = contexts_find(c, CONTEXT);
	state_move(&c->deliver.state, CAPTURE_MEASURING);
	sections_open(c);
	return 0;
}

static int end(void **state)
{
	(void)state;
	assert_int_equal(n_pushed, 0);
	assert_true(sections_close(c)); /* nobody is inside of it any more */
	sections_closed();
	return capture_free(c) ? 0 : -1;
}

static inline void call(CUpti_CallbackId id, CUpti_ApiCallbackSite site, CUresult result)
{
	static const cuLaunchKernel_params params = { .f = (CUfunction)(uintptr_t)0x20,
						      .gridDimX = 1,
						      .blockDimX = 32 };
	const CUpti_CallbackData data = {
		.callbackSite = site,
		.functionParams = &params,
		.functionReturnValue = &result,
		.context = CONTEXT,
		.contextUid = 1,
		.symbolName = "kernel",
	};

	callback(NULL, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
}

static inline void enter(CUpti_CallbackId id)
{
	call(id, CUPTI_API_ENTER, CUDA_SUCCESS);
}

static inline void leave(CUpti_CallbackId id, CUresult result)
{
	call(id, CUPTI_API_EXIT, result);
}

static inline void expect_unlocked(void)
{
	assert_true(lock_try(&r->gate.lock));
	lock_release(&r->gate.lock);
}

#define LAUNCHES_TEST(f) TEST_WITH(f, begin, end)

#endif
