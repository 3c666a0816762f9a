/* SPDX-License-Identifier: Apache-2.0 */
/* Programs whose kernels wait for what is launched, or written, later. Each ends within
 * milliseconds when nobody measures it. The same executable runs on the fake driver, which knows
 * the kernels by their names (queue.h), and on a GPU.
 *
 *   fakewait CASE [ROUNDS]
 *
 * Prints "CASE done LAUNCHES". On a GPU a kernel that has waited for 15 s gives up, and the program
 * says so and ends with 3. */

#include <cuda.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static CUcontext contexts[2];
static CUstream streams[2][2];
static CUfunction waits[2], sets[2], meets[2], plain[2];
static volatile uint32_t *flags; /* shared with the GPUs */
static unsigned launches;

enum { FLAGS = 4, GAVE_UP = 2 };

#define SPIN(flag)                                                       \
	"\tmov.u64 %d3, %globaltimer;\n"                                 \
	"loop:\n\tld.volatile.global.u32 %r1, [" flag "];\n"             \
	"\tsetp.ne.u32 %p1, %r1, 0;\n\t@%p1 bra done;\n"                 \
	"\tmov.u64 %d4, %globaltimer;\n\tsub.u64 %d4, %d4, %d3;\n"       \
	"\tsetp.lt.u64 %p1, %d4, 15000000000;\n\t@%p1 bra loop;\n"       \
	"\tmov.u32 %r1, 2;\n\tst.volatile.global.u32 [" flag "], %r1;\n" \
	"done:\n\tret;\n}\n"
#define REGISTERS "\t.reg .b64 %d<5>;\n\t.reg .b32 %r<2>;\n\t.reg .pred %p<2>;\n"
#define SET(flag) "\tmov.u32 %r1, 1;\n\tst.volatile.global.u32 [" flag "], %r1;\n\tmembar.sys;\n"

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry _Z5waitsPj(.param .u64 a)\n{\n" REGISTERS
	"\tld.param.u64 %d1, [a];\n" SPIN(
		"%d1") ".visible .entry _Z4setsPj(.param .u64 a)\n{\n" REGISTERS
		       "\tld.param.u64 %d1, [a];\n" SET(
			       "%d1") "\tret;\n}\n"
				      ".visible .entry _Z19ncclDevKernel_meetsPjS_(.param .u64 a, "
				      ".param .u64 b)\n{\n" REGISTERS
				      "\tld.param.u64 %d1, [a];\n\tld.param.u64 %d2, [b];\n" SET(
					      "%d1") SPIN("%d2") ".visible .entry "
								 "_Z5plainPf()\n{\n\tret;\n}\n";

static void check(const char *what, CUresult r)
{
	if (r != CUDA_SUCCESS) {
		fprintf(stderr, "%s: %d\n", what, (int)r);
		exit(1);
	}
}

/* Loads at once, because loading may wait for kernels that run. */
static void find(CUfunction *ret, CUmodule module, const char *name)
{
	int registers;

	check(name, cuModuleGetFunction(ret, module, name));
	check(name, cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, *ret));
}

static void begin_device(int device, int n_streams, bool one_gpu)
{
	CUmodule module;

	check("context", one_gpu ? cuCtxCreate(&contexts[device], NULL, 0, 0)
				 : cuDevicePrimaryCtxRetain(&contexts[device], device));
	check("cuCtxSetCurrent", cuCtxSetCurrent(contexts[device]));
	check("cuModuleLoadData", cuModuleLoadData(&module, ptx));
	find(&waits[device], module, "_Z5waitsPj");
	find(&sets[device], module, "_Z4setsPj");
	find(&meets[device], module, "_Z19ncclDevKernel_meetsPjS_");
	find(&plain[device], module, "_Z5plainPf");
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

/* A kernel spins until a kernel of the other stream sets its flag. */
static void spin(void)
{
	flags[0] = 0;
	launch(waits[0], streams[0][0], &flags[0], NULL);
	launch(sets[0], streams[0][1], &flags[0], NULL);
	check("cuCtxSynchronize", cuCtxSynchronize());
}

/* The flag is set when the first kernels come, so the kernel could be taken for one that waits for
 * nothing. */
static void spin_late(void)
{
	static int before = 2;

	for (; before > 0; before--) {
		flags[0] = 1;
		launch(waits[0], streams[0][0], &flags[0], NULL);
		check("cuCtxSynchronize", cuCtxSynchronize());
	}
	spin();
}

/* A kernel stays, others run beside it, and the CPU ends it at last. */
static void persistent(void)
{
	flags[0] = 0;
	launch(waits[0], streams[0][0], &flags[0], NULL);
	for (int i = 0; i < 20; i++) {
		launch(plain[0], streams[0][1], NULL, NULL);
		check("cuStreamSynchronize", cuStreamSynchronize(streams[0][1]));
	}
	flags[0] = 1;
	check("cuCtxSynchronize", cuCtxSynchronize());
}

/* A stream waits for a number that the CPU writes after the next launch. */
static void host(void)
{
	launch(plain[0], streams[0][0], NULL, NULL);
	check("cuCtxSynchronize", cuCtxSynchronize());
	flags[0] = 0;
	check("cuStreamWaitValue32",
	      cuStreamWaitValue32(streams[0][0], (CUdeviceptr)(uintptr_t)&flags[0], 1,
				  CU_STREAM_WAIT_VALUE_EQ));
	launch(plain[0], streams[0][0], NULL, NULL);
	flags[0] = 1;
	check("cuCtxSynchronize", cuCtxSynchronize());
}

/* A stream without launches waits for the CPU, which waits for the launch in another stream. */
static void beside(void)
{
	flags[0] = 0;
	launch(plain[0], streams[0][0], NULL, NULL);
	check("cuCtxSynchronize", cuCtxSynchronize());
	check("cuStreamWaitValue32",
	      cuStreamWaitValue32(streams[0][1], (CUdeviceptr)(uintptr_t)&flags[0], 1,
				  CU_STREAM_WAIT_VALUE_EQ));
	launch(plain[0], streams[0][0], NULL, NULL);
	check("cuStreamSynchronize", cuStreamSynchronize(streams[0][0]));
	flags[0] = 1;
	check("cuCtxSynchronize", cuCtxSynchronize());
}

static void on_device(int device)
{
	check("cuCtxSetCurrent", cuCtxSetCurrent(contexts[device]));
}

static void on_device(int device);

/* The same, behind an event of another context, whose stream waits for the CPU. */
static void foreign(void)
{
	CUevent event;

	launch(plain[0], streams[0][0], NULL, NULL);
	check("cuCtxSynchronize", cuCtxSynchronize());
	flags[0] = 0;
	on_device(1);
	check("cuEventCreate", cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	check("cuStreamWaitValue32",
	      cuStreamWaitValue32(streams[1][0], (CUdeviceptr)(uintptr_t)&flags[0], 1,
				  CU_STREAM_WAIT_VALUE_EQ));
	check("cuEventRecord", cuEventRecord(event, streams[1][0]));
	on_device(0);
	check("cuStreamWaitEvent", cuStreamWaitEvent(streams[0][1], event, 0));
	launch(plain[0], streams[0][0], NULL, NULL);
	check("cuStreamSynchronize", cuStreamSynchronize(streams[0][0]));
	flags[0] = 1;
	check("cuCtxSynchronize", cuCtxSynchronize());
}

/* One thread launches the parts of a collective, one GPU after the other. */
static void devices(void)
{
	for (int d = 0; d < 2; d++) {
		on_device(d);
		flags[d] = 0;
		launch(plain[d], streams[d][0], NULL, NULL);
	}
	for (int d = 0; d < 2; d++) {
		on_device(d);
		launch(meets[d], streams[d][0], &flags[d], &flags[1 - d]);
	}
	for (int d = 0; d < 2; d++) {
		on_device(d);
		check("cuCtxSynchronize", cuCtxSynchronize());
	}
}

/* A kernel that is not measured waits for one that is, launched a little later; before that the
 * program rests for long enough to have what was measured handed over meanwhile. */
static void rest_and_wait(int device, unsigned rest_us)
{
	launch(plain[device], streams[device][0], NULL, NULL);
	check("cuCtxSynchronize", cuCtxSynchronize());
	usleep(rest_us);
	flags[device] = 0;
	launch(waits[device], streams[device][0], &flags[device], NULL);
	launch(sets[device], streams[device][1], &flags[device], NULL);
	check("cuCtxSynchronize", cuCtxSynchronize());
}

static void left_out(void)
{
	rest_and_wait(0, 10000);
}

/* A kernel stays for some seconds while others run beside it, the last of which lets it go. */
static void resident(void)
{
	flags[0] = 0;
	launch(waits[0], streams[0][0], &flags[0], NULL);
	for (int i = 0; i < 600; i++) {
		launch(plain[0], streams[0][1], NULL, NULL);
		check("cuStreamSynchronize", cuStreamSynchronize(streams[0][1]));
		usleep(5000);
	}
	launch(sets[0], streams[0][1], &flags[0], NULL);
	check("cuCtxSynchronize", cuCtxSynchronize());
}

/* A stream without launches waits for the CPU, while what was measured is handed over. The CPU
 * writes after the next launch. */
static void rests(void)
{
	launch(plain[0], streams[0][0], NULL, NULL);
	check("cuCtxSynchronize", cuCtxSynchronize());
	flags[0] = 0;
	check("cuStreamWaitValue32",
	      cuStreamWaitValue32(streams[0][1], (CUdeviceptr)(uintptr_t)&flags[0], 1,
				  CU_STREAM_WAIT_VALUE_EQ));
	sleep(2);
	launch(plain[0], streams[0][0], NULL, NULL);
	check("cuStreamSynchronize", cuStreamSynchronize(streams[0][0]));
	flags[0] = 1;
	check("cuCtxSynchronize", cuCtxSynchronize());
}

/* Two kernels that wait, each in a stream of its own: the CPU lets the first one go, which lets a
 * kernel be launched behind it, for which the second one waits. */
static void two(void)
{
	flags[0] = flags[1] = 0;
	launch(waits[0], streams[0][0], &flags[0], NULL);
	launch(waits[0], streams[0][1], &flags[1], NULL);
	flags[0] = 1;
	check("cuStreamSynchronize", cuStreamSynchronize(streams[0][0]));
	launch(sets[0], streams[0][0], &flags[1], NULL);
	check("cuCtxSynchronize", cuCtxSynchronize());
}

static void *set_later(void *unused)
{
	(void)unused;
	on_device(0);
	usleep(20000);
	launch(sets[0], streams[0][1], &flags[0], NULL);
	return NULL;
}

/* Another thread launches what the first thread's kernel waits for. */
static void threads(void)
{
	pthread_t t;

	flags[0] = 0;
	pthread_create(&t, NULL, set_later, NULL);
	launch(waits[0], streams[0][0], &flags[0], NULL);
	pthread_join(t, NULL);
	check("cuCtxSynchronize", cuCtxSynchronize());
}

/* A long kernel with nothing beside it: its range may be kept open until it has ended. */
static void alone(void)
{
	flags[0] = 0;
	launch(waits[0], streams[0][0], &flags[0], NULL);
	flags[0] = 1;
	check("cuCtxSynchronize", cuCtxSynchronize());
}

/* The same with a fill behind the kernel, which the open range counts as well. */
static void filled(void)
{
	static CUdeviceptr memory;

	if (!memory) {
		check("cuMemAlloc", cuMemAlloc(&memory, 4096 * 4));
	}
	flags[0] = 0;
	launch(waits[0], streams[0][0], &flags[0], NULL);
	check("cuMemsetD32Async", cuMemsetD32Async(memory, 0, 4096, streams[0][1]));
	flags[0] = 1;
	check("cuCtxSynchronize", cuCtxSynchronize());
}

/* A fill in another stream lets the kernel go. */
static void freed(void)
{
	flags[0] = 0;
	launch(waits[0], streams[0][0], &flags[0], NULL);
	check("cuMemsetD32Async",
	      cuMemsetD32Async((CUdeviceptr)(uintptr_t)&flags[0], 1, 1, streams[0][1]));
	check("cuStreamSynchronize", cuStreamSynchronize(streams[0][0]));
}

static void *wait_in_second(void *unused)
{
	(void)unused;
	on_device(1);
	for (int i = 0; i < 20; i++) {
		rest_and_wait(1, 5000);
	}
	return NULL;
}

/* The same in one of two contexts of a GPU, while another thread launches into the other one: the
 * counters change hands. */
static void two_contexts(void)
{
	pthread_t t;

	pthread_create(&t, NULL, wait_in_second, NULL);
	on_device(0);
	for (int i = 0; i < 20; i++) {
		launch(plain[0], streams[0][0], NULL, NULL);
		check("cuCtxSynchronize", cuCtxSynchronize());
		usleep(5000);
	}
	pthread_join(t, NULL);
}

static const struct {
	const char *name;
	int devices, streams;
	void (*run)(void);
	bool one_gpu; /* the contexts are of the first device */
} cases[] = {
	{ "spin", 1, 2, spin },
	{ "spin-late", 1, 2, spin_late },
	{ "host", 1, 1, host },
	{ "beside", 1, 2, beside },
	{ "foreign", 2, 2, foreign, true },
	{ "persistent", 1, 2, persistent },
	{ "devices", 2, 1, devices },
	{ "left-out", 1, 2, left_out },
	{ "two-contexts", 2, 2, two_contexts, true },
	{ "resident", 1, 2, resident },
	{ "rests", 1, 2, rests },
	{ "two", 1, 2, two },
	{ "threads", 1, 2, threads },
	{ "alone", 1, 1, alone },
	{ "filled", 1, 2, filled },
	{ "freed", 1, 2, freed },
};

static void begin(int devices, int n_streams, bool one_gpu)
{
	void *memory;

	check("cuInit", cuInit(0));
	for (int d = devices - 1; d >= 0; d--) {
		begin_device(d, n_streams, one_gpu);
	}
	check("cuMemHostAlloc",
	      cuMemHostAlloc(&memory, FLAGS * sizeof(*flags),
			     CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
	flags = memory;
	for (int i = 0; i < FLAGS; i++) {
		flags[i] = 0;
	}
}

/* After a round. */
static void expect_no_patience(void)
{
	for (int i = 0; i < FLAGS; i++) {
		if (flags[i] == GAVE_UP) {
			printf("a kernel gave up\n");
			exit(3);
		}
	}
}

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, argv[1]) != 0) {
			continue;
		}
		begin(cases[i].devices, cases[i].streams, cases[i].one_gpu);
		for (int round = 0; round < (argc > 2 ? atoi(argv[2]) : 1); round++) {
			cases[i].run();
			expect_no_patience();
		}
		printf("%s done %u\n", argv[1], launches);
		return 0;
	}
	fprintf(stderr, "usage: fakewait CASE [ROUNDS]\n");
	return 2;
}
