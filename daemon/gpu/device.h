/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The GPUs of the machine and the state of its driver. */

#include "proto/nvidia/vendor.h"
#include "proto/wire/limits.h"

struct device {
	char uuid[48]; /* GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx */
	char name[64];
	char chip[32];
};

struct device_list {
	struct vendor_nvml nvml;
	struct device devices[LIMIT_GPUS];
	size_t n;
	char driver[32];	/* "580.159.04"; "": no driver */
	unsigned restricted;	/* enum gpuctr_restricted */
	struct refusal trouble; /* code 0: none */
};

/* If host is NULL, chips are unknown. */
void device_list_read(struct device_list *l, const struct vendor_host *host);

/* Lists the processes that compute now on the GPUs of mask, which has a bit for each index, as
 * pairs of GPU index and pid. False: NVML does not list those of one of these GPUs, or room is too
 * small. */
bool device_list_tenants(const struct device_list *l, uint64_t mask, uint32_t *gpus, uint32_t *pids,
			 size_t room, size_t *ret_n);
