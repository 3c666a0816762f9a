/* SPDX-License-Identifier: Apache-2.0 */
/* A program that launches from a small stack, as HPX, pika, brpc and Argobots do.
 *
 * fakesmall STACK_KIB NAME...
 *
 * Launches a kernel of each name from a thread with so much stack, in NVTX ranges with narrow and
 * wide names, with fills, streams and a graph between, and prints "done N". On stderr: how much of
 * the stack was used. */

#include <cuda.h>
#include <nvtx3/nvToolsExt.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ROUNDS = 20, PAINT = 0xa5 };

static CUcontext context;
static CUfunction *functions;
static int n_functions;
static unsigned launched;

static void check(const char *what, CUresult r)
{
	if (r != CUDA_SUCCESS) {
		fprintf(stderr, "%s: %d\n", what, (int)r);
		exit(1);
	}
}

static void launch(CUfunction f, CUstream stream)
{
	check("launch", cuLaunchKernel(f, 1, 1, 1, 128, 1, 1, 0, stream, NULL, NULL));
	launched++;
}

static void run_graph(CUstream stream)
{
	CUgraphExec exec;
	CUgraph graph;

	check("begin", cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	check("launch", cuLaunchKernel(functions[0], 1, 1, 1, 128, 1, 1, 0, stream, NULL, NULL));
	check("end", cuStreamEndCapture(stream, &graph));
	check("instantiate", cuGraphInstantiateWithFlags(&exec, graph, 0));
	check("launch", cuGraphLaunch(exec, stream));
	check("exec", cuGraphExecDestroy(exec));
	check("graph", cuGraphDestroy(graph));
}

static void *launch_all(void *argument)
{
	CUstream stream;

	check("context", cuCtxSetCurrent(context));
	check("stream", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int round = 0; round < ROUNDS; round++) {
		nvtxRangePushA("narrow");
		nvtxRangePushW(L"wide \x2713");
		for (int i = 0; i < n_functions; i++) {
			launch(functions[i], i % 2 ? stream : NULL);
		}
		check("fill", cuMemsetD32Async(1, 0, 4096, stream));
		nvtxRangePop();
		nvtxRangePop();
		nvtxMarkA("round");
	}
	run_graph(stream);
	check("destroy", cuStreamDestroy(stream));
	return argument;
}

int main(int argc, char **argv)
{
	size_t bytes = argc > 1 ? (size_t)atoi(argv[1]) * 1024 : 0, left = 0;
	unsigned char *stack = mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	pthread_attr_t attributes;
	pthread_t thread;
	CUmodule module;

	if (argc < 3 || stack == MAP_FAILED) {
		return 2;
	}
	n_functions = argc - 2;
	functions = calloc((size_t)n_functions, sizeof(CUfunction));
	check("cuInit", cuInit(0));
	check("cuCtxCreate", cuCtxCreate(&context, NULL, 0, 0));
	check("cuModuleLoadData", cuModuleLoadData(&module, "small"));
	for (int i = 0; i < n_functions; i++) {
		check("function", cuModuleGetFunction(&functions[i], module, argv[2 + i]));
	}
	memset(stack, PAINT, bytes + 4096);
	pthread_attr_init(&attributes);
	if (mprotect(stack, 4096, PROT_NONE) != 0 ||
	    pthread_attr_setstack(&attributes, stack + 4096, bytes) != 0 ||
	    pthread_create(&thread, &attributes, launch_all, NULL) != 0) {
		return 3;
	}
	pthread_join(thread, NULL);
	while (left < bytes && stack[4096 + left] == PAINT) {
		left++;
	}
	fprintf(stderr, "stack: %zu bytes used\n", bytes - left);
	check("cuCtxDestroy", cuCtxDestroy(context));
	printf("done %u\n", launched);
	return 0;
}
