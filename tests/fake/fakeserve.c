/* SPDX-License-Identifier: Apache-2.0 */
/* A server: threads that launch kernels of one length at one time, each in streams of its own, and
 * wait for them after each step. It knows nothing of measuring. The same executable runs on the
 * fake driver, which says itself how long kernels take (GPUCTR_FAKE_LATE_US), and on a GPU.
 *
 *   fakeserve THREADS STREAMS KERNELS KERNEL_US SECONDS [renew]
 *
 * renew: each step has streams of its own. Kernel i of a step's KERNELS goes into stream i %
 * STREAMS of its thread. Ten times a second prints "at NS steps N" (unix time, of all threads so
 * far), and at the end "fakeserve done LAUNCHES". */

#include <cuda.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS_MAX = 64, STREAMS_MAX = 16, KERNEL_NAMES = 4 };

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
#define KERNEL(name)                                                          \
	".visible .entry " name "(.param .u64 a)\n{\n"                        \
	"\t.reg .b64 %d<4>;\n\t.reg .pred %p<2>;\n\tld.param.u64 %d1, [a];\n" \
	"\tmov.u64 %d2, %globaltimer;\nloop:\n\tmov.u64 %d3, %globaltimer;\n" \
	"\tsub.u64 %d3, %d3, %d2;\n\tsetp.lt.u64 %p1, %d3, %d1;\n\t@%p1 bra loop;\n\tret;\n}\n"
	KERNEL("_Z5work0m") KERNEL("_Z5work1m") KERNEL("_Z5work2m") KERNEL("_Z5work3m");

static CUcontext context;
static CUfunction functions[KERNEL_NAMES];
static int n_streams, n_kernels;
static bool renews;
static uint64_t kernel_ns;
static atomic_bool over;
static atomic_ulong steps, launches;

static void check(const char *what, CUresult r)
{
	if (r != CUDA_SUCCESS) {
		fprintf(stderr, "fakeserve: %s: %d\n", what, (int)r);
		exit(1);
	}
}

static void begin(void)
{
	CUmodule module;

	check("cuInit", cuInit(0));
	check("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, 0));
	check("cuCtxSetCurrent", cuCtxSetCurrent(context));
	check("cuModuleLoadData", cuModuleLoadData(&module, ptx));
	for (int i = 0; i < KERNEL_NAMES; i++) {
		char name[16];

		snprintf(name, sizeof(name), "_Z5work%dm", i);
		check(name, cuModuleGetFunction(&functions[i], module, name));
	}
}

static void launch(int i, CUstream stream)
{
	void *arguments[] = { &kernel_ns };

	check("cuLaunchKernel", cuLaunchKernel(functions[i % KERNEL_NAMES], 1, 1, 1, 32, 1, 1, 0,
					       stream, arguments, NULL));
	atomic_fetch_add_explicit(&launches, 1, memory_order_relaxed);
}

static void begin_streams(CUstream *streams)
{
	for (int i = 0; i < n_streams; i++) {
		check("cuStreamCreate", cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
	}
}

static void end_streams(CUstream *streams)
{
	for (int i = 0; i < n_streams; i++) {
		check("cuStreamDestroy", cuStreamDestroy(streams[i]));
	}
}

static void *serve(void *unused)
{
	CUstream streams[STREAMS_MAX];

	(void)unused;
	check("cuCtxSetCurrent", cuCtxSetCurrent(context));
	begin_streams(streams);
	while (!atomic_load(&over)) {
		for (int i = 0; i < n_kernels; i++) {
			launch(i, streams[i % n_streams]);
		}
		for (int i = 0; i < n_streams; i++) {
			check("cuStreamSynchronize", cuStreamSynchronize(streams[i]));
		}
		atomic_fetch_add(&steps, 1);
		if (renews) {
			end_streams(streams);
			begin_streams(streams);
		}
	}
	return NULL;
}

static void report(double seconds)
{
	const struct timespec pause = { 0, 100000000 };
	struct timespec now;

	for (int i = 0; i < (int)(seconds * 10); i++) {
		nanosleep(&pause, NULL);
		clock_gettime(CLOCK_REALTIME, &now);
		printf("at %lld steps %lu\n", (long long)now.tv_sec * 1000000000 + now.tv_nsec,
		       atomic_load(&steps));
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS_MAX];
	int n = argc >= 6 ? atoi(argv[1]) : 0;

	n_streams = argc >= 6 ? atoi(argv[2]) : 0;
	renews = argc == 7 && strcmp(argv[6], "renew") == 0;
	if (n < 1 || n > THREADS_MAX || n_streams < 1 || n_streams > STREAMS_MAX) {
		fprintf(stderr,
			"usage: fakeserve THREADS STREAMS KERNELS KERNEL_US SECONDS [renew]\n");
		return 2;
	}
	n_kernels = atoi(argv[3]);
	kernel_ns = strtoull(argv[4], NULL, 10) * 1000;
	begin();
	for (int i = 0; i < n; i++) {
		pthread_create(&threads[i], NULL, serve, NULL);
	}
	report(atof(argv[5]));
	atomic_store(&over, true);
	for (int i = 0; i < n; i++) {
		pthread_join(threads[i], NULL);
	}
	printf("fakeserve done %lu\n", atomic_load(&launches));
	return 0;
}
