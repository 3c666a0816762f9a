/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The functions that the agent calls of libcuda, and of libcupti apart from its host API (host.h).
 */

#include "proto/nvidia/host.h"

#include <cupti_activity.h>

#define PROFILER_FUNCTIONS(X)                   \
	X(cuptiSubscribe)                       \
	X(cuptiUnsubscribe)                     \
	X(cuptiEnableDomain)                    \
	X(cuptiEnableCallback)                  \
	X(cuptiGetCallbackName)                 \
	X(cuptiGetStreamIdEx)                   \
	X(cuptiActivitySetAttribute)            \
	X(cuptiActivityRegisterCallbacks)       \
	X(cuptiActivityEnable)                  \
	X(cuptiActivityDisable)                 \
	X(cuptiActivityFlushAll)                \
	X(cuptiActivityGetNextRecord)           \
	X(cuptiActivityGetNumDroppedRecords)    \
	X(cuptiRangeProfilerEnable)             \
	X(cuptiRangeProfilerDisable)            \
	X(cuptiRangeProfilerSetConfig)          \
	X(cuptiRangeProfilerStart)              \
	X(cuptiRangeProfilerStop)               \
	X(cuptiRangeProfilerPushRange)          \
	X(cuptiRangeProfilerPopRange)           \
	X(cuptiRangeProfilerDecodeData)         \
	X(cuptiRangeProfilerGetCounterDataSize) \
	X(cuptiRangeProfilerCounterDataImageInitialize)

#define PROFILER_DRIVER_FUNCTIONS(X) \
	X(cuCtxGetDevice)            \
	X(cuCtxPushCurrent)          \
	X(cuCtxPopCurrent)           \
	X(cuCtxRecordEvent)          \
	X(cuDeviceGetName)           \
	X(cuDeviceGetUuid)           \
	X(cuDeviceGetAttribute)      \
	X(cuDriverGetVersion)        \
	X(cuEventCreate)             \
	X(cuEventDestroy)            \
	X(cuEventQuery)              \
	X(cuEventRecord)             \
	X(cuFuncGetAttribute)        \
	X(cuFuncLoad)                \
	X(cuKernelGetFunction)       \
	X(cuStreamQuery)

struct profiler {
	struct vendor_host host;
	PROFILER_FUNCTIONS(VENDOR_MEMBER)
	PROFILER_DRIVER_FUNCTIONS(VENDOR_MEMBER)
	/* cuStreamGetCaptureInfo as in CUDA 10.1. In later headers the name stands for functions
	 * with more parameters, but the symbol keeps the old ones. */
	CUresult (*stream_capture_info)(CUstream stream, CUstreamCaptureStatus *status,
					cuuint64_t *id);
};

/* Has the program's cuInit() returned? May wait until it has. */
bool profiler_driver_is_ready(void);

/* Finds libcuda in this process, and finds or opens libcupti. 0, or a code with r filled. */
int profiler_open(struct profiler *p, struct refusal *r);
