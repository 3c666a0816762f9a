/* SPDX-License-Identifier: Apache-2.0 */
/* A program that does what few do.
 *
 * fakeodd stream|context KERNELS SLEEP_US
 *
 *     Captures a stream before every tenth launch, with one launch into it, and destroys the
 * stream, or the context that it is in, in place of ending that.
 *
 * fakeodd contexts N ROUNDS
 *
 *     Has N contexts at a time, and launches ROUNDS times in each.
 *
 * fakeodd calls KERNELS SLEEP_US
 *
 *     While it launches kernels, a second thread launches by calls as of old, prefetches memory,
 *     uploads a graph and maps arrays. Says on stderr how many launches that were.
 *
 * Prints "done N" with the number of launches that were not captured. */

#include <cuda.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EVERY = 10, THREADS = 128 };

static unsigned launched;

static void check(const char *what, CUresult r)
{
	if (r != CUDA_SUCCESS) {
		fprintf(stderr, "%s: %d\n", what, (int)r);
		exit(1);
	}
}

/* A context that is current, and a kernel in it. */
static CUfunction make_context(CUcontext *ret)
{
	CUmodule module;
	CUfunction f;

	check("cuCtxCreate", cuCtxCreate(ret, NULL, 0, 0));
	check("cuModuleLoadData", cuModuleLoadData(&module, "odd"));
	check("cuModuleGetFunction", cuModuleGetFunction(&f, module, "_Z3oddPf"));
	return f;
}

static void launch(CUfunction f, CUstream stream)
{
	check("cuLaunchKernel", cuLaunchKernel(f, 1, 1, 1, THREADS, 1, 1, 0, stream, NULL, NULL));
}

/* --- stream captures that nobody ends --- */

static CUstream begin_capture(CUfunction f)
{
	CUstream stream;

	check("cuStreamCreate", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	check("begin", cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	launch(f, stream);
	return stream;
}

static void capture_and_destroy_context(void)
{
	CUcontext context;
	CUfunction f = make_context(&context);

	begin_capture(f);
	check("cuCtxPopCurrent", cuCtxPopCurrent(&context));
	check("cuCtxDestroy", cuCtxDestroy(context));
}

static void run_captures(bool of_context, unsigned kernels, unsigned sleep_us)
{
	const struct timespec pause = { 0, sleep_us * 1000L };
	CUcontext context;
	CUfunction f = make_context(&context);

	for (unsigned i = 0; i < kernels; i++) {
		if (i % EVERY == EVERY - 1 && of_context) {
			capture_and_destroy_context();
		} else if (i % EVERY == EVERY - 1) {
			check("cuStreamDestroy", cuStreamDestroy(begin_capture(f)));
		}
		launch(f, NULL);
		launched++;
		nanosleep(&pause, NULL);
	}
	check("cuCtxDestroy", cuCtxDestroy(context));
}

/* --- many contexts --- */

static void run_contexts(unsigned n, unsigned rounds)
{
	CUcontext *contexts = calloc(n, sizeof(*contexts));
	CUfunction *functions = calloc(n, sizeof(CUfunction));

	if (!contexts || !functions) {
		exit(1);
	}
	for (unsigned i = 0; i < n; i++) {
		functions[i] = make_context(&contexts[i]);
		check("cuCtxPopCurrent", cuCtxPopCurrent(&contexts[i]));
	}
	for (unsigned i = 0; i < n * rounds; i++) {
		check("cuCtxSetCurrent", cuCtxSetCurrent(contexts[i % n]));
		launch(functions[i % n], NULL);
		launched++;
	}
	for (unsigned i = n; i-- > 0;) {
		check("cuCtxDestroy", cuCtxDestroy(contexts[i]));
	}
	free(contexts);
	free(functions);
}

/* --- other calls --- */

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static struct {
	CUcontext context;
	CUfunction f;
	CUstream stream;
	atomic_bool ended;
	unsigned launched;
} other;

static void *call_others(void *argument)
{
	const CUmemLocation location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 };
	CUDA_LAUNCH_PARAMS both[] = {
		{ .function = other.f, .gridDimX = 2, .hStream = other.stream },
		{ .function = other.f, .gridDimX = 3, .hStream = other.stream },
	};

	check("cuCtxSetCurrent", cuCtxSetCurrent(other.context));
	while (!atomic_load(&other.ended)) {
		check("cuLaunch", cuLaunch(other.f));
		check("cuLaunchGrid", cuLaunchGrid(other.f, 2, 2));
		check("cuLaunchGridAsync", cuLaunchGridAsync(other.f, 2, 2, other.stream));
		check("multi", cuLaunchCooperativeKernelMultiDevice(both, 2, 0));
		other.launched += 5;
		for (unsigned i = 0; i < 4; i++) { /* at any time of the other thread's launch */
			nanosleep(&(struct timespec){ 0, 20000 * i }, NULL);
			check("prefetch", cuMemPrefetchAsync(1, 4096, location, 0, other.stream));
			nanosleep(&(struct timespec){ 0, 20000 * i }, NULL);
			check("upload", cuGraphUpload(NULL, other.stream));
			nanosleep(&(struct timespec){ 0, 20000 * i }, NULL);
			check("map", cuMemMapArrayAsync(NULL, 0, other.stream));
		}
	}
	return argument;
}

static void run_calls(unsigned kernels, unsigned sleep_us)
{
	const struct timespec pause = { 0, sleep_us * 1000L };
	pthread_t thread;

	other.f = make_context(&other.context);
	check("cuStreamCreate", cuStreamCreate(&other.stream, CU_STREAM_NON_BLOCKING));
	launch(other.f, NULL);
	if (pthread_create(&thread, NULL, call_others, NULL) != 0) {
		exit(1);
	}
	for (launched = 1; launched < kernels; launched++) {
		launch(other.f, NULL);
		nanosleep(&pause, NULL);
	}
	atomic_store(&other.ended, true);
	pthread_join(thread, NULL);
	fprintf(stderr, "%u by other calls\n", other.launched);
	check("cuCtxDestroy", cuCtxDestroy(other.context));
}

int main(int argc, char **argv)
{
	unsigned a, b;

	if (argc != 4) {
		return 2;
	}
	a = (unsigned)atoi(argv[2]);
	b = (unsigned)atoi(argv[3]);
	check("cuInit", cuInit(0));
	if (strcmp(argv[1], "contexts") == 0) {
		run_contexts(a, b);
	} else if (strcmp(argv[1], "calls") == 0) {
		run_calls(a, b);
	} else {
		run_captures(strcmp(argv[1], "context") == 0, a, b);
	}
	printf("done %u\n", launched);
	return 0;
}
