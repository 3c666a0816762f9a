/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that wait for the CPU, as autotuners launch one before each kernel that they time: it
 * spins until the CPU sets a flag, or 100 ms are over. What is timed is given to the GPU behind it,
 * and then the flag is set. Also kernels that are long and wait for nothing. The same executable
 * runs on the fake driver, which knows the kernels by their names (queue.h), and on a GPU.
 *
 *   fakedelay one|several [ROUNDS]   all in one stream, or as autotuners do, for each case a line:
 *       "CASE, delay MS ms, N long, then MS ms, N long, limit N": how long the CPU was kept in the
 *       launch of the kernel that waits, and in the calls after that before the flag was set (the
 *       longest, and how many took more than 1 ms), and how many kernels ran into their limit
 *   fakedelay long [N]               N kernels of 2 ms, in two streams by turns, then "long done N"
 *   fakedelay long-one [N]           each is waited for before the next one is launched
 */

#include <cuda.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static CUfunction delays, adds, lasts;
static CUstream streams[2];
static CUdeviceptr memory;
static CUevent events[2];
static volatile uint32_t *shared; /* with the GPU: the flag, and how many ran into their limit */

#define LIMIT_NS UINT64_C(100000000)
#define LONG_NS UINT64_C(2000000)

enum { BLOCKS = 1024, THREADS = 256, BYTES = 4 << 20, COPY_BYTES = 1 << 20 };

#define REGISTERS \
	"\t.reg .b64 %d<9>;\n\t.reg .b32 %r<5>;\n\t.reg .f32 %f<2>;\n\t.reg .pred %p<2>;\n"

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry delays(.param .u64 flag, .param .u64 ns, .param .u64 ended)\n{\n" REGISTERS
	"\tld.param.u64 %d1, [flag];\n\tld.param.u64 %d2, [ns];\n\tld.param.u64 %d5, [ended];\n"
	"\tmov.u64 %d3, %globaltimer;\n"
	"loop:\n\tld.volatile.global.u32 %r1, [%d1];\n"
	"\tsetp.ne.u32 %p1, %r1, 0;\n\t@%p1 bra done;\n"
	"\tmov.u64 %d4, %globaltimer;\n\tsub.u64 %d4, %d4, %d3;\n"
	"\tsetp.lt.u64 %p1, %d4, %d2;\n\t@%p1 bra loop;\n"
	"\tld.volatile.global.u32 %r1, [%d5];\n\tadd.u32 %r1, %r1, 1;\n"
	"\tst.volatile.global.u32 [%d5], %r1;\n"
	"done:\n\tret;\n}\n"
	".visible .entry lasts(.param .u64 ns)\n{\n" REGISTERS
	"\tld.param.u64 %d2, [ns];\n\tmov.u64 %d3, %globaltimer;\n"
	"loop:\n\tmov.u64 %d4, %globaltimer;\n\tsub.u64 %d4, %d4, %d3;\n"
	"\tsetp.lt.u64 %p1, %d4, %d2;\n\t@%p1 bra loop;\n\tret;\n}\n"
	".visible .entry adds(.param .u64 to)\n{\n" REGISTERS
	"\tld.param.u64 %d1, [to];\n\tmov.u32 %r1, %ctaid.x;\n\tmov.u32 %r2, %ntid.x;\n"
	"\tmov.u32 %r3, %tid.x;\n\tmad.lo.s32 %r4, %r1, %r2, %r3;\n"
	"\tmul.wide.u32 %d2, %r4, 4;\n\tadd.s64 %d1, %d1, %d2;\n"
	"\tld.global.f32 %f1, [%d1];\n\tadd.f32 %f1, %f1, 0f3F800000;\n"
	"\tst.global.f32 [%d1], %f1;\n\tret;\n}\n";

static void check(const char *what, CUresult r)
{
	if (r != CUDA_SUCCESS) {
		fprintf(stderr, "%s: %d\n", what, (int)r);
		exit(1);
	}
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void synchronize(void)
{
	check("cuCtxSynchronize", cuCtxSynchronize());
}

static void launch_delays(CUstream stream)
{
	volatile uint32_t *flag = &shared[0], *ended = &shared[1];
	uint64_t ns = LIMIT_NS;
	void *arguments[] = { &flag, &ns, &ended };

	check("cuLaunchKernel",
	      cuLaunchKernel(delays, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

static void launch_adds(CUstream stream)
{
	void *arguments[] = { &memory };

	check("cuLaunchKernel",
	      cuLaunchKernel(adds, BLOCKS, 1, 1, THREADS, 1, 1, 0, stream, arguments, NULL));
}

static void launch_lasts(CUstream stream)
{
	uint64_t ns = LONG_NS;
	void *arguments[] = { &ns };

	check("cuLaunchKernel",
	      cuLaunchKernel(lasts, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
}

/* --- what is given to the GPU behind the kernel that waits --- */

static void kernel(void)
{
	launch_adds(streams[0]);
}

static void events_around(void)
{
	check("cuEventRecord", cuEventRecord(events[0], streams[0]));
	launch_adds(streams[0]);
	check("cuEventRecord", cuEventRecord(events[1], streams[0]));
}

static void other_stream(void)
{
	launch_adds(streams[1]);
}

static void fill(void)
{
	check("cuMemsetD32Async", cuMemsetD32Async(memory, 0, COPY_BYTES / 4, streams[0]));
}

static void copy(void)
{
	check("cuMemcpyDtoDAsync",
	      cuMemcpyDtoDAsync(memory + COPY_BYTES, memory, COPY_BYTES, streams[0]));
}

static const struct {
	const char *name;
	void (*give)(void);
	bool several;
} cases[] = {
	{ "kernel behind", kernel },
	{ "event, kernel, event", events_around },
	{ "kernel in another stream", other_stream, true },
	{ "fill behind", fill },
	{ "copy behind", copy },
};

struct kept {
	double most_ms;
	int n_long;
};

static void note(struct kept *k, double ms)
{
	k->most_ms = ms > k->most_ms ? ms : k->most_ms;
	k->n_long += ms > 1;
}

static void run_case(size_t k, int rounds)
{
	struct kept delay = { 0 }, then = { 0 };

	shared[1] = 0;
	launch_adds(streams[0]); /* so that batches end behind either kernel */
	synchronize();
	for (int i = 0; i < rounds; i++) {
		double t[3];

		shared[0] = 0;
		t[0] = now_ms();
		launch_delays(streams[0]);
		t[1] = now_ms();
		cases[k].give();
		t[2] = now_ms();
		shared[0] = 1;
		synchronize();
		note(&delay, t[1] - t[0]);
		note(&then, t[2] - t[1]);
	}
	printf("%s, delay %.3f ms, %d long, then %.3f ms, %d long, limit %u\n", cases[k].name,
	       delay.most_ms, delay.n_long, then.most_ms, then.n_long, shared[1]);
	fflush(stdout);
}

static void run_cases(bool several, int rounds)
{
	kernel();
	synchronize();
	shared[0] = 1;
	launch_delays(streams[0]);
	synchronize();
	for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		if (several || !cases[k].several) {
			run_case(k, rounds);
		}
	}
}

static void run_long(int n, bool one_by_one)
{
	for (int i = 0; i < n; i++) {
		launch_lasts(streams[i % 2]);
		if (one_by_one) {
			check("cuStreamSynchronize", cuStreamSynchronize(streams[i % 2]));
		}
	}
	synchronize();
	printf("long done %d\n", n);
}

/* Loads at once, because loading may wait for kernels that run. */
static void find(CUfunction *ret, CUmodule module, const char *name)
{
	int registers;

	check(name, cuModuleGetFunction(ret, module, name));
	check(name, cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, *ret));
}

static void begin(bool several)
{
	CUcontext context;
	CUmodule module;
	void *host;

	check("cuInit", cuInit(0));
	check("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, 0));
	check("cuCtxSetCurrent", cuCtxSetCurrent(context));
	check("cuModuleLoadData", cuModuleLoadData(&module, ptx));
	find(&delays, module, "delays");
	find(&adds, module, "adds");
	find(&lasts, module, "lasts");
	check("cuMemAlloc", cuMemAlloc(&memory, BYTES));
	check("cuMemHostAlloc",
	      cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
	shared = host;
	shared[0] = shared[1] = 0;
	for (int i = 0; i < 2; i++) {
		check("cuEventCreate", cuEventCreate(&events[i], CU_EVENT_DEFAULT));
		if (several) {
			check("cuStreamCreate",
			      cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
		}
	}
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	int n = argc > 2 ? atoi(argv[2]) : 100;

	if (strcmp(how, "one") == 0 || strcmp(how, "several") == 0) {
		begin(strcmp(how, "several") == 0);
		run_cases(strcmp(how, "several") == 0, n);
		return 0;
	}
	if (strcmp(how, "long") == 0 || strcmp(how, "long-one") == 0) {
		begin(true);
		run_long(n, strcmp(how, "long-one") == 0);
		return 0;
	}
	fprintf(stderr, "usage: fakedelay one|several|long|long-one [N]\n");
	return 2;
}
