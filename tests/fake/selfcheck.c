/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the fakes by themselves: fake-selfcheck PATH-OF-libfakedriver.so
 *
 * Each case runs in a process of its own (environment, capabilities and library state are per
 * process) in one fake directory, with the library preloaded. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>
#include <cupti_result.h>

#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>

#include "tests/fake/rm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ioctl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_RANGES = 8, GRID = 10, BLOCK = 128, THREADS = GRID * BLOCK };

#define EXPECT(what, want) expect(__LINE__, #what, (double)(what), (double)(want))

static void expect(int line, const char *what, double got, double want)
{
	if (!(got == want || (isnan(got) && isnan(want)))) {
		fprintf(stderr, "line %d: %s is %g, not %g\n", line, what, got, want);
		exit(1);
	}
}

static const char *metrics[] = { "dram__bytes_read.sum", "dram__bytes_write.sum",
				 "gpu__time_duration.sum" };

struct session {
	CUcontext context;
	CUfunction function;
	CUpti_RangeProfiler_Object *profiler;
	CUpti_Profiler_Host_Object *host;
	uint8_t config[4096];
	size_t config_bytes;
	uint8_t *image;
	size_t image_bytes;
};

static void open_cuda(struct session *s)
{
	CUmodule module;
	CUdevice device;

	EXPECT(cuInit(0), CUDA_SUCCESS);
	EXPECT(cuDeviceGet(&device, 0), CUDA_SUCCESS);
	EXPECT(cuCtxCreate_v4(&s->context, NULL, 0, device), CUDA_SUCCESS);
	EXPECT(cuModuleLoadData(&module, "image"), CUDA_SUCCESS);
	EXPECT(cuModuleGetFunction(&s->function, module, "_Z2k0Pf"), CUDA_SUCCESS);
}

static void launch(struct session *s)
{
	EXPECT(cuLaunchKernel(s->function, GRID, 1, 1, BLOCK, 1, 1, 0, NULL, NULL, NULL),
	       CUDA_SUCCESS);
}

/* The parameters of a call of CUPTI's: the first of them is their size. */
#define PARAMS(call, name) call##_Params name = { .structSize = call##_Params_STRUCT_SIZE }

static CUptiResult enable(struct session *s)
{
	PARAMS(CUpti_Profiler_Initialize, init);
	PARAMS(CUpti_RangeProfiler_Enable, p);
	CUptiResult r;

	EXPECT(cuptiProfilerInitialize(&init), CUPTI_SUCCESS);
	p.ctx = s->context;
	r = cuptiRangeProfilerEnable(&p);
	s->profiler = p.pRangeProfilerObject;
	return r;
}

static CUpti_Profiler_Host_Object *hosts[8];
static size_t n_hosts;

static void open_host(struct session *s)
{
	PARAMS(CUpti_Profiler_Host_Initialize, p);

	p.pChipName = "GH100";
	EXPECT(cuptiProfilerHostInitialize(&p), CUPTI_SUCCESS);
	s->host = p.pHostObject;
	hosts[n_hosts++] = s->host;
}

static void close_hosts(void)
{
	PARAMS(CUpti_Profiler_Host_Deinitialize, p);

	while (n_hosts > 0) {
		p.pHostObject = hosts[--n_hosts];
		EXPECT(cuptiProfilerHostDeinitialize(&p), CUPTI_SUCCESS);
	}
}

static CUptiResult add(struct session *s, const char **names, size_t count)
{
	PARAMS(CUpti_Profiler_Host_ConfigAddMetrics, p);

	p.pHostObject = s->host;
	p.ppMetricNames = names;
	p.numMetrics = count;
	return cuptiProfilerHostConfigAddMetrics(&p);
}

static size_t make_config(struct session *s)
{
	PARAMS(CUpti_Profiler_Host_GetConfigImageSize, size);
	PARAMS(CUpti_Profiler_Host_GetConfigImage, image);
	PARAMS(CUpti_Profiler_Host_GetNumOfPasses, passes);

	size.pHostObject = s->host;
	EXPECT(cuptiProfilerHostGetConfigImageSize(&size), CUPTI_SUCCESS);
	EXPECT(size.configImageSize <= sizeof(s->config), true);
	s->config_bytes = size.configImageSize;
	image.pHostObject = s->host;
	image.configImageSize = s->config_bytes;
	image.pConfigImage = s->config;
	EXPECT(cuptiProfilerHostGetConfigImage(&image), CUPTI_SUCCESS);
	passes.configImageSize = s->config_bytes;
	passes.pConfigImage = s->config;
	EXPECT(cuptiProfilerHostGetNumOfPasses(&passes), CUPTI_SUCCESS);
	return passes.numOfPasses;
}

static void make_image_of(struct session *s, const char **names, size_t count, size_t ranges)
{
	CUpti_RangeProfiler_GetCounterDataSize_Params size = {
		.structSize = CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE,
		.pRangeProfilerObject = s->profiler,
		.pMetricNames = names,
		.numMetrics = count,
		.maxNumOfRanges = ranges,
		.maxNumRangeTreeNodes = (uint32_t)ranges,
	};
	CUpti_RangeProfiler_CounterDataImage_Initialize_Params init = {
		.structSize = CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE,
		.pRangeProfilerObject = s->profiler,
	};

	EXPECT(cuptiRangeProfilerGetCounterDataSize(&size), CUPTI_SUCCESS);
	s->image_bytes = size.counterDataSize;
	free(s->image);
	s->image = malloc(s->image_bytes);
	init.counterDataSize = s->image_bytes;
	init.pCounterData = s->image;
	EXPECT(cuptiRangeProfilerCounterDataImageInitialize(&init), CUPTI_SUCCESS);
}

static void make_image(struct session *s, size_t ranges)
{
	make_image_of(s, metrics, 3, ranges);
}

static CUptiResult set_config(struct session *s, size_t ranges)
{
	PARAMS(CUpti_RangeProfiler_SetConfig, p);

	p.pRangeProfilerObject = s->profiler;
	p.configSize = s->config_bytes;
	p.pConfig = s->config;
	p.counterDataImageSize = s->image_bytes;
	p.pCounterDataImage = s->image;
	p.range = CUPTI_UserRange;
	p.replayMode = CUPTI_UserReplay;
	p.maxRangesPerPass = ranges;
	p.numNestingLevels = 1;
	p.minNestingLevel = 1;
	return cuptiRangeProfilerSetConfig(&p);
}

/* A call that wants to know the profiler alone. */
#define CALL(name, call)                               \
	static CUptiResult name(struct session *s)     \
	{                                              \
		PARAMS(CUpti_RangeProfiler_##call, p); \
                                                       \
		p.pRangeProfilerObject = s->profiler;  \
		return cuptiRangeProfiler##call(&p);   \
	}

CALL(start, Start)
CALL(stop, Stop)
CALL(pop, PopRange)

static CUptiResult push(struct session *s, const char *name)
{
	CUpti_RangeProfiler_PushRange_Params p = {
		.structSize = CUpti_RangeProfiler_PushRange_Params_STRUCT_SIZE,
		.pRangeProfilerObject = s->profiler,
		.pRangeName = name,
	};

	return cuptiRangeProfilerPushRange(&p);
}

static size_t decode(struct session *s)
{
	CUpti_RangeProfiler_DecodeData_Params p = {
		.structSize = CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE,
		.pRangeProfilerObject = s->profiler,
	};

	EXPECT(cuptiRangeProfilerDecodeData(&p), CUPTI_SUCCESS);
	return p.numOfRangeDropped;
}

static size_t count_ranges(struct session *s)
{
	PARAMS(CUpti_RangeProfiler_GetCounterDataInfo, p);

	p.pCounterDataImage = s->image;
	p.counterDataImageSize = s->image_bytes;
	EXPECT(cuptiRangeProfilerGetCounterDataInfo(&p), CUPTI_SUCCESS);
	return p.numTotalRanges;
}

static double value(struct session *s, size_t range, const char *name)
{
	PARAMS(CUpti_Profiler_Host_EvaluateToGpuValues, p);
	double got = -1;

	p.pHostObject = s->host;
	p.pCounterDataImage = s->image;
	p.counterDataImageSize = s->image_bytes;
	p.rangeIndex = range;
	p.ppMetricNames = &name;
	p.numMetrics = 1;
	p.pMetricValues = &got;
	EXPECT(cuptiProfilerHostEvaluateToGpuValues(&p), CUPTI_SUCCESS);
	return got;
}

/* Makes every call up to the first Start. */
static void prepare(struct session *s)
{
	open_cuda(s);
	open_host(s);
	EXPECT(add(s, metrics, 3), CUPTI_SUCCESS);
	EXPECT(make_config(s), 1);
	EXPECT(enable(s), CUPTI_SUCCESS);
	EXPECT(start(s), CUPTI_ERROR_INVALID_OPERATION);
	make_image(s, MAX_RANGES);
	EXPECT(set_config(s, MAX_RANGES), CUPTI_SUCCESS);
}

static CUptiResult availability(struct session *s)
{
	PARAMS(CUpti_Profiler_GetCounterAvailability, p);

	p.ctx = s->context;
	return cuptiProfilerGetCounterAvailability(&p);
}

static int case_values(void)
{
	struct session s = { 0 };

	setenv("GPUCTR_FAKE_RESTRICTED", "0", 1);
	prepare(&s);
	EXPECT(start(&s), CUPTI_SUCCESS);
	EXPECT(stop(&s), CUPTI_SUCCESS);
	EXPECT(start(&s), CUPTI_SUCCESS);
	EXPECT(push(&s, "one"), CUPTI_SUCCESS);
	launch(&s);
	EXPECT(push(&s, "nested"), CUPTI_ERROR_INVALID_OPERATION);
	EXPECT(stop(&s), CUPTI_ERROR_INVALID_OPERATION);
	EXPECT(pop(&s), CUPTI_SUCCESS);
	EXPECT(pop(&s), CUPTI_ERROR_INVALID_OPERATION);
	launch(&s); /* in no range */
	for (int i = 0; i < MAX_RANGES; i++) {
		EXPECT(push(&s, "two"), CUPTI_SUCCESS);
		launch(&s);
		launch(&s);
		EXPECT(pop(&s), CUPTI_SUCCESS);
	}
	EXPECT(stop(&s), CUPTI_SUCCESS);
	EXPECT(decode(&s), 1);
	EXPECT(count_ranges(&s), MAX_RANGES);
	EXPECT(value(&s, 0, "dram__bytes_read.sum"), 16 * THREADS);
	EXPECT(value(&s, 0, "dram__bytes_write.sum"), 8 * THREADS);
	EXPECT(value(&s, 0, "dram__bytes_write.avg"), 8.0 * THREADS / 48);
	EXPECT(value(&s, 0, "gpu__time_duration.sum"), 1000 + THREADS / 64);
	EXPECT(value(&s, 1, "dram__bytes_read.sum"), 2 * 16 * THREADS);
	EXPECT(value(&s, 1, "gpu__time_duration.sum"), 2 * (1000 + THREADS / 64));
	EXPECT(value(&s, 0, "smsp__inst_executed.sum"), NAN);
	return 0;
}

static void measure_two_and_one(struct session *s)
{
	EXPECT(start(s), CUPTI_SUCCESS);
	for (int i = 2; i > 0; i--) {
		EXPECT(push(s, i == 2 ? "two" : "one"), CUPTI_SUCCESS);
		for (int k = 0; k < i; k++) {
			launch(s);
		}
		EXPECT(pop(s), CUPTI_SUCCESS);
	}
	EXPECT(stop(s), CUPTI_SUCCESS);
	EXPECT(decode(s), 0);
}

/* The last range comes first, and an image that is larger than the first one is not used to its
 * end. */
static int case_order_and_size(void)
{
	struct session s = { 0 };

	setenv("GPUCTR_FAKE_RESTRICTED", "0", 1);
	setenv("GPUCTR_FAKE_DECODE_REVERSED", "1", 1);
	setenv("GPUCTR_FAKE_LATE_US", "2000", 1);
	prepare(&s);
	measure_two_and_one(&s);
	EXPECT(value(&s, 0, "dram__bytes_read.sum"), 16 * THREADS);
	EXPECT(value(&s, 1, "dram__bytes_read.sum"), 2 * 16 * THREADS);
	make_image(&s, 2 * MAX_RANGES);
	EXPECT(set_config(&s, 2 * MAX_RANGES), CUPTI_SUCCESS);
	for (int i = 0; i < MAX_RANGES; i++) {
		measure_two_and_one(&s);
	}
	EXPECT(count_ranges(&s), MAX_RANGES);
	return 0;
}

static int case_passes(void)
{
	static const char *five[] = { "dram__bytes_read.sum", "dram__bytes_write.sum",
				      "gpu__time_duration.sum", "lts__t_bytes.sum",
				      "sm__inst_executed.sum" };
	static const char *sass[] = { "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum" };
	static const char *throughput[] = { "sm__throughput.avg.pct_of_peak_sustained_elapsed" };
	static const char *bare[] = { "dram__bytes_read" };
	static const char *wrong[] = { "no__such_metric.sum" };
	struct session s = { 0 };

	open_host(&s);
	EXPECT(add(&s, five, 4), CUPTI_SUCCESS);
	EXPECT(make_config(&s), 1);
	EXPECT(add(&s, sass, 1), CUPTI_SUCCESS);
	EXPECT(make_config(&s), 2);
	EXPECT(add(&s, throughput, 1), CUPTI_SUCCESS);
	EXPECT(make_config(&s), 5);
	EXPECT(add(&s, five, 1), CUPTI_SUCCESS); /* nothing is shared with what came before */
	EXPECT(make_config(&s), 6);
	EXPECT(add(&s, bare, 1), CUPTI_ERROR_INVALID_PARAMETER);
	open_host(&s);
	EXPECT(add(&s, five, 5), CUPTI_SUCCESS);
	EXPECT(make_config(&s), 2);
	open_host(&s);
	EXPECT(add(&s, wrong, 1), CUPTI_ERROR_UNKNOWN);
	return 0;
}

/* One configuration, two passes, an image of its own for each: what is configured later counts for
 * nothing but the image. */
static int case_passes_in_turn(void)
{
	static const char *read[] = { "dram__bytes_read.sum" };
	static const char *written[] = { "dram__bytes_write.sum" };
	struct session s = { 0 };

	setenv("GPUCTR_FAKE_RESTRICTED", "0", 1);
	open_cuda(&s);
	open_host(&s);
	EXPECT(add(&s, read, 1), CUPTI_SUCCESS);
	EXPECT(add(&s, written, 1), CUPTI_SUCCESS);
	EXPECT(make_config(&s), 2);
	EXPECT(enable(&s), CUPTI_SUCCESS);
	for (int i = 0; i < 5; i++) {
		make_image_of(&s, i % 2 ? written : read, 1, MAX_RANGES);
		EXPECT(set_config(&s, MAX_RANGES), CUPTI_SUCCESS);
		measure_two_and_one(&s);
		EXPECT(value(&s, 0, read[0]), i % 2 ? NAN : 2.0 * 16 * THREADS);
		EXPECT(value(&s, 0, written[0]), i % 2 ? 2.0 * 8 * THREADS : NAN);
	}
	make_image_of(&s, read, 1, MAX_RANGES);
	EXPECT(set_config(&s, MAX_RANGES), CUPTI_SUCCESS);
	measure_two_and_one(&s); /* the pass of the other one */
	EXPECT(value(&s, 0, read[0]), NAN);
	EXPECT(value(&s, 0, written[0]), NAN);
	return 0;
}

static int case_control_device(void)
{
	int fd = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC), other = open("/dev/null", O_RDWR);
	struct rm_alloc a = { .h_root = 0xc1, .h_new = 0xc1, .h_class = 0x41 };
	struct rm_free f = { .h_root = 0xc1, .h_old = 0xc1 };
	struct stat info;

	EXPECT(fd >= 0, true);
	EXPECT(fstat(fd, &info), 0);
	EXPECT(S_ISCHR(info.st_mode), true);
	EXPECT(info.st_rdev, makedev(195, 255));
	EXPECT(ioctl(fd, _IOWR('F', RM_ESC_ALLOC, struct rm_alloc), &a), 0);
	EXPECT(a.status, RM_OK);
	EXPECT(ioctl(fd, _IOWR('F', RM_ESC_FREE, struct rm_free), &f), 0);
	EXPECT(f.status, RM_OK);
	EXPECT(ioctl(fd, _IOWR('F', RM_ESC_FREE, struct rm_free), &f), 0);
	EXPECT(f.status, RM_INVALID_OBJECT);
	EXPECT(ioctl(fd, _IOWR('F', RM_ESC_ALLOC, struct rm_free), &f), -1);
	EXPECT(errno, EINVAL);
	EXPECT(ioctl(other, _IOWR('F', RM_ESC_ALLOC, struct rm_alloc), &a), -1);
	EXPECT(errno, ENOTTY);
	return 0;
}

/* Finds the object of this process in the log and frees it, as a process that holds a duplicate
 * would. */
static void revoke_own_object(void)
{
	unsigned long root = 0, object = 0, class, parent, new_handle, client;
	char path[4096], line[512];
	struct rm_free f = { 0 };
	struct stat info;
	FILE *log;
	int pid;

	snprintf(path, sizeof(path), "%s/ioctl.log", getenv("GPUCTR_FAKE_DIR"));
	log = fopen(path, "re");
	while (log && fgets(line, sizeof(line), log) && line[0]) {
		if (sscanf(line, "%*u %d %*u %*d %*x %*u %lx %lx %lx %lx", &pid, &class, &client,
			   &parent, &new_handle) == 5 &&
		    pid == getpid() && class == 0xb2cc) {
			root = client;
			object = new_handle;
		}
	}
	f.h_root = (uint32_t)root;
	f.h_old = (uint32_t)object;
	for (int fd = 3; fd < 64; fd++) {
		if (fstat(fd, &info) == 0 && info.st_rdev == makedev(195, 255)) {
			EXPECT(ioctl(dup(fd), _IOWR('F', RM_ESC_FREE, struct rm_free), &f), 0);
			EXPECT(f.status, RM_OK);
			return;
		}
	}
}

static int case_revoked(void)
{
	struct session s = { 0 };

	setenv("GPUCTR_FAKE_RESTRICTED", "0", 1);
	prepare(&s);
	EXPECT(start(&s), CUPTI_SUCCESS);
	revoke_own_object();
	EXPECT(stop(&s), CUPTI_ERROR_UNKNOWN);
	return 0;
}

static int case_busy(void)
{
	struct session s = { 0 };
	int ready[2];
	char byte;
	pid_t pid;

	setenv("GPUCTR_FAKE_RESTRICTED", "0", 1);
	EXPECT(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		prepare(&s);
		EXPECT(start(&s), CUPTI_SUCCESS);
		EXPECT(write(ready[1], "x", 1), 1);
		pause();
	}
	close(ready[1]);
	EXPECT(read(ready[0], &byte, 1), 1);
	prepare(&s);
	EXPECT(start(&s), CUPTI_ERROR_HARDWARE_BUSY);
	EXPECT(availability(&s), CUPTI_ERROR_HARDWARE_BUSY);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	EXPECT(availability(&s), CUPTI_SUCCESS);
	EXPECT(start(&s), CUPTI_SUCCESS);
	return 0;
}

static void *push_pop(void *session)
{
	for (int i = 0; i < 5; i++) {
		(void)push(session, "range");
		(void)pop(session);
	}
	return NULL;
}

static int case_two_threads(void)
{
	struct session s = { 0 };
	pthread_t other;
	char path[4096], line[512];
	bool found = false;
	FILE *log;

	setenv("GPUCTR_FAKE_RESTRICTED", "0", 1);
	setenv("GPUCTR_FAKE_PUSH_US", "300000", 1); /* in which the other one begins */
	prepare(&s);
	EXPECT(start(&s), CUPTI_SUCCESS);
	EXPECT(pthread_create(&other, NULL, push_pop, &s), 0);
	push_pop(&s);
	pthread_join(other, NULL);
	snprintf(path, sizeof(path), "%s/violations.log", getenv("GPUCTR_FAKE_DIR"));
	log = fopen(path, "re");
	while (log && fgets(line, sizeof(line), log)) {
		found = found || strstr(line, "another thread");
	}
	EXPECT(found, true);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(void);
} cases[] = {
	{ "values", case_values },
	{ "order-and-size", case_order_and_size },
	{ "passes", case_passes },
	{ "passes-in-turn", case_passes_in_turn },
	{ "control-device", case_control_device },
	{ "revoked", case_revoked },
	{ "busy", case_busy },
	{ "two-threads", case_two_threads },
};

static int run_case(const char *name)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, name) == 0) {
			int r = cases[i].run();

			close_hosts();
			return r;
		}
	}
	return 2;
}

static bool run_process(const char *name)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		execl("/proc/self/exe", "selfcheck", "--case", name, (char *)NULL);
		_exit(2);
	}
	waitpid(pid, &status, 0);
	status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	printf("%s: %s\n", name, status == 0 ? "ok" : "FAILED");
	fflush(stdout);
	return status == 0;
}

static void remove_directory(const char *directory)
{
	static const char *const files[] = { "state", "ioctl.log", "violations.log", "left.log" };
	char path[4096];

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", directory, files[i]);
		unlink(path);
	}
	rmdir(directory);
}

int main(int argc, char **argv)
{
	char directory[] = "/tmp/fake-selfcheck-XXXXXX";
	bool passed = true;

	if (argc == 3 && strcmp(argv[1], "--case") == 0) {
		return run_case(argv[2]);
	}
	if (argc != 2 || !mkdtemp(directory)) {
		return 2;
	}
	setenv("LD_PRELOAD", argv[1], 1);
	setenv("GPUCTR_FAKE_DIR", directory, 1);
	setenv("GPUCTR_FAKE_RESTRICTED", "1", 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		passed = run_process(cases[i].name) && passed;
	}
	remove_directory(directory);
	return passed ? 0 : 1;
}
