/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/gpu/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clean.h"
#include "proto/nvidia/uuid.h"

/* The first driver version that accepts CAP_PERFMON for counters. */
#define DRIVER_MIN "565.57"

static unsigned read_restriction(void)
{
	CLEAN_FILE FILE *f = fopen("/proc/driver/nvidia/params", "re");
	unsigned value = GPUCTR_RESTRICTION_UNKNOWN;
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "RmProfilingAdminOnly: %u", &value) == 1) {
			return value ? GPUCTR_RESTRICTED : GPUCTR_OPEN;
		}
	}
	return GPUCTR_RESTRICTION_UNKNOWN;
}

/* "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build ..." */
static void read_driver_version_file(char *text, size_t size)
{
	CLEAN_FILE FILE *f = fopen("/proc/driver/nvidia/version", "re");
	char line[256], *save = NULL;

	if (!f || !fgets(line, sizeof(line), f)) {
		return;
	}
	for (char *word = strtok_r(line, " \t", &save); word; word = strtok_r(NULL, " \t", &save)) {
		unsigned major, minor;

		if (sscanf(word, "%u.%u", &major, &minor) == 2) {
			snprintf(text, size, "%s", word);
			return;
		}
	}
}

static void read_driver_version(const struct vendor_nvml *nvml, char *text, size_t size)
{
	if (!nvml->driver_version || nvml->driver_version(text, (unsigned)size) != 0) {
		read_driver_version_file(text, size);
	}
}

static void check_driver_version(struct device_list *l)
{
	unsigned major = 0, minor = 0, need_major = 0, need_minor = 0;

	sscanf(DRIVER_MIN, "%u.%u", &need_major, &need_minor);
	if (sscanf(l->driver, "%u.%u", &major, &minor) < 1) {
		return; /* unknown: the driver decides at the first permission */
	}
	if (major < need_major || (major == need_major && minor < need_minor)) {
		refusal_set(&l->trouble, GPUCTR_E_DRIVER_TOO_OLD,
			    "Update NVIDIA's driver to " DRIVER_MIN " or newer.",
			    "driver %s does not honour CAP_PERFMON for counters", l->driver);
	}
}

/* In confidential computing, and on a host of virtual GPUs, counters show the work of users whom no
 * policy of this machine knows, so nothing is measured there. If NVML does not report the state,
 * the driver decides: it refuses the object. */
static void check_confidence(struct device_list *l)
{
	struct vendor_nvml_confidential state = { 0 };

	if (l->nvml.confidential && l->nvml.confidential(&state) == 0 && state.feature == 1) {
		refusal_set(&l->trouble, GPUCTR_E_NO_GPU,
			    "Measure on a machine without it, or switch it off.",
			    "confidential computing is on: counters stay closed");
	}
}

static void check_virtualization(struct device_list *l)
{
	for (size_t i = 0; l->nvml.virtualization && i < l->n; i++) {
		void *device;
		int mode;

		if (l->nvml.device_by_uuid(l->devices[i].uuid, &device) == 0 &&
		    l->nvml.virtualization(device, &mode) == 0 &&
		    mode >= VENDOR_NVML_HOSTS_VIRTUAL_GPUS) {
			refusal_set(
				&l->trouble, GPUCTR_E_NO_GPU,
				"Measure on a machine that lends none of its GPUs.",
				"GPU %zu serves virtual machines, whose work its counters would "
				"show",
				i);
			l->n = 0;
		}
	}
}

static void read_devices(struct device_list *l, const struct vendor_driver *driver,
			 const struct vendor_host *host)
{
	CUresult result = driver->cuInit(0);
	int n = 0;

	if (result == CUDA_SUCCESS) {
		result = driver->cuDeviceGetCount(&n);
	}
	if (result != CUDA_SUCCESS || n == 0) {
		refusal_set(&l->trouble, GPUCTR_E_NO_GPU,
			    "Check `nvidia-smi`, and that the daemon may open /dev/nvidia*. "
			    "A recording needs no GPU: add --recorded.",
			    "the driver shows no GPU (cuInit: %d)", (int)result);
		return;
	}
	for (int i = 0; i < n && l->n < ARRAY_SIZE(l->devices); i++) {
		struct device *d = &l->devices[l->n];
		CUuuid uuid;
		CUdevice handle;

		if (driver->cuDeviceGet(&handle, i) != CUDA_SUCCESS ||
		    driver->cuDeviceGetUuid(&uuid, handle) != CUDA_SUCCESS) {
			continue;
		}
		uuid_format(&uuid, d->uuid, sizeof(d->uuid));
		driver->cuDeviceGetName(d->name, sizeof(d->name), handle);
		if (host) {
			vendor_chip_name(host, (size_t)i, d->chip, sizeof(d->chip));
		}
		l->n++;
	}
}

void device_list_read(struct device_list *l, const struct vendor_host *host)
{
	struct vendor_driver driver;

	*l = (struct device_list){ .restricted = read_restriction() };
	if (vendor_open_driver(&driver, &l->trouble) != 0) {
		return;
	}
	vendor_open_nvml(&l->nvml);
	read_driver_version(&l->nvml, l->driver, sizeof(l->driver));
	check_driver_version(l);
	check_confidence(l);
	if (l->trouble.code == 0) {
		read_devices(l, &driver, host);
		check_virtualization(l);
	}
}

/* With more processes the list counts as unknown, and nothing is leased. */
enum { TENANTS_PER_GPU_MAX = 4096 };

static bool add_tenants(const struct device_list *l, size_t gpu, uint32_t *gpus, uint32_t *pids,
			size_t room, size_t *n)
{
	static struct vendor_nvml_process processes[TENANTS_PER_GPU_MAX];
	unsigned count = ARRAY_SIZE(processes);
	void *device;

	if (l->nvml.device_by_uuid(l->devices[gpu].uuid, &device) != 0 ||
	    l->nvml.compute_processes(device, &count, processes) != 0 || count > room - *n) {
		return false;
	}
	for (unsigned i = 0; i < count; i++) {
		gpus[*n] = (uint32_t)gpu;
		pids[(*n)++] = processes[i].pid;
	}
	return true;
}

bool device_list_tenants(const struct device_list *l, uint64_t mask, uint32_t *gpus, uint32_t *pids,
			 size_t room, size_t *ret_n)
{
	bool known = l->nvml.device_by_uuid && l->nvml.compute_processes;

	*ret_n = 0;
	for (size_t i = 0; known && i < l->n; i++) {
		known = (mask >> i & 1) == 0 || add_tenants(l, i, gpus, pids, room, ret_n);
	}
	return known;
}
