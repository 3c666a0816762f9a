/* SPDX-License-Identifier: Apache-2.0 */
/* Programs whose kernels wait for what is launched, or written, later. Each ends within
 * milliseconds when nobody measures it.
 *
 *   fakewait CASE [ROUNDS]
 *
 * Prints "CASE done LAUNCHES". */

#include <cuda.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static CUcontext contexts[2];
static CUstream streams[2][2];
static CUfunction waits[2], sets[2], meets[2], plain[2];
static volatile uint32_t flags[4];
static unsigned launches;

static void check(const char *what, CUresult r)
{
	if (r != CUDA_SUCCESS) {
		fprintf(stderr, "%s: %d\n", what, (int)r);
		exit(1);
	}
}

static void begin_device(int device, int n_streams)
{
	CUmodule module;

	check("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&contexts[device], device));
	check("cuCtxSetCurrent", cuCtxSetCurrent(contexts[device]));
	check("cuModuleLoadData", cuModuleLoadData(&module, "image"));
	check("waits", cuModuleGetFunction(&waits[device], module, "_Z5waitsPj"));
	check("sets", cuModuleGetFunction(&sets[device], module, "_Z4setsPj"));
	check("meets", cuModuleGetFunction(&meets[device], module, "_Z19ncclDevKernel_meetsPjS_"));
	check("plain", cuModuleGetFunction(&plain[device], module, "_Z5plainPf"));
	for (int i = 0; i < n_streams; i++) {
		check("cuStreamCreate",
		      cuStreamCreate(&streams[device][i], CU_STREAM_NON_BLOCKING));
	}
}

static void launch(CUfunction f, CUstream stream, volatile uint32_t *a, volatile uint32_t *b)
{
	void *arguments[] = { &a, &b };

	check("cuLaunchKernel", cuLaunchKernel(f, 2, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
	__atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED);
}

/* A kernel spins until one of the other stream sets its flag. */
static void spin(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		flags[0] = 0;
		launch(waits[0], streams[0][0], &flags[0], NULL);
		launch(sets[0], streams[0][1], &flags[0], NULL);
		check("cuCtxSynchronize", cuCtxSynchronize());
	}
}

/* The flag is set when the kernel comes: it could be believed to wait for nothing. */
static void spin_late(int rounds)
{
	flags[0] = 1;
	for (int i = 0; i < 2; i++) {
		launch(waits[0], streams[0][0], &flags[0], NULL);
		check("cuCtxSynchronize", cuCtxSynchronize());
	}
	spin(rounds);
}

/* A kernel that stays, others beside it, and the CPU lets it go at the end. */
static void persistent(int rounds)
{
	launch(waits[0], streams[0][0], &flags[0], NULL);
	for (int i = 0; i < 20 * rounds; i++) {
		launch(plain[0], streams[0][1], NULL, NULL);
		check("cuStreamSynchronize", cuStreamSynchronize(streams[0][1]));
	}
	flags[0] = 1;
	check("cuCtxSynchronize", cuCtxSynchronize());
}

/* A stream waits for a number that the CPU writes after the launch behind it. */
static void host(int rounds)
{
	launch(plain[0], streams[0][0], NULL, NULL);
	check("cuCtxSynchronize", cuCtxSynchronize());
	for (int i = 0; i < rounds; i++) {
		flags[0] = 0;
		check("cuStreamWaitValue32",
		      cuStreamWaitValue32(streams[0][0], (CUdeviceptr)(uintptr_t)&flags[0], 1,
					  CU_STREAM_WAIT_VALUE_EQ));
		launch(plain[0], streams[0][0], NULL, NULL);
		flags[0] = 1;
		check("cuCtxSynchronize", cuCtxSynchronize());
	}
}

/* One thread launches the halves of a collective, GPU by GPU. */
static void devices(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		for (int d = 0; d < 2; d++) {
			flags[d] = 0;
		}
		for (int d = 0; d < 2; d++) {
			check("cuCtxSetCurrent", cuCtxSetCurrent(contexts[d]));
			launch(plain[d], streams[d][0], NULL, NULL);
		}
		for (int d = 0; d < 2; d++) {
			check("cuCtxSetCurrent", cuCtxSetCurrent(contexts[d]));
			launch(meets[d], streams[d][0], &flags[d], &flags[1 - d]);
		}
		for (int d = 0; d < 2; d++) {
			check("cuCtxSetCurrent", cuCtxSetCurrent(contexts[d]));
			check("cuCtxSynchronize", cuCtxSynchronize());
		}
	}
}

static void *set_later(void *unused)
{
	(void)unused;
	check("cuCtxSetCurrent", cuCtxSetCurrent(contexts[0]));
	usleep(20000);
	launch(sets[0], streams[0][1], &flags[0], NULL);
	return NULL;
}

/* Another thread launches what the first one's kernel waits for. */
static void threads(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		pthread_t t;

		flags[0] = 0;
		pthread_create(&t, NULL, set_later, NULL);
		launch(waits[0], streams[0][0], &flags[0], NULL);
		pthread_join(t, NULL);
		check("cuCtxSynchronize", cuCtxSynchronize());
	}
}

/* A long kernel, nothing beside it: its range may be kept open until it has ended. */
static void alone(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		flags[0] = 0;
		launch(waits[0], streams[0][0], &flags[0], NULL);
		flags[0] = 1;
		check("cuCtxSynchronize", cuCtxSynchronize());
	}
}

/* The same with a fill behind it, which the open range counts as well. */
static void filled(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		flags[0] = 0;
		launch(waits[0], streams[0][0], &flags[0], NULL);
		check("cuMemsetD32Async", cuMemsetD32Async(0x1000, 0, 4096, streams[0][1]));
		flags[0] = 1;
		check("cuCtxSynchronize", cuCtxSynchronize());
	}
}

static const struct {
	const char *name;
	int devices, streams;
	void (*run)(int rounds);
} cases[] = {
	{ "spin", 1, 2, spin },	      { "spin-late", 1, 2, spin_late },
	{ "host", 1, 1, host },	      { "persistent", 1, 2, persistent },
	{ "devices", 2, 1, devices }, { "threads", 1, 2, threads },
	{ "alone", 1, 1, alone },     { "filled", 1, 2, filled },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, argv[1]) != 0) {
			continue;
		}
		check("cuInit", cuInit(0));
		for (int d = cases[i].devices - 1; d >= 0; d--) {
			begin_device(d, cases[i].streams);
		}
		cases[i].run(argc > 2 ? atoi(argv[2]) : 1);
		printf("%s done %u\n", argv[1], launches);
		return 0;
	}
	fprintf(stderr, "usage: fakewait CASE [ROUNDS]\n");
	return 2;
}
