/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* NVIDIA's libraries, opened at run time and never linked. A member is NULL only where its comment
 * says so. The structs are filled once, and the libraries are never unloaded, because unloading
 * breaks them. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>
#include <cupti_callbacks.h>
#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#include <cupti_version.h>

#include "proto/wire/status.h"

/* Declares the parameters of a CUPTI call, with their size; members may follow. */
#define VENDOR_PARAMS(call, name, ...)                                                  \
	CUpti_##call##_Params name = { .structSize = CUpti_##call##_Params_STRUCT_SIZE, \
				       __VA_ARGS__ }

#define VENDOR_HOST_FUNCTIONS(X)                \
	X(cuptiGetVersion)                      \
	X(cuptiGetResultString)                 \
	X(cuptiProfilerInitialize)              \
	X(cuptiProfilerDeInitialize)            \
	X(cuptiDeviceGetChipName)               \
	X(cuptiProfilerHostInitialize)          \
	X(cuptiProfilerHostDeinitialize)        \
	X(cuptiProfilerHostGetSupportedChips)   \
	X(cuptiProfilerHostGetBaseMetrics)      \
	X(cuptiProfilerHostGetSubMetrics)       \
	X(cuptiProfilerHostGetMetricProperties) \
	X(cuptiProfilerHostConfigAddMetrics)    \
	X(cuptiProfilerHostGetConfigImageSize)  \
	X(cuptiProfilerHostGetConfigImage)      \
	X(cuptiProfilerHostGetNumOfPasses)      \
	X(cuptiProfilerHostGetRangeName)        \
	X(cuptiProfilerHostEvaluateToGpuValues) \
	X(cuptiRangeProfilerGetCounterDataInfo)

#define VENDOR_DRIVER_FUNCTIONS(X) \
	X(cuInit)                  \
	X(cuDeviceGetCount)        \
	X(cuDeviceGet)             \
	X(cuDeviceGetName)         \
	X(cuDeviceGetUuid)

#define VENDOR_SAMPLING_FUNCTIONS(X)                 \
	X(cuptiPmSamplingEnable)                     \
	X(cuptiPmSamplingDisable)                    \
	X(cuptiPmSamplingSetConfig)                  \
	X(cuptiPmSamplingStart)                      \
	X(cuptiPmSamplingStop)                       \
	X(cuptiPmSamplingDecodeData)                 \
	X(cuptiPmSamplingGetCounterDataSize)         \
	X(cuptiPmSamplingCounterDataImageInitialize) \
	X(cuptiPmSamplingGetCounterDataInfo)         \
	X(cuptiPmSamplingCounterDataGetSampleInfo)

#define VENDOR_MEMBER(name) __typeof__(&name) name;

struct vendor_host {
	void *handle;	  /* from dlopen() */
	uint32_t version; /* cuptiGetVersion(): CUPTI_API_VERSION of the library */
	VENDOR_HOST_FUNCTIONS(VENDOR_MEMBER)
};

struct vendor_driver {
	void *handle;
	VENDOR_DRIVER_FUNCTIONS(VENDOR_MEMBER)
};

struct vendor_sampling {
	VENDOR_SAMPLING_FUNCTIONS(VENDOR_MEMBER)
};

/* nvmlProcessInfo_t, in the version of nvmlDeviceGetComputeRunningProcesses_v3. */
struct vendor_nvml_process {
	unsigned pid;
	unsigned long long used_bytes;
	unsigned gpu_instance, compute_instance;
};

/* nvmlConfComputeSystemState_t. */
struct vendor_nvml_confidential {
	unsigned environment, feature, devtools; /* feature 1: confidential computing is on */
};

/* nvmlGpuVirtualizationMode_t: from this value on the machine lends the GPU to virtual machines. */
enum { VENDOR_NVML_HOSTS_VIRTUAL_GPUS = 3 };

/* nvmlGpmSupport_t. */
struct vendor_nvml_gpm_support {
	unsigned version; /* 1 */
	unsigned supported;
};

/* nvmlGpmMetricsGet_t; NVML reads and writes only n of its metrics. */
enum { VENDOR_NVML_GPM_METRICS = 7 };
struct vendor_nvml_gpm_metrics {
	unsigned version; /* 1 */
	unsigned n;
	void *before, *now; /* nvmlGpmSample_t of each time */
	struct {
		unsigned id;
		int result;
		double value;
		const char *names[3];
	} metrics[VENDOR_NVML_GPM_METRICS];
};

/* The few NVML calls used, declared here because NVML's header is not part of the toolkit. Any may
 * be NULL. */
struct vendor_nvml {
	int (*init)(void);
	int (*driver_version)(char *version, unsigned length);
	int (*device_by_uuid)(const char *uuid, void **device);
	int (*compute_processes)(void *device, unsigned *count,
				 struct vendor_nvml_process *processes);
	int (*confidential)(struct vendor_nvml_confidential *state);
	int (*virtualization)(void *device, int *mode);
	const char *(*error_string)(int result);
	int (*gpm_support)(void *device, struct vendor_nvml_gpm_support *ret);
	int (*gpm_alloc)(void **sample);
	int (*gpm_sample)(void *device, void *sample);
	int (*gpm_metrics)(struct vendor_nvml_gpm_metrics *metrics);
};

/* Rows for vendor_resolve(). The macro expands the name first, because cuda.h maps names to their
 * versions. */
#define VENDOR_STRING(name) #name
#define VENDOR_EXPANDED(name) VENDOR_STRING(name)
#define VENDOR_SYMBOL(type, name) { VENDOR_EXPANDED(name), offsetof(struct type, name) },

struct vendor_symbol {
	const char *name;
	size_t offset;
};

/* Resolves symbols into table; returns the first name that is missing, or NULL. */
const char *vendor_resolve(void *library, const struct vendor_symbol *symbols, size_t n,
			   void *table);

/* Finds libcupti: one already in this process, then the loader's path, then the toolkit's usual
 * places. 0, or a positive code with r filled. */
int vendor_open_host(struct vendor_host *v, struct refusal *r);
int vendor_open_driver(struct vendor_driver *v, struct refusal *r);
/* Finds the functions of PM sampling in host's libcupti. */
int vendor_open_sampling(const struct vendor_host *host, struct vendor_sampling *v,
			 struct refusal *r);
void vendor_open_nvml(struct vendor_nvml *v);

/* The name of a device's chip, "GH100"; "" when CUPTI does not know it. Call this only after
 * cuInit(). CUPTI 2025.3 crashes in cuptiDeviceGetChipName() if cuptiProfilerInitialize() has not
 * succeeded before. That call installs hooks in the driver, which serialize launches of several
 * threads: 228,000 a second of eight threads, and 924,000 without hooks (H200). Profiler objects do
 * not need the hooks, so this removes them at once, which takes 9 us and waits for nothing. */
void vendor_chip_name(const struct vendor_host *v, size_t device, char *chip, size_t size);

/* Formats the version for people, like "13.0.85", with the toolkit's major.minor. */
void vendor_version_format(uint32_t cupti_version, char *text, size_t size);
