/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/profiler.h"

#include <dlfcn.h>

#include "proto/base/clean.h"

#define SYMBOL(f) VENDOR_SYMBOL(profiler, f)

bool profiler_driver_is_ready(void)
{
	void *libcuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	CUresult (*get_device)(CUdevice *) = NULL;
	CUdevice device;
	bool ready = true; /* if libcuda is not loaded, opening it fails and reports that */

	if (libcuda) {
		*(void **)&get_device = dlsym(libcuda, "cuCtxGetDevice");
		ready = !get_device || get_device(&device) != CUDA_ERROR_NOT_INITIALIZED;
		dlclose(libcuda);
	}
	return ready;
}

int profiler_open(struct profiler *p, struct refusal *r)
{
	static const struct vendor_symbol device[] = { PROFILER_FUNCTIONS(SYMBOL) };
	static const struct vendor_symbol driver[] = {
		PROFILER_DRIVER_FUNCTIONS(SYMBOL){ "cuStreamGetCaptureInfo",
						   offsetof(struct profiler, stream_capture_info) },
	};
	void *libcuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	const char *missing;

	if (!libcuda) {
		refusal_set(r, GPUCTR_E_NO_DRIVER, "", "libcuda.so.1 is not loaded in the program");
		return r->code;
	}
	if (vendor_open_host(&p->host, r) != 0) {
		return r->code;
	}
	missing = vendor_resolve(libcuda, driver, ARRAY_SIZE(driver), p);
	if (missing) {
		refusal_set(r, GPUCTR_E_DRIVER_TOO_OLD,
			    "Update NVIDIA's driver to 565.57 or newer.",
			    "the program's libcuda has no %s", missing);
		return r->code;
	}
	missing = vendor_resolve(p->host.handle, device, ARRAY_SIZE(device), p);
	if (missing) {
		refusal_set(r, GPUCTR_E_CUPTI_TOO_OLD,
			    "Use CUPTI of CUDA 12.6 or newer in the program.",
			    "the program's libcupti has no %s", missing);
		return r->code;
	}
	return 0;
}
