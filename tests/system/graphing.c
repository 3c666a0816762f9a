/* SPDX-License-Identifier: Apache-2.0 */

/* A program that a capture meets while two of its streams capture a graph each, and that is another
 * user of CUPTI afterwards. It waits at two places, as fakeapp does: within the capture of the
 * graph, and at its end. Prints what became of the graph, and whether CUPTI could be had. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include <cupti_range_profiler.h>
#include <cupti_target.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { CAPTURED = 5, BESIDE = 5, AFTERWARDS = 20 };

static CUfunction function;

static void check(const char *what, CUresult r)
{
	if (r != CUDA_SUCCESS) {
		printf("%s: %d\n", what, (int)r);
		exit(1);
	}
}

static void hold(void)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/held.%d", getenv("GPUCTR_FAKE_DIR"), (int)getpid());
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	close(fd);
	while (access(path, F_OK) == 0) {
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
}

static void launch(CUstream stream, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		check("launch", cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
	}
}

static void on_callback(void *user_data, int domain, uint32_t id, const void *data)
{
	(void)user_data;
	(void)domain;
	(void)id;
	(void)data;
}

/* What torch.profiler does first. */
static int try_cupti(void)
{
	void *library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_LOCAL), *subscriber;
	int (*subscribe)(void **, void (*)(void *, int, uint32_t, const void *), void *);
	int (*unsubscribe)(void *);
	int r;

	*(void **)&subscribe = dlsym(library, "cuptiSubscribe");
	*(void **)&unsubscribe = dlsym(library, "cuptiUnsubscribe");
	r = subscribe(&subscriber, on_callback, NULL);
	if (r == 0) {
		unsubscribe(subscriber);
	}
	return r;
}

/* And what ncu does. The fake profiler is loaded already. */
static int try_profiler(CUcontext context)
{
	void *library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
	CUpti_RangeProfiler_Enable_Params enable = {
		.structSize = CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE,
		.ctx = context,
	};
	CUpti_RangeProfiler_Disable_Params disable = {
		.structSize = CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE,
	};
	CUptiResult (*call_enable)(CUpti_RangeProfiler_Enable_Params *);
	CUptiResult (*call_disable)(CUpti_RangeProfiler_Disable_Params *);
	int r;

	*(void **)&call_enable = dlsym(library, "cuptiRangeProfilerEnable");
	*(void **)&call_disable = dlsym(library, "cuptiRangeProfilerDisable");
	r = (int)call_enable(&enable);
	disable.pRangeProfilerObject = enable.pRangeProfilerObject;
	call_disable(&disable);
	return r;
}

static CUcontext begin(CUmodule *ret_module)
{
	CUcontext context;
	CUdevice device;

	check("cuInit", cuInit(0));
	check("device", cuDeviceGet(&device, 0));
	check("context", cuCtxCreate(&context, NULL, 0, device));
	check("module", cuModuleLoadData(ret_module, "image"));
	check("function", cuModuleGetFunction(&function, *ret_module, "_Z2k0Pf"));
	return context;
}

int main(void)
{
	CUstream graphing, longer, beside;
	CUgraphExec exec;
	CUcontext context;
	CUmodule module;
	CUgraph graph, other;

	context = begin(&module);
	check("stream", cuStreamCreate(&graphing, CU_STREAM_NON_BLOCKING));
	check("stream", cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
	check("stream", cuStreamCreate(&longer, CU_STREAM_NON_BLOCKING));
	check("begin", cuStreamBeginCapture(graphing, CU_STREAM_CAPTURE_MODE_RELAXED));
	check("begin", cuStreamBeginCapture(longer, CU_STREAM_CAPTURE_MODE_RELAXED));
	hold();
	launch(graphing, CAPTURED);
	launch(longer, CAPTURED);
	launch(beside, BESIDE);
	check("end", cuStreamEndCapture(graphing, &graph));
	launch(beside, BESIDE);
	check("end", cuStreamEndCapture(longer, &other));
	check("graph", cuGraphDestroy(other));
	check("instantiate", cuGraphInstantiate(&exec, graph, 0));
	check("graph launch", cuGraphLaunch(exec, graphing));
	launch(beside, AFTERWARDS);
	hold();
	printf("graph launched, CUPTI %d, profiler %d\n", try_cupti(), try_profiler(context));
	fflush(stdout);
	check("executable", cuGraphExecDestroy(exec));
	check("graph", cuGraphDestroy(graph));
	check("stream", cuStreamDestroy(graphing));
	check("stream", cuStreamDestroy(longer));
	check("stream", cuStreamDestroy(beside));
	check("module", cuModuleUnload(module));
	check("context", cuCtxDestroy(context));
	return 0;
}
