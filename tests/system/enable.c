/* SPDX-License-Identifier: Apache-2.0 */
/* A program that asks for the counters itself, as a profiler would: prints what CUPTI answers. */

#include <stdio.h>

#include <cuda.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>

int main(void)
{
	CUpti_Profiler_Initialize_Params init = { CUpti_Profiler_Initialize_Params_STRUCT_SIZE };
	CUpti_Profiler_DeInitialize_Params deinit = {
		CUpti_Profiler_DeInitialize_Params_STRUCT_SIZE
	};
	CUpti_RangeProfiler_Enable_Params enable = {
		CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE
	};
	CUpti_RangeProfiler_Disable_Params disable = {
		CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE
	};
	CUptiResult result;
	CUdevice device;

	if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
	    cuDevicePrimaryCtxRetain(&enable.ctx, device) != CUDA_SUCCESS ||
	    cuCtxSetCurrent(enable.ctx) != CUDA_SUCCESS ||
	    cuptiProfilerInitialize(&init) != CUPTI_SUCCESS) {
		return 1;
	}
	result = cuptiRangeProfilerEnable(&enable);
	printf("enable %d\n", (int)result);
	if (result == CUPTI_SUCCESS) {
		disable.pRangeProfilerObject = enable.pRangeProfilerObject;
		cuptiRangeProfilerDisable(&disable);
	}
	cuptiProfilerDeInitialize(&deinit);
	return 0;
}
