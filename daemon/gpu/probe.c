/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/gpu/gpu.h"

#include <stdio.h>

#include "proto/base/clean.h"
#include "proto/nvidia/vendor.h"

enum { PROBE_REFUSED = 3 };
#define PROBE_SAYS "probe: "

#define PROBE_DRIVER_FUNCTIONS(X)   \
	X(cuDevicePrimaryCtxRetain) \
	X(cuCtxSetCurrent)

#define PROBE_CUPTI_FUNCTIONS(X)    \
	X(cuptiRangeProfilerEnable) \
	X(cuptiRangeProfilerDisable)

#define SYMBOL(f) VENDOR_SYMBOL(probe, f)

struct probe {
	struct vendor_driver driver;
	struct vendor_host host;
	PROBE_DRIVER_FUNCTIONS(VENDOR_MEMBER)
	PROBE_CUPTI_FUNCTIONS(VENDOR_MEMBER)
};

static bool open_libraries(struct probe *p)
{
	static const struct vendor_symbol driver[] = { PROBE_DRIVER_FUNCTIONS(SYMBOL) };
	static const struct vendor_symbol cupti[] = { PROBE_CUPTI_FUNCTIONS(SYMBOL) };
	const char *missing;
	struct refusal r;

	if (vendor_open_driver(&p->driver, &r) != 0 || vendor_open_host(&p->host, &r) != 0) {
		printf(PROBE_SAYS "%s\n", r.message);
		return false;
	}
	missing = vendor_resolve(p->driver.handle, driver, ARRAY_SIZE(driver), p);
	missing = missing ? missing : vendor_resolve(p->host.handle, cupti, ARRAY_SIZE(cupti), p);
	if (missing) {
		printf(PROBE_SAYS "NVIDIA's libraries have no %s\n", missing);
	}
	return !missing;
}

static bool make_context(const struct probe *p, CUcontext *ret)
{
	CUdevice device;
	CUresult r = p->driver.cuInit(0);

	r = r ? r : p->driver.cuDeviceGet(&device, 0);
	r = r ? r : p->cuDevicePrimaryCtxRetain(ret, device);
	r = r ? r : p->cuCtxSetCurrent(*ret);
	if (r) {
		printf(PROBE_SAYS "no context on GPU 0: CUDA error %d\n", (int)r);
	}
	return r == CUDA_SUCCESS;
}

/* Enabling the profiler makes CUPTI ask the driver for the counters. */
static CUptiResult enable_profiler(const struct probe *p, CUcontext context)
{
	VENDOR_PARAMS(RangeProfiler_Enable, enable, .ctx = context);
	VENDOR_PARAMS(RangeProfiler_Disable, disable);
	CUptiResult result = p->cuptiRangeProfilerEnable(&enable);

	if (result == CUPTI_SUCCESS) {
		disable.pRangeProfilerObject = enable.pRangeProfilerObject;
		p->cuptiRangeProfilerDisable(&disable);
	}
	return result;
}

static bool ask(const struct probe *p, CUcontext context)
{
	VENDOR_PARAMS(Profiler_Initialize, initialize);
	VENDOR_PARAMS(Profiler_DeInitialize, end);
	CUptiResult result = p->host.cuptiProfilerInitialize(&initialize);
	const char *name = "";

	if (result == CUPTI_SUCCESS) {
		result = enable_profiler(p, context);
		p->host.cuptiProfilerDeInitialize(&end);
	}
	if (result != CUPTI_SUCCESS) {
		p->host.cuptiGetResultString(result, &name);
		printf(PROBE_SAYS "CUPTI refuses: %s (%d)\n", name, (int)result);
	}
	return result == CUPTI_SUCCESS;
}

int probe_run(void)
{
	static struct probe p;
	CUcontext context;

	return open_libraries(&p) && make_context(&p, &context) && ask(&p, context) ? 0
										    : PROBE_REFUSED;
}
