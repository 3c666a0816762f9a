/* SPDX-License-Identifier: Apache-2.0 */
/* The fake driver API: modules and launches.
 *
 * A kernel's work is given to queue.c inside of its launch call, between the two callbacks; queue.c
 * decides when the work runs and ends. Any image is a module, and it has every function that is
 * asked for.
 *
 * A kernel of the library API has a function in each context, which is loaded by cuFuncLoad(), or
 * within the first launch, which then takes LOAD_NS longer. Functions of a module are always
 * loaded. */

#include "tests/fake/gpu.h"
#include "tests/fake/queue.h"
#include "tests/fake/state.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOAD_NS = 5000000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* modules that the program has not unloaded: the driver keeps them */
static CUmodule modules;
static CUlibrary libraries;

CUresult gpu_need_context(CUcontext *ret)
{
	CUresult r = gpu_ready();

	if (r != CUDA_SUCCESS) {
		return r;
	}
	*ret = gpu_current();
	return *ret && gpu_context_is_alive(*ret) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuModuleLoadData(CUmodule *ret, const void *image)
{
	CUcontext context = NULL;
	CUresult r = gpu_need_context(&context);
	struct CUmod_st *module;

	if (r != CUDA_SUCCESS || !image) {
		return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_IMAGE;
	}
	module = calloc(1, sizeof(*module));
	if (!module) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	module->context = context;
	pthread_mutex_lock(&lock);
	module->next = modules;
	modules = module;
	pthread_mutex_unlock(&lock);
	*ret = module;
	return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
	queue_drain(module->context);
	pthread_mutex_lock(&lock);
	for (CUmodule *at = &modules; *at; at = &(*at)->next) {
		if (*at == module) {
			*at = module->next;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
	while (module->functions) {
		CUfunction f = module->functions;

		module->functions = f->next;
		free(f);
	}
	free(module);
	return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *ret, CUmodule module, const char *name)
{
	CUfunction f;

	if (!module || !name || strlen(name) >= sizeof(f->name)) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	pthread_mutex_lock(&lock);
	for (f = module->functions; f && strcmp(f->name, name) != 0; f = f->next) {
	}
	if (!f) {
		f = calloc(1, sizeof(*f));
		if (f) {
			f->magic = FUNCTION_MAGIC;
			f->is_loaded = true;
			strcpy(f->name, name);
			f->next = module->functions;
			module->functions = f;
		}
	}
	pthread_mutex_unlock(&lock);
	*ret = f;
	return f ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuLibraryLoadData(CUlibrary *ret, const void *code, CUjit_option *jit_options,
			   void **jit_values, unsigned int n_jit, CUlibraryOption *options,
			   void **values, unsigned int n)
{
	(void)jit_options;
	(void)jit_values;
	(void)n_jit;
	(void)options;
	(void)values;
	(void)n;
	if (!code) {
		return CUDA_ERROR_INVALID_IMAGE;
	}
	*ret = calloc(1, sizeof(**ret));
	if (!*ret) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_lock(&lock);
	(*ret)->next = libraries;
	libraries = *ret;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *ret, CUlibrary library, const char *name)
{
	CUkernel k;

	if (!library || !name || strlen(name) >= sizeof(k->name)) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	pthread_mutex_lock(&lock);
	for (k = library->kernels; k && strcmp(k->name, name) != 0; k = k->next) {
	}
	if (!k) {
		k = calloc(1, sizeof(*k));
		if (k) {
			k->magic = KERNEL_MAGIC;
			strcpy(k->name, name);
			k->next = library->kernels;
			library->kernels = k;
		}
	}
	pthread_mutex_unlock(&lock);
	*ret = k;
	return k ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static bool is_function(CUfunction f)
{
	return f && f->magic == FUNCTION_MAGIC;
}

static bool is_kernel(CUkernel k)
{
	return k && k->magic == KERNEL_MAGIC;
}

CUresult cuKernelGetFunction(CUfunction *ret, CUkernel kernel)
{
	CUcontext context = gpu_current();
	CUfunction f;

	if (!is_kernel(kernel) || !context) {
		return is_kernel(kernel) ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_HANDLE;
	}
	pthread_mutex_lock(&lock);
	for (f = kernel->functions; f && f->context != context; f = f->next) {
	}
	if (!f) {
		f = calloc(1, sizeof(*f));
		if (f) {
			f->magic = FUNCTION_MAGIC;
			f->context = context;
			strcpy(f->name, kernel->name);
			f->next = kernel->functions;
			kernel->functions = f;
		}
	}
	pthread_mutex_unlock(&lock);
	*ret = f;
	return f ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuFuncLoad(CUfunction f)
{
	if (!is_function(f)) {
		return CUDA_ERROR_INVALID_HANDLE;
	}
	if (!f->is_loaded && gpu_captures()) {
		fake_violation("cuFuncLoad: while a stream captures");
	}
	f->is_loaded = true;
	return CUDA_SUCCESS;
}

/* "_r40" in a function's name: 40. */
static int number_behind(const char *name, const char *mark, int otherwise)
{
	const char *at = strstr(name, mark);
	int n;

	return at && sscanf(at + strlen(mark), "%d", &n) == 1 ? n : otherwise;
}

void gpu_read_name(const char *name, struct fake_shape *shape)
{
	shape->registers = number_behind(name, "_r", 32);
	shape->static_shared = number_behind(name, "_s", 512);
}

CUresult cuFuncGetAttribute(int *ret, CUfunction_attribute attribute, CUfunction f)
{
	struct fake_shape shape;

	if (!is_function(f)) {
		return CUDA_ERROR_INVALID_HANDLE;
	}
	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*ret = 1024;
		break;
	case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
		gpu_read_name(f->name, &shape);
		*ret = shape.static_shared;
		break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		gpu_read_name(f->name, &shape);
		*ret = shape.registers;
		break;
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*ret = 90;
		break;
	default:
		*ret = 0;
	}
	return CUDA_SUCCESS;
}

static struct fake_work work_of(const CUlaunchConfig *c)
{
	uint64_t threads = (uint64_t)c->gridDimX * c->gridDimY * c->gridDimZ * c->blockDimX *
			   c->blockDimY * c->blockDimZ;

	return (struct fake_work){
		.threads = threads,
		.warps = threads / 32,
		.time_ns = 1000 + threads / 64,
		.kernels = 1,
	};
}

static struct fake_shape shape_of(const CUlaunchConfig *c, const char *name)
{
	struct fake_shape s = {
		.grid = { c->gridDimX, c->gridDimY, c->gridDimZ },
		.block = { c->blockDimX, c->blockDimY, c->blockDimZ },
		.dynamic_shared = c->sharedMemBytes,
	};

	gpu_read_name(name, &s);
	return s;
}

/* The function of either kind of handle. One that is not loaded is loaded now, which takes time. */
static CUfunction function_of(CUfunction handle, struct fake_work *work)
{
	CUfunction f = is_function(handle) ? handle : NULL;

	if (!f && cuKernelGetFunction(&f, (CUkernel)handle) != CUDA_SUCCESS) {
		return NULL;
	}
	if (!f->is_loaded) {
		f->is_loaded = true;
		work->load_ns = LOAD_NS;
	}
	return f;
}

static const char *name_of(CUfunction handle)
{
	return is_function(handle)	     ? handle->name
	       : is_kernel((CUkernel)handle) ? ((CUkernel)handle)->name
					     : NULL;
}

static CUresult run(const CUlaunchConfig *config, CUfunction f, void **arguments)
{
	CUcontext context = NULL;
	CUresult r = gpu_need_context(&context);
	struct CUstream_st *stream = gpu_stream(config->hStream);
	struct fake_work work = work_of(config);
	struct fake_shape shape;

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (!f || !work.threads) {
		return f ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	}
	if (stream && stream->context != context) {
		return CUDA_ERROR_INVALID_HANDLE;
	}
	if (stream && stream->capture_status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
		const struct fake_node node = { gpu_keep_name(name_of(f)),
						shape_of(config, name_of(f)), work };

		return gpu_record(stream->graph, &node);
	}
	if (!function_of(f, &work)) {
		return CUDA_ERROR_INVALID_HANDLE;
	}
	shape = shape_of(config, name_of(f));
	queue_kernel(context, config->hStream, f->name, arguments, &work, &shape);
	return CUDA_SUCCESS;
}

/* Lets the call return late, as when the thread has to share its CPU. */
static void return_late(void)
{
	static _Atomic long late_us = -1;

	if (late_us < 0) {
		const char *text = getenv("GPUCTR_FAKE_RETURN_US");

		late_us = text ? strtol(text, NULL, 10) : 0;
	}
	if (late_us > 0) {
		nanosleep(&(struct timespec){ late_us / 1000000, late_us % 1000000 * 1000 }, NULL);
	}
}

static CUresult launch(uint32_t cbid, const char *name, const void *params,
		       const CUlaunchConfig *config, CUfunction f, void **arguments)
{
	struct fake_trace trace;
	CUresult r;

	trace_enter(&trace, cbid, name, params, name_of(f));
	r = run(config, f, arguments);
	return_late();
	return trace_exit(&trace, r);
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
			unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
			CUstream stream, void **arguments, void **extra)
{
	cuLaunchKernel_params params = {
		f, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra
	};
	CUlaunchConfig config = { gx, gy, gz, bx, by, bz, shared, stream, NULL, 0 };

	return launch(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, "cuLaunchKernel", &params, &config, f,
		      arguments);
}

CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
			     unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
			     CUstream stream, void **arguments, void **extra)
{
	cuLaunchKernel_ptsz_params params = { f,  gx,	  gy,	  gz,	     bx,   by,
					      bz, shared, stream, arguments, extra };
	CUlaunchConfig config = { gx, gy, gz, bx, by, bz, shared, stream, NULL, 0 };

	return launch(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz, "cuLaunchKernel_ptsz", &params,
		      &config, f, arguments);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **arguments,
			  void **extra)
{
	cuLaunchKernelEx_params params = { config, f, arguments, extra };

	return launch(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, "cuLaunchKernelEx", &params, config,
		      f, arguments);
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **arguments,
			       void **extra)
{
	cuLaunchKernelEx_ptsz_params params = { config, f, arguments, extra };

	return launch(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz, "cuLaunchKernelEx_ptsz",
		      &params, config, f, arguments);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
				   unsigned int bx, unsigned int by, unsigned int bz,
				   unsigned int shared, CUstream stream, void **arguments)
{
	cuLaunchCooperativeKernel_params params = { f,	gx, gy,	    gz,	    bx,
						    by, bz, shared, stream, arguments };
	CUlaunchConfig config = { gx, gy, gz, bx, by, bz, shared, stream, NULL, 0 };

	return launch(CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
		      "cuLaunchCooperativeKernel", &params, &config, f, arguments);
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gx, unsigned int gy,
					unsigned int gz, unsigned int bx, unsigned int by,
					unsigned int bz, unsigned int shared, CUstream stream,
					void **arguments)
{
	cuLaunchCooperativeKernel_ptsz_params params = { f,  gx, gy,	 gz,	 bx,
							 by, bz, shared, stream, arguments };
	CUlaunchConfig config = { gx, gy, gz, bx, by, bz, shared, stream, NULL, 0 };

	return launch(CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
		      "cuLaunchCooperativeKernel_ptsz", &params, &config, f, arguments);
}

/* A fill is work of the GPU, but no kernel of the program's. */
static CUresult fill(CUstream stream, size_t n)
{
	const struct fake_work work = { .threads = n, .warps = n / 32, .time_ns = 1000 + n / 64 };
	CUcontext context = NULL;
	CUresult r = gpu_need_context(&context);

	if (r == CUDA_SUCCESS) {
		queue_kernel(context, stream, "(fill)", NULL, &work, &(struct fake_shape){ 0 });
	}
	return r;
}

/* One word that becomes 1 is written when the stream comes to it: a kernel may wait for it. */
static CUresult set_flag(CUdeviceptr to, CUstream stream)
{
	volatile uint32_t *flag = (volatile uint32_t *)(uintptr_t)to;
	void *arguments[] = { &flag };
	const struct fake_work work = { .threads = 32, .warps = 1, .time_ns = 1000 };
	CUcontext context = NULL;
	CUresult r = gpu_need_context(&context);

	if (r == CUDA_SUCCESS) {
		queue_kernel(context, stream, QUEUE_SETS, arguments, &work,
			     &(struct fake_shape){ 0 });
	}
	return r;
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t n, CUstream stream)
{
	cuMemsetD32Async_params params = { to, value, n, stream };
	struct fake_trace trace;

	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async, "cuMemsetD32Async", &params,
		    NULL);
	return trace_exit(&trace, n == 1 && value == 1 ? set_flag(to, stream) : fill(stream, n));
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	cuMemcpyDtoDAsync_v2_params params = { to, from, bytes, stream };
	struct fake_trace trace;

	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync_v2",
		    &params, NULL);
	return trace_exit(&trace, fill(stream, bytes / 4));
}

/* Other calls that give the GPU work. */
CUresult cuMemPrefetchAsync_v2(CUdeviceptr at, size_t n, CUmemLocation to, unsigned int flags,
			       CUstream stream)
{
	cuMemPrefetchAsync_v2_params params = { at, n, to, flags, stream };
	struct fake_trace trace;

	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchAsync_v2, "cuMemPrefetchAsync_v2",
		    &params, NULL);
	return trace_exit(&trace, fill(stream, n));
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
	cuGraphUpload_params params = { exec, stream };
	struct fake_trace trace;

	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuGraphUpload, "cuGraphUpload", &params, NULL);
	return trace_exit(&trace, fill(stream, 4096));
}

CUresult cuMemMapArrayAsync(CUarrayMapInfo *list, unsigned int n, CUstream stream)
{
	cuMemMapArrayAsync_params params = { list, n, stream };
	struct fake_trace trace;

	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuMemMapArrayAsync, "cuMemMapArrayAsync",
		    &params, NULL);
	return trace_exit(&trace, fill(stream, 4096));
}

/* --- launches as of old --- */

enum { OLD_BLOCK = 128 };

static CUlaunchConfig old_config(int width, int height, CUstream stream)
{
	return (CUlaunchConfig){ .gridDimX = (unsigned int)width,
				 .gridDimY = (unsigned int)height,
				 .gridDimZ = 1,
				 .blockDimX = OLD_BLOCK,
				 .blockDimY = 1,
				 .blockDimZ = 1,
				 .hStream = stream };
}

CUresult cuLaunch(CUfunction f)
{
	cuLaunch_params params = { f };
	CUlaunchConfig config = old_config(1, 1, NULL);

	return launch(CUPTI_DRIVER_TRACE_CBID_cuLaunch, "cuLaunch", &params, &config, f, NULL);
}

CUresult cuLaunchGrid(CUfunction f, int width, int height)
{
	cuLaunchGrid_params params = { f, width, height };
	CUlaunchConfig config = old_config(width, height, NULL);

	return launch(CUPTI_DRIVER_TRACE_CBID_cuLaunchGrid, "cuLaunchGrid", &params, &config, f,
		      NULL);
}

CUresult cuLaunchGridAsync(CUfunction f, int width, int height, CUstream stream)
{
	cuLaunchGridAsync_params params = { f, width, height, stream };
	CUlaunchConfig config = old_config(width, height, stream);

	return launch(CUPTI_DRIVER_TRACE_CBID_cuLaunchGridAsync, "cuLaunchGridAsync", &params,
		      &config, f, NULL);
}

/* All in the current context, as far as it has the streams. */
CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned int n,
					      unsigned int flags)
{
	cuLaunchCooperativeKernelMultiDevice_params params = { list, n, flags };
	struct fake_trace trace;
	CUresult r = n > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernelMultiDevice,
		    "cuLaunchCooperativeKernelMultiDevice", &params,
		    n > 0 ? name_of(list[0].function) : NULL);
	for (unsigned int i = 0; i < n && r == CUDA_SUCCESS; i++) {
		CUlaunchConfig config = old_config((int)list[i].gridDimX, 1, list[i].hStream);

		r = run(&config, list[i].function, NULL);
	}
	return trace_exit(&trace, r);
}

CUresult cuProfilerStart(void)
{
	struct fake_trace trace;

	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuProfilerStart, "cuProfilerStart", NULL, NULL);
	return trace_exit(&trace, gpu_ready());
}

CUresult cuProfilerStop(void)
{
	struct fake_trace trace;

	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuProfilerStop, "cuProfilerStop", NULL, NULL);
	return trace_exit(&trace, gpu_ready());
}
