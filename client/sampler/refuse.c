/* SPDX-License-Identifier: Apache-2.0 */
#include "client/sampler/refuse.h"

#include <string.h>

#include "client/sampler/stream.h"

static int refuse_privileges(struct refusal *r)
{
	refusal_set(r, SAMPLER_NOT_ALLOWED,
		    "Run it under a permit: gpuctr-client permit -- gpuctr-sampler ...",
		    "the driver gives this process no counters of the whole GPU "
		    "(ERR_NVGPUCTRPERM)");
	return r->code;
}

static int refuse_buffer(uint64_t buffer_bytes, const char *call, struct refusal *r)
{
	refusal_set(r, SAMPLER_NO_MEMORY, "Ask for less with --buffer, and at longer intervals.",
		    "%s: there is no memory for a buffer of %llu MiB", call,
		    (unsigned long long)(buffer_bytes >> 20));
	return r->code;
}

int refuse_interval(const char *call, struct refusal *r)
{
	refusal_set(r, SAMPLER_NO_MEMORY,
		    "Take a longer --interval, fewer metrics, or a larger --buffer; metrics of the "
		    "SMs fill it faster.",
		    "%s: the hardware's buffer is too small for this interval", call);
	return r->code;
}

int refuse_output(const char *why, struct refusal *r)
{
	refusal_set(r, SAMPLER_FAILED,
		    "What was written has no end: sample again, to where there is room, or to a "
		    "pipe that is read.",
		    "samples cannot be written: %s", why);
	return r->code;
}

int refuse_mig(const char *gpu, const char *says, struct refusal *r)
{
	refusal_set(r, SAMPLER_NO_CHIP,
		    "Measure kernels instead (--mode range), or have an administrator switch MIG "
		    "off (nvidia-smi -mig 0).",
		    "%s is divided by MIG, and samples are of a whole GPU, with the work of its "
		    "other users%s%s",
		    gpu, *says ? ": CUPTI says " : "", says);
	return r->code;
}

static int refuse_virtual(const char *gpu, const char *says, struct refusal *r)
{
	refusal_set(r, SAMPLER_NO_CHIP,
		    "Have profiling of this vGPU allowed on its host (the vGPU's parameter "
		    "enable_profiling), or measure on a GPU of the machine's own.",
		    "this GPU (%s) is a virtual one (vGPU), whose host allows no profiling: CUPTI "
		    "says %s",
		    gpu, says);
	return r->code;
}

int refuse_call(const struct host *h, const struct vendor_host *v, CUptiResult result,
		const char *call, uint64_t buffer_bytes, struct refusal *r)
{
	switch (result) {
	case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
		return refuse_privileges(r);
	case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
	case CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED:
		return refuse_virtual(h->chip, host_result_name(v, result), r);
	case CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED:
		return refuse_mig("this GPU", host_result_name(v, result), r);
	case CUPTI_ERROR_HARDWARE_BUSY:
		refusal_set(r, SAMPLER_BUSY,
			    "End it: ncu, nsys, DCGM or another sampler has them; `gpuctr-client "
			    "status` shows leases.",
			    "another profiler has the GPU's counters (%s)", call);
		return r->code;
	case CUPTI_ERROR_OUT_OF_MEMORY:
		return refuse_buffer(buffer_bytes, call, r);
	case CUPTI_ERROR_NOT_SUPPORTED:
	case CUPTI_ERROR_INVALID_DEVICE:
	case CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED:
	case CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED:
	case CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED:
	case CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED:
		refusal_set(r, SAMPLER_NO_CHIP, "Measure kernels instead: gpuctr-client run.",
			    "this GPU (%s) cannot be sampled: %s says %s", h->chip, call,
			    host_result_name(v, result));
		return r->code;
	default:
		refusal_set(r, SAMPLER_FAILED, "", "%s failed (%s, %d)", call,
			    host_result_name(v, result), result);
		return r->code;
	}
}
