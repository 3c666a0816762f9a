/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The CUDA driver API and known kernels, for the programs of this folder. libcuda is opened at run
 * time, so the programs build without a driver. What fails ends the program with a message. */

#include "proto/nvidia/vendor.h"

#define DRIVER_FUNCTIONS(X)         \
	X(cuInit)                   \
	X(cuDeviceGet)              \
	X(cuDevicePrimaryCtxRetain) \
	X(cuDevicePrimaryCtxReset)  \
	X(cuCtxSetCurrent)          \
	X(cuCtxSynchronize)         \
	X(cuModuleLoadData)         \
	X(cuModuleGetFunction)      \
	X(cuMemAlloc)               \
	X(cuLaunchKernel)

struct driver {
	DRIVER_FUNCTIONS(VENDOR_MEMBER)
	CUdevice device;
	CUcontext context;
	CUmodule module;
	uint64_t context_ns; /* Unix time of the context's making */
};

/* Opens libcuda, initialises it, and makes the device's primary context current. */
void driver_begin(struct driver *d, unsigned device);

/* "tiny" does nothing. "copy16": each thread moves 16 bytes. "fma256": each thread does 256
 * dependent fused multiply-adds. Arguments: address to, address from. */
CUfunction driver_function(struct driver *d, const char *name);

void check(const char *what, int code);
