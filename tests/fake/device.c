/* SPDX-License-Identifier: Apache-2.0 */
/* The fake driver API: start and devices.
 *
 * The first cuInit() loads $CUDA_INJECTION64_PATH as the real driver does. A process that forks
 * after cuInit() finds every call failing in the child. */

#include "tests/fake/gpu.h"
#include "tests/fake/state.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { DRIVER_VERSION = 13000 };

static _Atomic int initialised_pid;
static pthread_once_t init_once = PTHREAD_ONCE_INIT;
static _Thread_local bool in_init;
static atomic_bool half_done; /* cuInit() is under way */
static CUresult init_result;

static int visible[FAKE_MAX_GPUS]; /* device ordinal -> GPU */
static int visible_count;

static void read_visible_devices(void)
{
	int count = fake_gpu_count();
	const char *text = getenv("CUDA_VISIBLE_DEVICES");
	char *end;

	visible_count = 0;
	if (!text) {
		while (visible_count < count) {
			visible[visible_count] = visible_count;
			visible_count++;
		}
		return;
	}
	while (*text && visible_count < FAKE_MAX_GPUS) {
		long gpu = strtol(text, &end, 10);

		if (end == text || gpu < 0 || gpu >= count) {
			return; /* as documented: what follows an invalid index is invisible */
		}
		visible[visible_count++] = (int)gpu;
		text = *end == ',' ? end + 1 : end;
	}
}

static void load_injection(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *library = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	int (*start)(void);

	if (!library) {
		return;
	}
	start = (int (*)(void))dlsym(library, "InitializeInjection");
	if (start) {
		(void)start();
	}
}

static void wait_knob(const char *name)
{
	const char *ms = getenv(name);

	if (ms) {
		usleep((useconds_t)strtoul(ms, NULL, 10) * 1000);
	}
}

static void initialise(void)
{
	read_visible_devices();
	init_result = visible_count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
	if (init_result == CUDA_SUCCESS) {
		atomic_store(&initialised_pid, getpid());
		in_init = true;
		atomic_store(&half_done, true);
		load_injection();
		wait_knob("GPUCTR_FAKE_INIT_MS");
		atomic_store(&half_done, getenv("GPUCTR_FAKE_INIT_FAILS") != NULL);
		in_init = false;
		init_result = atomic_load(&half_done) ? CUDA_ERROR_SYSTEM_NOT_READY : init_result;
	}
}

CUresult gpu_ready(void)
{
	int pid = atomic_load(&initialised_pid);

	trace_wait_for_driver();
	return pid && pid == getpid() && (in_init || !atomic_load(&half_done))
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuInit(unsigned int flags)
{
	cuInit_params params = { .Flags = flags };
	struct fake_trace trace;

	if (flags) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (in_init) {
		return CUDA_SUCCESS; /* the injected library calls us */
	}
	pthread_once(&init_once, initialise);
	if (init_result != CUDA_SUCCESS) {
		return init_result;
	}
	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuInit, "cuInit", &params, NULL);
	return trace_exit(&trace, gpu_ready());
}

CUresult cuDriverGetVersion(int *version)
{
	if (!version) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	*version = DRIVER_VERSION;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
	CUresult r = gpu_ready();

	if (r == CUDA_SUCCESS) {
		*count = visible_count;
	}
	return r;
}

CUresult gpu_check_device(CUdevice device)
{
	CUresult r = gpu_ready();

	if (r != CUDA_SUCCESS) {
		return r;
	}
	return device >= 0 && device < visible_count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	CUresult r = gpu_check_device(ordinal);

	if (r == CUDA_SUCCESS) {
		*device = ordinal;
	}
	return r;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice device)
{
	CUresult r = gpu_check_device(device);

	if (r == CUDA_SUCCESS) {
		snprintf(name, (size_t)len, "Fake H200%s",
			 fake_gpu_is_divided(visible[device]) ? " MIG 1g.18gb" : "");
	}
	return r;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	CUresult r = gpu_check_device(device);

	if (r == CUDA_SUCCESS) {
		fake_gpu_uuid(visible[device], (uint8_t *)uuid->bytes);
		uuid->bytes[0] =
			(char)(uuid->bytes[0] ^ (fake_gpu_is_divided(visible[device]) ? 0x55 : 0));
	}
	return r;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	return cuDeviceGetUuid_v2(uuid, device);
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	CUresult r = gpu_check_device(device);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		*value = 9;
		break;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
		*value = 0;
		break;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
		*value = 132;
		break;
	case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*value = 1024;
		break;
	case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
		*value = 32;
		break;
	case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
		*value = 1980000;
		break;
	case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
		*value = 3201000;
		break;
	case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
		*value = 0x10 + visible[device];
		break;
	case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
		*value = 1;
		break;
	default:
		*value = 0;
	}
	return CUDA_SUCCESS;
}

int gpu_of_device(int device)
{
	return gpu_check_device(device) == CUDA_SUCCESS ? visible[device] : -1;
}
