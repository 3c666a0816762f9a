/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/nvidia/vendor.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/clean.h"

/* A program may bring its own libcupti (PyTorch does). A second copy would conflict with it over
 * the driver's hooks, so a loaded copy is always used. */

#define SYMBOL_HOST(f) VENDOR_SYMBOL(vendor_host, f)
#define SYMBOL_DRIVER(f) VENDOR_SYMBOL(vendor_driver, f)
#define SYMBOL_SAMPLING(f) VENDOR_SYMBOL(vendor_sampling, f)

static const char *const cupti_names[] = { "libcupti.so.13", "libcupti.so.12", "libcupti.so" };

static const char *const cupti_folders[] = {
	"/usr/local/cuda/lib64",
	"/usr/local/cuda/extras/CUPTI/lib64",
	"/usr/local/cuda/targets/x86_64-linux/lib",
	"/usr/lib/x86_64-linux-gnu",
	"/opt/cuda/lib64",
	"/opt/cuda/extras/CUPTI/lib64",
};

const char *vendor_resolve(void *library, const struct vendor_symbol *symbols, size_t n,
			   void *table)
{
	for (size_t i = 0; i < n; i++) {
		void *f = dlsym(library, symbols[i].name);

		if (!f) {
			return symbols[i].name;
		}
		memcpy((char *)table + symbols[i].offset, &f, sizeof(f));
	}
	return NULL;
}

static void *open_in_folders(void)
{
	const char *home = secure_getenv("CUDA_HOME");
	char path[512];

	for (size_t i = 0; i < ARRAY_SIZE(cupti_names); i++) {
		void *library = NULL;

		if (home) {
			snprintf(path, sizeof(path), "%s/lib64/%s", home, cupti_names[i]);
			library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		}
		for (size_t k = 0; !library && k < ARRAY_SIZE(cupti_folders); k++) {
			snprintf(path, sizeof(path), "%s/%s", cupti_folders[k], cupti_names[i]);
			library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		}
		if (library) {
			return library;
		}
	}
	return NULL;
}

static void *open_cupti(void)
{
	static const int modes[] = { RTLD_NOLOAD, 0 };

	for (size_t m = 0; m < ARRAY_SIZE(modes); m++) {
		for (size_t i = 0; i < ARRAY_SIZE(cupti_names); i++) {
			void *library = dlopen(cupti_names[i], RTLD_NOW | RTLD_LOCAL | modes[m]);

			if (library) {
				return library;
			}
		}
	}
	return open_in_folders();
}

/* libcupti opens its companions by their bare names, which the loader finds only where the
 * toolkit's folder is configured. This opens them first, from the folder of libcupti; libcupti then
 * finds them loaded. */
static void open_companions(void *cupti)
{
	static const char *const names[] = { "libnvperf_host.so", "libnvperf_target.so" };
	struct link_map *map = NULL;
	const char *slash;
	char path[512];

	if (dlinfo(cupti, RTLD_DI_LINKMAP, &map) != 0 || !map ||
	    !(slash = strrchr(map->l_name, '/'))) {
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - map->l_name), map->l_name,
			 names[i]);
		if (!dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) {
			dlopen(path, RTLD_NOW | RTLD_LOCAL);
		}
	}
}

static bool may_open_files(void)
{
	int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0) {
		close(fd);
	}
	return fd >= 0 || errno != EMFILE;
}

static bool knows_chips(const struct vendor_host *v)
{
	VENDOR_PARAMS(Profiler_Host_GetSupportedChips, p);

	return v->cuptiProfilerHostGetSupportedChips(&p) == CUPTI_SUCCESS && p.numChips > 0;
}

int vendor_open_host(struct vendor_host *v, struct refusal *r)
{
	static const struct vendor_symbol symbols[] = { VENDOR_HOST_FUNCTIONS(SYMBOL_HOST) };
	const char *missing;

	v->handle = open_cupti();
	if (!v->handle && !may_open_files()) {
		refusal_set(r, GPUCTR_E_NO_CUPTI, "Let it have more open files (ulimit -n).",
			    "libcupti.so cannot be opened: the process has as many files open as "
			    "it may");
		return r->code;
	}
	if (!v->handle) {
		refusal_set(r, GPUCTR_E_NO_CUPTI,
			    "Install the CUDA toolkit's CUPTI (12.6 or newer), or put its folder "
			    "into LD_LIBRARY_PATH.",
			    "libcupti.so was not found");
		return r->code;
	}
	missing = vendor_resolve(v->handle, symbols, ARRAY_SIZE(symbols), v);
	if (missing) {
		refusal_set(r, GPUCTR_E_CUPTI_TOO_OLD, "Use CUPTI of CUDA 12.6 or newer.",
			    "the libcupti that was found has no %s", missing);
		return r->code;
	}
	open_companions(v->handle);
	if (!knows_chips(v)) {
		refusal_set(r, GPUCTR_E_NO_CUPTI,
			    "Put libnvperf_host.so of the same toolkit beside libcupti.so.",
			    "libcupti was found, but it knows no chip: its libnvperf_host.so is "
			    "missing");
		return r->code;
	}
	if (v->cuptiGetVersion(&v->version) != CUPTI_SUCCESS) {
		v->version = 0;
	}
	return 0;
}

int vendor_open_driver(struct vendor_driver *v, struct refusal *r)
{
	static const struct vendor_symbol symbols[] = { VENDOR_DRIVER_FUNCTIONS(SYMBOL_DRIVER) };
	const char *missing;

	v->handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!v->handle) {
		refusal_set(r, GPUCTR_E_NO_DRIVER,
			    "Install NVIDIA's driver; recordings can be played without it.",
			    "libcuda.so.1 was not found: this machine has no NVIDIA driver");
		return r->code;
	}
	missing = vendor_resolve(v->handle, symbols, ARRAY_SIZE(symbols), v);
	if (missing) {
		refusal_set(r, GPUCTR_E_DRIVER_TOO_OLD,
			    "Update NVIDIA's driver to 565.57 or newer.", "libcuda.so.1 has no %s",
			    missing);
		return r->code;
	}
	return 0;
}

int vendor_open_sampling(const struct vendor_host *host, struct vendor_sampling *v,
			 struct refusal *r)
{
	static const struct vendor_symbol symbols[] = { VENDOR_SAMPLING_FUNCTIONS(
		SYMBOL_SAMPLING) };
	const char *missing = vendor_resolve(host->handle, symbols, ARRAY_SIZE(symbols), v);

	if (missing) {
		refusal_set(r, GPUCTR_E_CUPTI_TOO_OLD, "Use CUPTI of CUDA 12.6 or newer.",
			    "the libcupti that was found has no %s", missing);
		return r->code;
	}
	return 0;
}

void vendor_open_nvml(struct vendor_nvml *v)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	*v = (struct vendor_nvml){ 0 };
	if (!library) {
		return;
	}
	*(void **)&v->init = dlsym(library, "nvmlInit_v2");
	*(void **)&v->driver_version = dlsym(library, "nvmlSystemGetDriverVersion");
	*(void **)&v->device_by_uuid = dlsym(library, "nvmlDeviceGetHandleByUUID");
	*(void **)&v->compute_processes = dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3");
	*(void **)&v->confidential = dlsym(library, "nvmlSystemGetConfComputeState");
	*(void **)&v->virtualization = dlsym(library, "nvmlDeviceGetVirtualizationMode");
	*(void **)&v->error_string = dlsym(library, "nvmlErrorString");
	*(void **)&v->gpm_support = dlsym(library, "nvmlGpmQueryDeviceSupport");
	*(void **)&v->gpm_alloc = dlsym(library, "nvmlGpmSampleAlloc");
	*(void **)&v->gpm_sample = dlsym(library, "nvmlGpmSampleGet");
	*(void **)&v->gpm_metrics = dlsym(library, "nvmlGpmMetricsGet");
	if (!v->init || v->init() != 0) {
		*v = (struct vendor_nvml){ 0 };
	}
}

void vendor_chip_name(const struct vendor_host *v, size_t device, char *chip, size_t size)
{
	VENDOR_PARAMS(Profiler_Initialize, init);
	VENDOR_PARAMS(Device_GetChipName, p, .deviceIndex = device);
	VENDOR_PARAMS(Profiler_DeInitialize, deinit);
	bool initialised = v->cuptiProfilerInitialize(&init) == CUPTI_SUCCESS;
	bool known = initialised && v->cuptiDeviceGetChipName(&p) == CUPTI_SUCCESS && p.pChipName;

	snprintf(chip, size, "%s", known ? p.pChipName : "");
	if (initialised) {
		v->cuptiProfilerDeInitialize(&deinit);
	}
}

void vendor_version_format(uint32_t cupti_version, char *text, size_t size)
{
	/* Since CUDA 12 the number is major * 10000 + minor * 100 + patch (130001: 13.0 update 1);
	 * before that it was a running number below 30. */
	if (cupti_version >= 10000) {
		snprintf(text, size, "%u.%u.%u", cupti_version / 10000, cupti_version / 100 % 100,
			 cupti_version % 100);
	} else {
		snprintf(text, size, "API %u", cupti_version);
	}
}
