/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "tests/gpu/driver.h"
#include "tests/gpu/floor.h"

/* A CUDA program of known kernels, by the driver API alone, and the floor to compare with.
 *
 *   workload --kind tiny|copy|fma --kernels N --repeat R [--nvtx]
 *   workload ... --floor METRIC,METRIC --batch B     the same under a bare CUPTI range profiler
 *   workload ... --floor METRICS --values            and prints what that measured
 *
 * Prints one line a repeat: its wall time. */

struct options {
	const char *kind;
	unsigned kernels, repeat, device, sleep_ms;
	bool release; /* end the context before the program ends */
	bool values;  /* print what the floor measured */
	size_t bytes;
	char *floor;
	unsigned batch;
};

static struct options options = {
	.kind = "tiny", .kernels = 8192, .repeat = 3, .bytes = 256 << 20, .batch = 1024
};

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

/* Returns the CPU time of the launches alone: waiting for the GPU spins. */
static double launch_all(struct driver *d, CUfunction f, CUdeviceptr to, CUdeviceptr from,
			 struct floor *profiled)
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
		      d->cuLaunchKernel(f, blocks, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
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
	check("cuCtxSynchronize", d->cuCtxSynchronize());
	return cpu;
}

static void parse(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "kind", 1, NULL, 'k' },
		{ "kernels", 1, NULL, 'n' },
		{ "repeat", 1, NULL, 'r' },
		{ "bytes", 1, NULL, 'b' },
		{ "floor", 1, NULL, 'f' },
		{ "batch", 1, NULL, 'B' },
		{ "device", 1, NULL, 'd' },
		{ "sleep-ms", 1, NULL, 's' },
		{ "release", 0, NULL, 'R' },
		{ "values", 0, NULL, 'v' },
		{ 0 },
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
		case 'v':
			options.values = true;
			break;
		default:
			exit(2);
		}
	}
}

static const char *kernel_name(void)
{
	return strcmp(options.kind, "copy") == 0  ? "copy16"
	       : strcmp(options.kind, "fma") == 0 ? "fma256"
						  : "tiny";
}

int main(int argc, char **argv)
{
	static struct driver d;
	static struct floor floor_state;
	struct floor *profiled = NULL;
	CUdeviceptr to, from;
	CUfunction function;

	parse(argc, argv);
	driver_begin(&d, options.device);
	function = driver_function(&d, kernel_name());
	check("cuMemAlloc", d.cuMemAlloc(&to, options.bytes));
	check("cuMemAlloc", d.cuMemAlloc(&from, options.bytes));
	if (options.floor) {
		profiled = &floor_state;
		floor_begin(profiled, d.context, options.device, options.floor, options.batch);
	}
	for (unsigned i = 0; i < options.repeat; i++) {
		double t = seconds(), cpu = launch_all(&d, function, to, from, profiled);

		t = seconds() - t;
		printf("repeat %u %.6f s %.3f us/kernel %.3f us-cpu/kernel\n", i, t,
		       t * 1e6 / options.kernels, cpu * 1e6 / options.kernels);
		fflush(stdout);
	}
	print_memory();
	if (profiled) {
		floor_end(profiled);
	}
	if (profiled && options.values) {
		floor_print_values(profiled);
	}
	if (options.release) {
		check("cuDevicePrimaryCtxReset", d.cuDevicePrimaryCtxReset(d.device));
	}
	return 0;
}
