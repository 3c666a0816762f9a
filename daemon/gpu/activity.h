/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What NVML tells of whole GPUs between two of its samples: SMs, tensor cores, memory, PCIe and
 * NVLink (GPM; Hopper and newer). It reads no counter that a lease or another profiler uses. */

#include "daemon/gpu/device.h"

/* Zero-initialised by the caller, of a list of devices that stays. */
struct activity {
	struct activity_gpu {
		void *device, *before, *now; /* of NVML: a handle, and two samples */
		uint64_t at_ns;		     /* of the sample before; 0: there is none */
		struct gpuctr_activity value;
		char why[96]; /* it is not known; "": it is */
	} gpus[LIMIT_GPUS];
};

/* Samples each GPU, unless the sample before is younger than a second. */
void activity_take(struct activity *a, const struct device_list *l, uint64_t now_ns);
