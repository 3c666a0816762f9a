/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The load of whole GPUs between two NVML samples: SMs, tensor cores, memory, PCIe and NVLink (GPM;
 * Hopper and newer). NVML reads no counter that a lease or another profiler uses. */

#include "daemon/gpu/device.h"

/* Zero-initialised by the caller. Indices are those of the device list, which must not change. */
struct activity {
	struct activity_gpu {
		void *device, *before, *now; /* NVML's handle and two samples */
		uint64_t at_ns;		     /* time of the sample before; 0: there is none */
		struct gpuctr_activity value;
		char why[96]; /* reason why value is unknown; "": value is known */
	} gpus[LIMIT_GPUS];
};

/* Samples each GPU, unless its last sample is younger than a second. */
void activity_take(struct activity *a, const struct device_list *l, uint64_t now_ns);
