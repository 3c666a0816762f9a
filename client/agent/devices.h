/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The GPUs that a captured process uses. */

#include <stdint.h>

#include "client/agent/lock.h"
#include "proto/nvidia/host.h"

struct capture;

/* One GPU, in one capture. */
struct device_info {
	struct lock lock; /* protects host */
	uint32_t index;
	char uuid[48], name[64], chip[32];
	uint32_t clock_sm_mhz, clock_mem_mhz;
	struct host host; /* makes config images */
	struct host evaluator;
	struct refusal trouble; /* code 0: usable */
};

/* Finds or makes the device of the calling thread's context; NULL: no context, no memory, or more
 * than LIMIT_GPUS. Announces a new device to the daemon, and reports why it cannot be measured. */
struct device_info *devices_find(struct capture *c);

void devices_free(struct capture *c);
