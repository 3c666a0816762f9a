/* SPDX-License-Identifier: Apache-2.0 */
/* The fake driver API: contexts and streams, and the door for the fake profiler library.
 *
 * The current context is a stack per thread. */

#include "tests/fake/gpu.h"
#include "tests/fake/queue.h"
#include "tests/fake/state.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { CONTEXT_DEPTH = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext contexts;
static CUcontext primary[FAKE_MAX_GPUS];
static uint32_t next_uid = 1;

static _Thread_local CUcontext stack[CONTEXT_DEPTH];
static _Thread_local int depth;

CUcontext gpu_current(void)
{
	return depth ? stack[depth - 1] : NULL;
}

bool gpu_context_is_alive(CUcontext context)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (CUcontext c = contexts; c; c = c->next) {
		found = found || (c == context && c->alive);
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static void stream_free(CUstream s)
{
	pthread_mutex_lock(&lock);
	for (CUstream *at = &s->context->streams; *at; at = &(*at)->next) {
		if (*at == s) {
			*at = s->next;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
	gpu_end_stream_capture(s);
	free(s);
}

/* A new context may have the address of one that has ended, as happens with the real driver. */
static CUcontext context_alloc(void)
{
	CUcontext found = NULL;

	pthread_mutex_lock(&lock);
	for (CUcontext *c = &contexts; *c && !found; c = &(*c)->next) {
		if (!(*c)->alive && !(*c)->is_primary) {
			found = *c;
			*c = found->next;
			*found = (struct CUctx_st){ 0 };
			break;
		}
	}
	pthread_mutex_unlock(&lock);
	return found ? found : calloc(1, sizeof(*found));
}

static CUcontext context_new(CUdevice device, bool is_primary)
{
	CUcontext c = context_alloc();

	if (!c) {
		return NULL;
	}
	c->alive = true;
	c->is_primary = is_primary;
	c->device = device;
	c->gpu = gpu_of_device(device);
	pthread_mutex_lock(&lock);
	c->uid = next_uid++;
	c->h_context = 0x5c000000 + c->uid;
	c->next_stream_id = 13;
	c->next = contexts;
	contexts = c;
	pthread_mutex_unlock(&lock);
	fake_user_add(c->gpu);
	trace_resource(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, c, NULL);
	return c;
}

static void context_end(CUcontext c)
{
	trace_resource(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, c, NULL);
	queue_end_context(c);
	while (c->streams) {
		stream_free(c->streams);
	}
	pthread_mutex_lock(&lock);
	c->alive = false;
	pthread_mutex_unlock(&lock);
	fake_user_remove(c->gpu);
	for (int i = 0; i < depth; i++) {
		stack[i] = stack[i] == c ? NULL : stack[i];
	}
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *ret, CUdevice device)
{
	CUresult r = gpu_check_device(device);
	static pthread_mutex_t primary_lock = PTHREAD_MUTEX_INITIALIZER;

	if (r != CUDA_SUCCESS) {
		return r;
	}
	pthread_mutex_lock(&primary_lock);
	if (!primary[device] || !primary[device]->alive) {
		primary[device] = context_new(device, true);
	}
	if (primary[device]) {
		primary[device]->retained++;
	}
	*ret = primary[device];
	pthread_mutex_unlock(&primary_lock);
	return *ret ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	CUresult r = gpu_check_device(device);

	if (r == CUDA_SUCCESS && primary[device] && primary[device]->alive) {
		primary[device]->retained = 0;
		context_end(primary[device]);
	}
	return r;
}

/* Addresses are only passed on to kernels, which do not use them. */
CUresult cuMemAlloc_v2(CUdeviceptr *ret, size_t bytes)
{
	static _Atomic CUdeviceptr next = 0x7f0000000000;

	*ret = atomic_fetch_add(&next, (bytes + 0x1fffff) & ~(size_t)0x1fffff);
	return bytes > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostAlloc(void **ret, size_t bytes, unsigned int flags)
{
	(void)flags;
	*ret = calloc(1, bytes);
	return *ret ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult push(CUcontext context)
{
	if (depth == CONTEXT_DEPTH) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	stack[depth++] = context;
	return CUDA_SUCCESS;
}

static CUresult create(CUcontext *ret, CUdevice device)
{
	CUresult r = gpu_check_device(device);
	CUcontext c;

	if (r != CUDA_SUCCESS) {
		return r;
	}
	c = context_new(device, false);
	if (!c) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret = c;
	return push(c);
}

CUresult cuCtxCreate_v2(CUcontext *ret, unsigned int flags, CUdevice device)
{
	cuCtxCreate_v2_params params = { ret, flags, device };
	struct fake_trace trace;

	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuCtxCreate_v2, "cuCtxCreate_v2", &params,
		    NULL);
	return trace_exit(&trace, create(ret, device));
}

CUresult cuCtxCreate_v4(CUcontext *ret, CUctxCreateParams *options, unsigned int flags,
			CUdevice device)
{
	cuCtxCreate_v4_params params = { ret, options, flags, device };
	struct fake_trace trace;

	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuCtxCreate_v4, "cuCtxCreate_v4", &params,
		    NULL);
	return trace_exit(&trace, create(ret, device));
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
	cuCtxDestroy_v2_params params = { context };
	struct fake_trace trace;

	if (!gpu_context_is_alive(context) || context->is_primary) {
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuCtxDestroy_v2, "cuCtxDestroy_v2", &params,
		    NULL);
	context_end(context);
	return trace_exit(&trace, CUDA_SUCCESS);
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	CUresult r = gpu_ready();

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (context && !gpu_context_is_alive(context)) {
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	if (depth == 0) {
		return push(context);
	}
	stack[depth - 1] = context;
	return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	CUresult r = gpu_ready();

	if (r != CUDA_SUCCESS) {
		return r;
	}
	return gpu_context_is_alive(context) ? push(context) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxPopCurrent_v2(CUcontext *ret)
{
	if (depth == 0) {
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	depth--;
	if (ret) {
		*ret = stack[depth];
	}
	return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *ret)
{
	CUcontext c = gpu_current();
	CUresult r = gpu_ready();

	if (r != CUDA_SUCCESS || !c) {
		return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_CONTEXT;
	}
	*ret = c->device;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long *ret)
{
	CUcontext c = context ? context : gpu_current();

	if (!gpu_context_is_alive(c)) {
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	*ret = c->uid;
	return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
	struct fake_trace trace;

	if (!gpu_current()) {
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize, "cuCtxSynchronize", NULL,
		    NULL);
	queue_drain(gpu_current());
	return trace_exit(&trace, CUDA_SUCCESS);
}

struct CUstream_st *gpu_stream(CUstream stream)
{
	return stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD
		       ? NULL
		       : stream;
}

static CUresult stream_create(CUstream *ret)
{
	struct CUstream_st *s;
	CUcontext c = gpu_current();

	if (!c || !c->alive) {
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	s = calloc(1, sizeof(*s));
	if (!s) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	s->context = c;
	pthread_mutex_lock(&lock);
	s->next = c->streams;
	c->streams = s;
	pthread_mutex_unlock(&lock);
	s->id = atomic_fetch_add(&c->next_stream_id, 1);
	trace_resource(CUPTI_CBID_RESOURCE_STREAM_CREATED, c, s);
	*ret = s;
	return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *ret, unsigned int flags)
{
	cuStreamCreate_params params = { ret, flags };
	struct fake_trace trace;

	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuStreamCreate, "cuStreamCreate", &params,
		    NULL);
	return trace_exit(&trace, stream_create(ret));
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
	cuStreamDestroy_v2_params params = { stream };
	struct fake_trace trace;

	if (!gpu_stream(stream)) {
		return CUDA_ERROR_INVALID_HANDLE;
	}
	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuStreamDestroy_v2, "cuStreamDestroy_v2",
		    &params, NULL);
	trace_resource(CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING, stream->context, stream);
	stream_free(stream);
	return trace_exit(&trace, CUDA_SUCCESS);
}

static bool hook_context_find(CUcontext context, int *ret_gpu, uint32_t *ret_uid)
{
	CUcontext c = context ? context : gpu_current();

	if (!c || !gpu_context_is_alive(c)) {
		return false;
	}
	*ret_gpu = c->gpu;
	*ret_uid = c->uid;
	return true;
}

static int hook_context_device(CUcontext context)
{
	return context->device;
}

static bool hook_stream_find(CUcontext context, CUstream stream, bool per_thread, uint32_t *ret_id)
{
	struct CUstream_st *s = gpu_stream(stream);

	if (!gpu_context_is_alive(context ? context : gpu_current())) {
		return false;
	}
	if (s) {
		*ret_id = s->id;
	} else {
		*ret_id = per_thread || stream == CU_STREAM_PER_THREAD ? STREAM_ID_PER_THREAD
								       : STREAM_ID_DEFAULT;
	}
	return true;
}

bool gpu_invalidate_stream_captures(CUcontext context)
{
	bool any = false;

	pthread_mutex_lock(&lock);
	for (CUstream s = context->streams; s; s = s->next) {
		CUstreamCaptureStatus active = CU_STREAM_CAPTURE_STATUS_ACTIVE;

		any |= atomic_compare_exchange_strong(&s->capture_status, &active,
						      CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	}
	pthread_mutex_unlock(&lock);
	return any;
}

void trace_listen(const struct fake_listener *listener);

const struct fake_hooks *fakecuda_hooks(void)
{
	static const struct fake_hooks hooks = {
		.listen = trace_listen,
		.profiler_alloc = permission_alloc,
		.profiler_free = permission_free,
		.context_find = hook_context_find,
		.context_device = hook_context_device,
		.stream_find = hook_stream_find,
		.device_gpu = gpu_of_device,
		.current = gpu_current,
		.last_correlation = trace_last_correlation,
		.invalidate_stream_captures = gpu_invalidate_stream_captures,
		.barrier = queue_barrier,
		.forget = queue_forget,
		.wait_barriers = queue_wait_barriers,
		.is_idle = queue_is_idle,
	};

	return &hooks;
}
