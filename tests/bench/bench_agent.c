/* SPDX-License-Identifier: Apache-2.0 */

/* What the agent costs the program that it is in, on the fakes: cuInit, a launch, a push and pop of
 * an NVTX range (the least of 15 rounds each, CPU time), and memory. The same program is run plain,
 * in standby and measured; only ratios of one run mean anything.
 *
 *	bench_agent [LAUNCHES]
 *
 * tests/bench/agent BUILD does that.
 */

#include <cuda.h>
#include <nvtx3/nvToolsExt.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 15 };

/* Of the thread's own CPU: other programs use the machine as well. */
static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static CUfunction function;

static void launch(void)
{
	cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
}

static void push_and_pop(void)
{
	nvtxRangePushA("a range with a name");
	nvtxRangePop();
}

static void launch_in_a_range(void)
{
	nvtxRangePushA("a range with a name");
	launch();
	nvtxRangePop();
}

static double least_ns(void (*act)(void), long n)
{
	double least = 1e18;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t began = now_ns();

		for (long k = 0; k < n; k++) {
			act();
		}
		double ns = (double)(now_ns() - began) / (double)n;

		least = ns < least ? ns : least;
	}
	return least;
}

static long anonymous_kib(void)
{
	char line[128];
	long kib = -1;
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "RssAnon:", 8) == 0) {
			kib = strtol(line + 8, NULL, 10);
		}
	}
	if (f) {
		fclose(f);
	}
	return kib;
}

int main(int argc, char **argv)
{
	long n = argc > 1 ? strtol(argv[1], NULL, 10) : 100000;
	uint64_t began = now_ns();
	CUcontext context;
	CUdevice device;
	CUmodule module;

	if (cuInit(0) != CUDA_SUCCESS) {
		fprintf(stderr, "bench_agent: no fake driver\n");
		return 1;
	}
	double init_ms = (double)(now_ns() - began) * 1e-6;

	nanosleep(&(struct timespec){ .tv_nsec = 300000000 }, NULL);
	cuDeviceGet(&device, 0);
	cuCtxCreate(&context, NULL, 0, device);
	cuModuleLoadData(&module, "image");
	cuModuleGetFunction(&function, module, "_Z2k0Pf");
	printf("cuInit %7.3f ms, a launch %8.1f ns, push and pop %6.1f ns, all three %8.1f ns, "
	       "memory "
	       "%5ld KiB\n",
	       init_ms, least_ns(launch, n), least_ns(push_and_pop, 10 * n),
	       least_ns(launch_in_a_range, n), anonymous_kib());
	cuCtxDestroy(context);
	return 0;
}
