/* SPDX-License-Identifier: Apache-2.0 */
/* generated_cuda_meta.h declares the calls' arguments only with this macro. */
#define __CUDA_API_VERSION_INTERNAL

#include "client/agent/arguments.h"

#include <cupti_driver_cbid.h>
#include <generated_cuda_meta.h>
#include <string.h>

#include "proto/wire/wire.h"

#define DIMENSIONS(p)                                    \
	{ (p)->gridDimX, (p)->gridDimY, (p)->gridDimZ }, \
		{ (p)->blockDimX, (p)->blockDimY, (p)->blockDimZ }, (p)->sharedMemBytes

static uint8_t kind_of(const CUlaunchConfig *c)
{
	for (unsigned i = 0; c->attrs && i < c->numAttrs; i++) {
		if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE &&
		    c->attrs[i].value.cooperative) {
			return GPUCTR_LAUNCH_COOPERATIVE;
		}
	}
	return GPUCTR_LAUNCH_KERNEL;
}

bool arguments_read(CUpti_CallbackId id, const void *params, struct arguments *ret)
{
	bool per_thread = false;

	switch (id) {
	case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz:
		per_thread = true;
		/* fall through */
	case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel: {
		const cuLaunchKernel_params *p = params;

		*ret = (struct arguments){ p->f,       NULL,	   DIMENSIONS(p),
					   p->hStream, per_thread, GPUCTR_LAUNCH_KERNEL };
		return true;
	}
	case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz:
		per_thread = true;
		/* fall through */
	case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx: {
		const cuLaunchKernelEx_params *p = params;

		if (!p->config) {
			return false;
		}
		*ret = (struct arguments){
			p->f,
			NULL,
			DIMENSIONS(p->config),
			p->config->hStream,
			per_thread,
			kind_of(p->config),
		};
		return true;
	}
	case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz:
		per_thread = true;
		/* fall through */
	case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel: {
		const cuLaunchCooperativeKernel_params *p = params;

		*ret = (struct arguments){ p->f,       NULL,	   DIMENSIONS(p),
					   p->hStream, per_thread, GPUCTR_LAUNCH_COOPERATIVE };
		return true;
	}
	case CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz:
		per_thread = true;
		/* fall through */
	case CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch: {
		const cuGraphLaunch_params *p = params;

		*ret = (struct arguments){ .graph = p->hGraph,
					   .stream = p->hStream,
					   .per_thread_stream = per_thread,
					   .kind = GPUCTR_LAUNCH_GRAPH };
		return true;
	}
	default:
		return false;
	}
}

#define STREAM_OF(call)                                                                 \
	{                                                                               \
		CUPTI_DRIVER_TRACE_CBID_##call, offsetof(call##_params, hStream), false \
	}
#define STREAMS_OF(call)                                                                           \
	STREAM_OF(call),                                                                           \
	{                                                                                          \
		CUPTI_DRIVER_TRACE_CBID_##call##_ptsz, offsetof(call##_ptsz_params, hStream), true \
	}

static const struct {
	CUpti_CallbackId id;
	size_t offset; /* offset of the stream in the call's arguments */
	bool per_thread;
} calls[] = {
	STREAMS_OF(cuMemcpyAsync),	     STREAMS_OF(cuMemcpyHtoDAsync_v2),
	STREAMS_OF(cuMemcpyDtoHAsync_v2),    STREAMS_OF(cuMemcpyDtoDAsync_v2),
	STREAMS_OF(cuMemsetD8Async),	     STREAMS_OF(cuMemsetD16Async),
	STREAMS_OF(cuMemsetD32Async),	     STREAMS_OF(cuStreamBeginCapture),
	STREAMS_OF(cuStreamBeginCapture_v2), STREAMS_OF(cuStreamBeginCaptureToGraph),
	STREAM_OF(cuStreamDestroy),	     STREAM_OF(cuStreamDestroy_v2),
	STREAMS_OF(cuStreamEndCapture),	     STREAMS_OF(cuStreamWaitEvent),
	STREAMS_OF(cuGraphUpload),	     STREAMS_OF(cuMemPrefetchAsync),
	STREAMS_OF(cuMemPrefetchAsync_v2),   STREAMS_OF(cuMemMapArrayAsync),
	STREAM_OF(cuLaunchGridAsync),
};

bool arguments_read_stream(CUpti_CallbackId id, const void *params, CUstream *ret,
			   bool *ret_per_thread)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (calls[i].id == id) {
			memcpy(ret, (const char *)params + calls[i].offset, sizeof(CUstream));
			*ret_per_thread = calls[i].per_thread;
			return true;
		}
	}
	return false;
}

unsigned arguments_count(CUpti_CallbackId id, const void *params)
{
	const cuLaunchCooperativeKernelMultiDevice_params *p = params;

	return id == CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernelMultiDevice ? p->numDevices
										  : 1;
}
