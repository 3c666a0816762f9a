/* SPDX-License-Identifier: Apache-2.0 */
/* A program that uses CUPTI's activity API, and no callbacks, as NVIDIA's sample activity_trace
 * does.
 *
 * fakeactivity WHEN KERNELS SLEEP_US
 *
 * Asks CUPTI for records before launch WHEN, 0: before cuInit, or at SIGUSR1. Ends after so many
 * launches, or at SIGTERM. Prints "done" and whether there was a record of each launch from then
 * on: "all" or how many. */

#include <cuda.h>
#include <cupti.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BUFFER_BYTES = 32 * 1024, THREADS = 128, ALIGNMENT = 8 };

#define KERNEL "_Z4minePf"

static atomic_uint got;
static volatile sig_atomic_t ended, wants;

static void on_signal(int signo)
{
	wants = wants || signo == SIGUSR1;
	ended = ended || signo == SIGTERM;
}

static void check(const char *what, int r)
{
	if (r != 0) {
		fprintf(stderr, "%s: %d\n", what, r);
		exit(1);
	}
}

static void CUPTIAPI give(uint8_t **buffer, size_t *size, size_t *max_records)
{
	*size = BUFFER_BYTES;
	*max_records = 0;
	*buffer = aligned_alloc(ALIGNMENT, *size);
}

static void CUPTIAPI take(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
			  size_t valid)
{
	CUpti_Activity *record = NULL;

	(void)context;
	(void)stream;
	(void)size;
	while (valid > 0 && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
		const CUpti_ActivityKernel9 *k = (const CUpti_ActivityKernel9 *)record;

		got += record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && k->name &&
		       strcmp(k->name, KERNEL) == 0;
	}
	free(buffer);
}

static void ask(void)
{
	check("register", cuptiActivityRegisterCallbacks(give, take));
	check("enable", cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
}

int main(int argc, char **argv)
{
	unsigned when = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
	unsigned kernels = argc > 2 ? (unsigned)atoi(argv[2]) : 100;
	long sleep_us = argc > 3 ? atol(argv[3]) : 0;
	const struct timespec pause = { 0, sleep_us * 1000 };
	CUcontext context;
	CUmodule module;
	CUfunction f;
	unsigned i;

	signal(SIGTERM, on_signal);
	signal(SIGUSR1, on_signal);
	if (when == 0) {
		ask();
	}
	check("cuInit", cuInit(0));
	check("cuCtxCreate", cuCtxCreate(&context, NULL, 0, 0));
	check("cuModuleLoadData", cuModuleLoadData(&module, "mine"));
	check("cuModuleGetFunction", cuModuleGetFunction(&f, module, KERNEL));
	for (i = 0; i < kernels && !ended; i++) {
		if (when > 0 && (i == when || wants)) {
			ask();
			when = wants ? i : when;
			wants = 0;
		}
		check("launch", cuLaunchKernel(f, 1, 1, 1, THREADS, 1, 1, 0, NULL, NULL, NULL));
		nanosleep(&pause, NULL);
	}
	check("cuCtxSynchronize", cuCtxSynchronize());
	check("flush", cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
	check("cuCtxDestroy", cuCtxDestroy(context));
	if (got >= i - when) { /* with those that came before, if somebody asked */
		printf("done, all\n");
	} else {
		printf("done, %u\n", got);
	}
	return 0;
}
