/* SPDX-License-Identifier: Apache-2.0 */
/* A program with a profiler of its own, which knows nothing of us: asks for the counters through
 * CUPTI, as the range profiler does, or with --device as one that samples a whole GPU, with an RM
 * client of its own and two zeros as the target.
 *
 * fakeprofiler [--device] [--gpu N] [--closes] [--shut-in] [--user N] [--class N] [--rounds N]
 *
 *     --device  asks the driver itself, by libc's ioctl, for the whole device
 *     --gpu     of this one; with --device
 *     --class   asks for this class in place of 0xb2cc; with --device
 *     --closes  closes all descriptors from 3 on before each round
 *     --shut-in a filter of its own kills whoever opens a connection
 *     --user    becomes this user first
 *     --rounds  how often, each 20 ms; without it until SIGTERM
 *
 * Says "counters" or "refused" whenever that changes, at the end "done" and which it was, and exits
 * with 7. */

#include <cuda.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>

#include <fcntl.h>
#include <getopt.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "proto/nvidia/rm.h"

enum {
	STATUS = 7,
	CLASS_ROOT = 0x41,
	FIRST_SUBDEVICE = 0x5c000030, /* as the fake libcuda numbers them */
	OPT_DEVICE = 1,
	OPT_CLOSES,
	OPT_USER,
	OPT_ROUNDS,
	OPT_CLASS,
	OPT_SHUT_IN,
	OPT_GPU
};

static const struct option options[] = {
	{ "device", no_argument, NULL, OPT_DEVICE },
	{ "gpu", required_argument, NULL, OPT_GPU },
	{ "closes", no_argument, NULL, OPT_CLOSES },
	{ "user", required_argument, NULL, OPT_USER },
	{ "shut-in", no_argument, NULL, OPT_SHUT_IN },
	{ "class", required_argument, NULL, OPT_CLASS },
	{ "rounds", required_argument, NULL, OPT_ROUNDS },
	{ NULL, 0, NULL, 0 },
};

static volatile sig_atomic_t ended;
static bool device_wide, closes;
static uint32_t gpu;
static unsigned class = RM_CLASS_PROFILER_DEVICE;
static long rounds = -1;
static int control = -1;
static uint32_t next_object = 0x5c200000;
static CUcontext context;

static void on_signal(int number)
{
	(void)number;
	ended = 1;
}

static bool allocate(uint32_t parent, uint32_t object, uint32_t of_class)
{
	struct rm_profiler_parameters none = { 0, 0 };
	struct rm_alloc a = {
		.root = 0xc1d00000u + (uint32_t)(getpid() & 0xfffff),
		.parent = parent,
		.object = object,
		.object_class = of_class,
		.parameters = (uintptr_t)&none,
	};

	return ioctl(control, RM_IOCTL_ALLOC, &a) == 0 && a.status == RM_STATUS_OK;
}

static bool ask_driver(void)
{
	uint32_t root = 0xc1d00000u + (uint32_t)(getpid() & 0xfffff);

	if (control < 0) {
		control = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC);
		allocate(0, root, CLASS_ROOT);
	}
	return allocate(FIRST_SUBDEVICE + gpu, next_object++, class);
}

static bool ask_cupti(void)
{
	CUpti_RangeProfiler_Enable_Params enable = {
		CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE
	};
	CUpti_RangeProfiler_Disable_Params disable = {
		CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE
	};

	enable.ctx = context;
	if (cuptiRangeProfilerEnable(&enable) != CUPTI_SUCCESS) {
		return false;
	}
	disable.pRangeProfilerObject = enable.pRangeProfilerObject;
	cuptiRangeProfilerDisable(&disable);
	return true;
}

static bool ask(void)
{
	if (closes) {
		syscall(SYS_close_range, 3, ~0u, 0);
		control = -1;
	}
	return device_wide ? ask_driver() : ask_cupti();
}

static void become(const char *number)
{
	uid_t uid = (uid_t)strtoul(number, NULL, 10);

	if (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0) {
		perror("setresuid");
	}
}

static void shut_in(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

	if (seccomp_rule_add(filter, SCMP_ACT_KILL_PROCESS, SCMP_SYS(socket), 0) < 0 ||
	    seccomp_rule_add(filter, SCMP_ACT_KILL_PROCESS, SCMP_SYS(connect), 0) < 0 ||
	    seccomp_load(filter) < 0) {
		puts("no filter");
	}
	seccomp_release(filter);
}

static void take_options(int argc, char **argv)
{
	int id;

	while ((id = getopt_long(argc, argv, "", options, NULL)) != -1) {
		device_wide |= id == OPT_DEVICE;
		gpu = id == OPT_GPU ? (uint32_t)atoi(optarg) : gpu;
		closes |= id == OPT_CLOSES;
		if (id == OPT_SHUT_IN) {
			shut_in();
		} else if (id == OPT_USER) {
			become(optarg);
		} else if (id == OPT_ROUNDS) {
			rounds = strtol(optarg, NULL, 10);
		} else if (id == OPT_CLASS) {
			class = (unsigned)strtoul(optarg, NULL, 0);
		}
	}
}

static int open_profiler(void)
{
	CUpti_Profiler_Initialize_Params init = { CUpti_Profiler_Initialize_Params_STRUCT_SIZE };

	return device_wide ||
	       (cuInit(0) == CUDA_SUCCESS && cuCtxCreate(&context, NULL, 0, 0) == CUDA_SUCCESS &&
		cuptiProfilerInitialize(&init) == CUPTI_SUCCESS);
}

int main(int argc, char **argv)
{
	CUpti_Profiler_DeInitialize_Params deinit = {
		CUpti_Profiler_DeInitialize_Params_STRUCT_SIZE
	};
	long granted = 0, refused = 0;
	int before = -1;

	take_options(argc, argv);
	signal(SIGTERM, on_signal);
	if (!open_profiler()) {
		return 3;
	}
	for (long i = 0; !ended && i != rounds; i++) {
		bool now = ask();

		granted += now;
		refused += !now;
		if (before != (int)now) {
			puts(now ? "counters" : "refused");
			fflush(stdout);
		}
		before = now;
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	}
	if (context) {
		cuptiProfilerDeInitialize(&deinit);
		cuCtxDestroy(context);
	}
	printf("done %s %s\n", granted ? "granted" : "-", refused ? "refused" : "-");
	return STATUS;
}
