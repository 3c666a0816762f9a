/* SPDX-License-Identifier: Apache-2.0 */
/* Entry of every function of the fake profiler library, and its small functions.
 *
 * GPUCTR_FAKE_FAIL="name:n:code[,name:n:code...]" makes the n-th call of a function (0: every call;
 * "3+": from the third on) return a code before it does anything. GPUCTR_FAKE_START_US, _STOP_US
 * and _PUSH_US (push and pop) make calls as slow as on hardware. GPUCTR_FAKE_TRACE=1 writes each
 * call's name to calls.log. */

#include "tests/fake/profiler.h"
#include "tests/fake/state.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_RULES = 16 };

struct rule {
	char function[64];
	unsigned int number;
	bool onward;
	CUptiResult result;
	_Atomic unsigned int calls;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct rule rules[MAX_RULES];
static unsigned int rule_count;
static long start_us, stop_us, push_us;
static int trace_fd = -1;

static long number_from(const char *name)
{
	const char *text = getenv(name);

	return text ? strtol(text, NULL, 10) : 0;
}

static void read_rules(void)
{
	const char *text = getenv("GPUCTR_FAKE_FAIL");

	while (text && *text && rule_count < MAX_RULES) {
		struct rule *r = &rules[rule_count];
		char plus = 0;
		int result;

		if (sscanf(text, "%63[^:]:%u:%d", r->function, &r->number, &result) == 3 ||
		    sscanf(text, "%63[^:]:%u%c:%d", r->function, &r->number, &plus, &result) == 4) {
			r->onward = plus == '+' || r->number == 0;
			r->result = (CUptiResult)result;
			rule_count++;
		}
		text = strchr(text, ',');
		text = text ? text + 1 : NULL;
	}
}

static void open_trace(void)
{
	const char *dir = getenv("GPUCTR_FAKE_DIR");
	char path[PATH_MAX];

	if (!dir || number_from("GPUCTR_FAKE_TRACE") == 0) {
		return;
	}
	snprintf(path, sizeof(path), "%s/calls.log", dir);
	trace_fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	if (trace_fd < 0) {
		trace_fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
		if (trace_fd >= 0) {
			(void)fchmod(trace_fd, 0666);
		}
	}
}

static void read_environment(void)
{
	start_us = number_from("GPUCTR_FAKE_START_US");
	stop_us = number_from("GPUCTR_FAKE_STOP_US");
	push_us = number_from("GPUCTR_FAKE_PUSH_US");
	read_rules();
	open_trace();
}

static void delay(const char *function)
{
	long us = 0;

	if (strcmp(function, "cuptiRangeProfilerStart") == 0) {
		us = start_us;
	} else if (strcmp(function, "cuptiRangeProfilerStop") == 0) {
		us = stop_us;
	} else if (strcmp(function, "cuptiRangeProfilerPushRange") == 0 ||
		   strcmp(function, "cuptiRangeProfilerPopRange") == 0) {
		us = push_us;
	}
	if (us > 0) {
		struct timespec time = { us / 1000000, us % 1000000 * 1000 };

		nanosleep(&time, NULL);
	}
}

CUptiResult call_begin(const char *function)
{
	pthread_once(&once, read_environment);
	if (trace_fd >= 0) {
		dprintf(trace_fd, "%d %s\n", (int)getpid(), function);
	}
	delay(function);
	for (unsigned int i = 0; i < rule_count; i++) {
		struct rule *r = &rules[i];

		if (strcmp(r->function, function) == 0) {
			unsigned int calls = atomic_fetch_add(&r->calls, 1) + 1;

			if (calls == r->number || (calls > r->number && r->onward)) {
				return r->result;
			}
		}
	}
	return strncmp(function, "cuptiPmSampling", 15) == 0 &&
			       strcmp(function, "cuptiPmSamplingDisable") != 0
		       ? (CUptiResult)atomic_load(&fake_state()->sampling_fail)
		       : CUPTI_SUCCESS;
}

CUptiResult call_begin_alone(const char *function, _Atomic bool *busy)
{
	CUptiResult r;

	if (atomic_exchange(busy, true)) {
		fake_violation("%s: another thread is inside this object", function);
		return CUPTI_ERROR_INVALID_OPERATION;
	}
	r = call_begin(function);
	if (r != CUPTI_SUCCESS) {
		atomic_store(busy, false);
	}
	return r;
}

const struct fake_hooks *call_driver(void)
{
	static _Atomic(const struct fake_hooks *) driver;
	fakecuda_hooks_fn hooks;
	void *library;

	if (atomic_load(&driver)) {
		return atomic_load(&driver);
	}
	library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	hooks = library ? (fakecuda_hooks_fn)dlsym(library, "fakecuda_hooks") : NULL;
	if (!hooks) {
		return NULL;
	}
	atomic_store(&driver, hooks());
	callback_listen(hooks());
	return hooks();
}

bool call_has_size(const void *params, size_t size)
{
	return params && *(const size_t *)params >= size;
}

CUptiResult cuptiGetVersion(uint32_t *version)
{
	long wanted = number_from("GPUCTR_FAKE_CUPTI_VERSION");
	CUptiResult r = call_begin("cuptiGetVersion");

	if (r == CUPTI_SUCCESS) {
		*version = wanted ? (uint32_t)wanted : CUPTI_API_VERSION;
	}
	return r;
}

#define NAME(code) [code] = #code

static const char *const names[] = {
	NAME(CUPTI_SUCCESS),
	NAME(CUPTI_ERROR_INVALID_PARAMETER),
	NAME(CUPTI_ERROR_INVALID_DEVICE),
	NAME(CUPTI_ERROR_INVALID_CONTEXT),
	NAME(CUPTI_ERROR_INVALID_OPERATION),
	NAME(CUPTI_ERROR_OUT_OF_MEMORY),
	NAME(CUPTI_ERROR_HARDWARE),
	NAME(CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT),
	NAME(CUPTI_ERROR_NOT_READY),
	NAME(CUPTI_ERROR_NOT_COMPATIBLE),
	NAME(CUPTI_ERROR_NOT_INITIALIZED),
	NAME(CUPTI_ERROR_INVALID_METRIC_NAME),
	NAME(CUPTI_ERROR_HARDWARE_BUSY),
	NAME(CUPTI_ERROR_NOT_SUPPORTED),
	NAME(CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED),
	NAME(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES),
	NAME(CUPTI_ERROR_OLD_PROFILER_API_INITIALIZED),
	NAME(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED),
	NAME(CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES),
	NAME(CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED),
	NAME(CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED),
	NAME(CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED),
	NAME(CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED),
	NAME(CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED),
	NAME(CUPTI_ERROR_INVALID_CHIP_NAME),
};

CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
	*text = NULL;
	if (result == CUPTI_ERROR_UNKNOWN) {
		*text = "CUPTI_ERROR_UNKNOWN";
	} else if ((size_t)result < sizeof(names) / sizeof(names[0])) {
		*text = names[result];
	}
	return *text ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiDeviceGetChipName(CUpti_Device_GetChipName_Params *params)
{
	const struct fake_hooks *driver = call_driver();
	CUptiResult r = call_begin("cuptiDeviceGetChipName");

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (!driver) {
		return CUPTI_ERROR_NOT_INITIALIZED;
	}
	if (!call_has_size(params, CUpti_Device_GetChipName_Params_STRUCT_SIZE) ||
	    driver->device_gpu((int)params->deviceIndex) < 0) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	params->pChipName = "GH100";
	return CUPTI_SUCCESS;
}

__attribute__((visibility("default"))) CUptiResult
cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t per_thread, uint32_t *id);
CUptiResult cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t per_thread, uint32_t *id)
{
	const struct fake_hooks *driver = call_driver();
	CUptiResult r = call_begin("cuptiGetStreamIdEx");

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	return driver && driver->stream_find(context, stream, per_thread, id)
		       ? CUPTI_SUCCESS
		       : CUPTI_ERROR_INVALID_CONTEXT;
}
