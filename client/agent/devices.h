/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The GPUs that a captured process uses. */

#include <stdint.h>

#include "client/agent/lock.h"
#include "proto/nvidia/host.h"

struct capture;

/* One of them, for one capture. */
struct device_info {
	struct lock lock; /* of host */
	uint32_t index;
	char uuid[48], name[64], chip[32];
	uint32_t clock_sm_mhz, clock_mem_mhz;
	struct host host; /* for config images; evaluation, on the delivering thread, has its own */
	struct host evaluator;
	struct refusal trouble; /* code 0: usable */
};

/* Finds or makes the device of the calling thread's context; NULL: out of room. Announces a new
 * device, and reports why it cannot be measured. */
struct device_info *devices_find(struct capture *c);

void devices_free(struct capture *c);
