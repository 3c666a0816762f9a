/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/agent/profiler.h"
#include "daemon/base/clean.h"
#include "daemon/base/clock.h"

/* A CUDA program of known kernels, by the driver API alone, and the floor to compare with.
 *
 *   workload --kind tiny|copy|fma --kernels N --repeat R [--nvtx]
 *   workload ... --floor METRIC,METRIC --batch B     the same under a bare CUPTI range profiler
 *
 * Prints one line a repeat: its wall time. The floor does nothing but push, launch, pop, and stop,
 * decode, start after each batch: no names, no attributes, no evaluation, nobody listening. */

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry tiny()\n{\n\tret;\n}\n"
	/* Each thread moves 16 bytes. */
	".visible .entry copy16(.param .u64 to, .param .u64 from)\n{\n"
	"\t.reg .b32 %r<9>;\n\t.reg .b64 %d<7>;\n"
	"\tld.param.u64 %d1, [to];\n\tld.param.u64 %d2, [from];\n"
	"\tmov.u32 %r1, %ctaid.x;\n\tmov.u32 %r2, %ntid.x;\n\tmov.u32 %r3, %tid.x;\n"
	"\tmad.lo.s32 %r4, %r1, %r2, %r3;\n\tmul.wide.u32 %d3, %r4, 16;\n"
	"\tadd.s64 %d4, %d1, %d3;\n\tadd.s64 %d5, %d2, %d3;\n"
	"\tld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%d5];\n"
	"\tst.global.v4.u32 [%d4], {%r5, %r6, %r7, %r8};\n\tret;\n}\n"
	/* Each thread does 256 dependent fused multiply-adds and keeps the result alive. */
	".visible .entry fma256(.param .u64 to)\n{\n"
	"\t.reg .f32 %f<3>;\n\t.reg .b64 %d<2>;\n\t.reg .b32 %r<2>;\n\t.reg .pred %p<2>;\n"
	"\tld.param.u64 %d1, [to];\n\tmov.f32 %f1, 0f3F800001;\n\tmov.f32 %f2, 0f3F800000;\n"
	"\tmov.u32 %r1, 0;\n"
	"loop:\n\tfma.rn.f32 %f2, %f2, %f1, %f1;\n\tadd.u32 %r1, %r1, 1;\n"
	"\tsetp.lt.u32 %p1, %r1, 256;\n\t@%p1 bra loop;\n"
	"\tst.global.f32 [%d1], %f2;\n\tret;\n}\n";

#define DRIVER_FUNCTIONS(X)         \
	X(cuInit)                   \
	X(cuDeviceGet)              \
	X(cuDeviceGetCount)         \
	X(cuDevicePrimaryCtxRetain) \
	X(cuDevicePrimaryCtxReset)  \
	X(cuCtxSetCurrent)          \
	X(cuCtxSynchronize)         \
	X(cuModuleLoadData)         \
	X(cuModuleGetFunction)      \
	X(cuMemAlloc)               \
	X(cuLaunchKernel)

struct driver {
	DRIVER_FUNCTIONS(VENDOR_MEMBER)
};

struct options {
	const char *kind;
	unsigned kernels, repeat, device, sleep_ms;
	bool release; /* end the context before the program ends */
	size_t bytes;
	char *floor;
	unsigned batch;
};

struct floor {
	struct profiler p;
	struct host host;
	struct host_config config;
	CUpti_RangeProfiler_Object *object;
	uint8_t *image;
	size_t image_size;
	unsigned n;
	const char *metrics[16];
	size_t n_metrics;
	double first_start_s, stop_s, start_s, init_s;
	unsigned turns;
};

static struct driver driver;
static struct options options = {
	.kind = "tiny", .kernels = 8192, .repeat = 3, .bytes = 256 << 20, .batch = 1024
};

static void die(const char *what, int code)
{
	fprintf(stderr, "workload: %s failed: %d\n", what, code);
	exit(1);
}

static void check(const char *what, int code)
{
	if (code != 0) {
		die(what, code);
	}
}

/* CPU time of the launching thread. */
static double cpu_seconds(void)
{
	return (double)clock_read_ns(CLOCK_THREAD_CPUTIME_ID) / 1e9;
}

static void print_memory(void)
{
	CLEAN_FILE FILE *f = fopen("/proc/self/status", "re");
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "VmHWM", 5) == 0 || strncmp(line, "RssAnon", 7) == 0) {
			printf("memory %s", line);
		}
	}
}

static double seconds(void)
{
	return (double)clock_now_ns() / 1e9;
}

/* --- the floor --- */

static void floor_init_image(struct floor *f)
{
	CUpti_RangeProfiler_CounterDataImage_Initialize_Params p = {
		.structSize = CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE,
		.pRangeProfilerObject = f->object,
		.counterDataSize = f->image_size,
		.pCounterData = f->image,
	};
	double t = seconds();

	check("CounterDataImageInitialize", f->p.cuptiRangeProfilerCounterDataImageInitialize(&p));
	f->init_s += seconds() - t;
}

static void floor_start(struct floor *f)
{
	CUpti_RangeProfiler_Start_Params p = {
		.structSize = CUpti_RangeProfiler_Start_Params_STRUCT_SIZE,
		.pRangeProfilerObject = f->object,
	};
	double t;

	floor_init_image(f);
	t = seconds();
	check("Start", f->p.cuptiRangeProfilerStart(&p));
	f->first_start_s = f->turns == 0 ? seconds() - t : f->first_start_s;
	f->start_s += f->turns == 0 ? 0 : seconds() - t;
	f->n = 0;
}

static void floor_stop(struct floor *f)
{
	CUpti_RangeProfiler_Stop_Params stop = {
		.structSize = CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE,
		.pRangeProfilerObject = f->object,
	};
	CUpti_RangeProfiler_DecodeData_Params decode = {
		.structSize = CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE,
		.pRangeProfilerObject = f->object,
	};
	double t = seconds();

	check("Stop", f->p.cuptiRangeProfilerStop(&stop));
	check("DecodeData", f->p.cuptiRangeProfilerDecodeData(&decode));
	f->stop_s += seconds() - t;
	f->turns++;
}

static void floor_open(struct floor *f, CUcontext context)
{
	struct refusal r = { 0 };
	char chip[32];
	CUpti_RangeProfiler_Enable_Params enable = {
		.structSize = CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE,
		.ctx = context,
	};
	CUpti_RangeProfiler_GetCounterDataSize_Params size = {
		.structSize = CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE,
		.maxNumOfRanges = options.batch,
		.maxNumRangeTreeNodes = options.batch,
	};
	CUpti_RangeProfiler_SetConfig_Params config = {
		.structSize = CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE,
		.range = CUPTI_UserRange,
		.replayMode = CUPTI_UserReplay,
		.maxRangesPerPass = options.batch,
		.numNestingLevels = 1,
		.minNestingLevel = 1,
	};
	char *save = NULL;

	for (char *m = strtok_r(options.floor, ",", &save); m && f->n_metrics < 16;
	     m = strtok_r(NULL, ",", &save)) {
		f->metrics[f->n_metrics++] = m;
	}
	if (profiler_open(&f->p, &r) != 0) {
		fprintf(stderr, "workload: %s\n", r.message);
		exit(1);
	}
	vendor_chip_name(&f->p.host, options.device, chip, sizeof(chip));
	check(chip, host_init(&f->host, &f->p.host, chip, &r));
	check("config", host_config_new(&f->host, f->metrics, f->n_metrics, &f->config, &r));
	check("Enable", f->p.cuptiRangeProfilerEnable(&enable));
	f->object = enable.pRangeProfilerObject;
	size.pRangeProfilerObject = f->object;
	size.pMetricNames = f->metrics;
	size.numMetrics = f->n_metrics;
	check("GetCounterDataSize", f->p.cuptiRangeProfilerGetCounterDataSize(&size));
	f->image_size = size.counterDataSize;
	f->image = calloc(1, f->image_size);
	floor_init_image(f); /* SetConfig reads it */
	config.pRangeProfilerObject = f->object;
	config.configSize = f->config.size;
	config.pConfig = f->config.image;
	config.counterDataImageSize = f->image_size;
	config.pCounterDataImage = f->image;
	check("SetConfig", f->p.cuptiRangeProfilerSetConfig(&config));
}

static void floor_push(struct floor *f)
{
	CUpti_RangeProfiler_PushRange_Params p = {
		.structSize = CUpti_RangeProfiler_PushRange_Params_STRUCT_SIZE,
	};
	char name[16];

	if (f->n == options.batch) {
		floor_stop(f);
		floor_start(f);
	}
	snprintf(name, sizeof(name), "%u", f->n++);
	p.pRangeProfilerObject = f->object;
	p.pRangeName = name;
	check("PushRange", f->p.cuptiRangeProfilerPushRange(&p));
}

static void floor_pop(struct floor *f)
{
	CUpti_RangeProfiler_PopRange_Params p = {
		.structSize = CUpti_RangeProfiler_PopRange_Params_STRUCT_SIZE,
		.pRangeProfilerObject = f->object,
	};

	check("PopRange", f->p.cuptiRangeProfilerPopRange(&p));
}

/* --- the program --- */

static void open_driver(void)
{
	static const struct vendor_symbol symbols[] = {
#define SYMBOL(f) VENDOR_SYMBOL(driver, f)
		DRIVER_FUNCTIONS(SYMBOL)
	};
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	const char *missing;

	if (!library) {
		fprintf(stderr, "workload: no libcuda.so.1\n");
		exit(1);
	}
	missing = vendor_resolve(library, symbols, ARRAY_SIZE(symbols), &driver);
	if (missing) {
		fprintf(stderr, "workload: libcuda has no %s\n", missing);
		exit(1);
	}
}

/* Returns the CPU time of the launches alone: waiting for the GPU spins. */
static double launch_all(CUfunction f, CUdeviceptr to, CUdeviceptr from, struct floor *profiled)
{
	void *arguments[] = { &to, &from };
	double cpu = cpu_seconds();
	unsigned blocks =
		strcmp(options.kind, "copy") == 0 ? (unsigned)(options.bytes / 16 / 256) : 132;

	for (unsigned i = 0; i < options.kernels; i++) {
		if (profiled) {
			floor_push(profiled);
		}
		check("cuLaunchKernel",
		      driver.cuLaunchKernel(f, blocks, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
		if (profiled) {
			floor_pop(profiled);
		}
		if (options.sleep_ms) {
			struct timespec t = { options.sleep_ms / 1000,
					      options.sleep_ms % 1000 * 1000000L };

			nanosleep(&t, NULL);
		}
	}
	cpu = cpu_seconds() - cpu;
	check("cuCtxSynchronize", driver.cuCtxSynchronize());
	return cpu;
}

static void parse(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "kind", 1, NULL, 'k' },    { "kernels", 1, NULL, 'n' },
		{ "repeat", 1, NULL, 'r' },  { "bytes", 1, NULL, 'b' },
		{ "floor", 1, NULL, 'f' },   { "batch", 1, NULL, 'B' },
		{ "device", 1, NULL, 'd' },  { "sleep-ms", 1, NULL, 's' },
		{ "release", 0, NULL, 'R' }, { 0 },
	};
	int o;

	while ((o = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (o) {
		case 'k':
			options.kind = optarg;
			break;
		case 'n':
			options.kernels = (unsigned)atoi(optarg);
			break;
		case 'r':
			options.repeat = (unsigned)atoi(optarg);
			break;
		case 'b':
			options.bytes = strtoull(optarg, NULL, 10);
			break;
		case 'f':
			options.floor = optarg;
			break;
		case 'B':
			options.batch = (unsigned)atoi(optarg);
			break;
		case 'd':
			options.device = (unsigned)atoi(optarg);
			break;
		case 's':
			options.sleep_ms = (unsigned)atoi(optarg);
			break;
		case 'R':
			options.release = true;
			break;
		default:
			exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	const char *entry;
	CUdeviceptr to, from;
	CUcontext context;
	CUdevice device;
	CUmodule module;
	CUfunction function;
	static struct floor floor_state;
	struct floor *profiled = NULL;

	parse(argc, argv);
	open_driver();
	check("cuInit", driver.cuInit(0));
	check("cuDeviceGet", driver.cuDeviceGet(&device, (int)options.device));
	check("cuDevicePrimaryCtxRetain", driver.cuDevicePrimaryCtxRetain(&context, device));
	check("cuCtxSetCurrent", driver.cuCtxSetCurrent(context));
	check("cuModuleLoadData", driver.cuModuleLoadData(&module, ptx));
	entry = strcmp(options.kind, "copy") == 0  ? "copy16"
		: strcmp(options.kind, "fma") == 0 ? "fma256"
						   : "tiny";
	check("cuModuleGetFunction", driver.cuModuleGetFunction(&function, module, entry));
	check("cuMemAlloc", driver.cuMemAlloc(&to, options.bytes));
	check("cuMemAlloc", driver.cuMemAlloc(&from, options.bytes));
	if (options.floor) {
		profiled = &floor_state;
		floor_open(profiled, context);
		floor_start(profiled);
	}
	for (unsigned i = 0; i < options.repeat; i++) {
		double t = seconds(), cpu = launch_all(function, to, from, profiled);

		t = seconds() - t;
		printf("repeat %u %.6f s %.3f us/kernel %.3f us-cpu/kernel\n", i, t,
		       t * 1e6 / options.kernels, cpu * 1e6 / options.kernels);
		fflush(stdout);
	}
	print_memory();
	if (profiled) {
		floor_stop(profiled);
		printf("floor batch %u first start %.1f ms, later start %.2f ms, stop+decode %.2f "
		       "ms, image init %.2f ms, %zu bytes/range\n",
		       options.batch, profiled->first_start_s * 1e3,
		       profiled->turns > 1 ? profiled->start_s * 1e3 / (profiled->turns - 1) : 0.0,
		       profiled->stop_s * 1e3 / profiled->turns,
		       profiled->init_s * 1e3 / profiled->turns,
		       profiled->image_size / options.batch);
	}
	if (options.release) {
		check("cuDevicePrimaryCtxReset", driver.cuDevicePrimaryCtxReset(device));
	}
	return 0;
}
