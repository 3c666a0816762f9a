/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/agent/capture.h"
#include "client/agent/claims.h"
#include "proto/base/clean.h"
#include "proto/nvidia/uuid.h"

/* The first launch on a device makes the device known. Whether and how it may be measured depends
 * on the capture's lease and the chip of its plan, so nothing about a device outlives a capture. */

static void read_attributes(struct capture *c, CUdevice device, struct device_info *d)
{
	const struct profiler *p = c->profiler;
	int khz = 0;
	CUuuid uuid;

	d->index = (uint32_t)device;
	p->cuDeviceGetName(d->name, sizeof(d->name), device);
	if (p->cuDeviceGetUuid(&uuid, device) == CUDA_SUCCESS) {
		uuid_format(&uuid, d->uuid, sizeof(d->uuid));
	}
	if (p->cuDeviceGetAttribute(&khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device) == CUDA_SUCCESS) {
		d->clock_sm_mhz = (uint32_t)khz / 1000;
	}
	if (p->cuDeviceGetAttribute(&khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, device) ==
	    CUDA_SUCCESS) {
		d->clock_mem_mhz = (uint32_t)khz / 1000;
	}
}

static bool is_leased(const struct capture *c, const char *uuid)
{
	for (size_t i = 0; i < c->welcome.gpus.n; i++) {
		if (strcmp(c->welcome.gpus.v[i], uuid) == 0) {
			return true;
		}
	}
	return false;
}

static void check_device(struct capture *c, struct device_info *d)
{
	if (!is_leased(c, d->uuid)) {
		refusal_set(&d->trouble, GPUCTR_E_NOT_ALLOWED,
			    "Name it with --devices; a refusal then says why it is not yours to "
			    "measure.",
			    "GPU %u (%s) is not part of this capture's lease; its kernels run "
			    "unmeasured",
			    d->index, d->uuid);
	} else if (c->welcome.trace) {
		return; /* a trace has no plan for a chip */
	} else if (strcmp(d->chip, c->welcome.plan.chip) != 0) {
		refusal_set(&d->trouble, GPUCTR_E_CHIP_MISMATCH,
			    "Name the GPUs of one kind with --devices.",
			    "GPU %u is a %s, the metrics were planned for %s", d->index, d->chip,
			    c->welcome.plan.chip);
	} else if (host_init(&d->host, &c->profiler->host, d->chip, &d->trouble) == 0) {
		host_init(&d->evaluator, &c->profiler->host, d->chip, &d->trouble);
	}
	deliver_refusal(&c->deliver, &d->trouble);
}

struct device_info *devices_find(struct capture *c)
{
	struct device_info *d = NULL;
	bool fresh = false;
	CUdevice device;

	if (c->profiler->cuCtxGetDevice(&device) != CUDA_SUCCESS) {
		return NULL;
	}
	lock_acquire(&c->devices_lock);
	for (size_t i = 0; i < c->n_devices; i++) {
		d = c->devices[i]->index == (uint32_t)device ? c->devices[i] : d;
	}
	if (!d && c->n_devices < ARRAY_SIZE(c->devices) && (d = calloc(1, sizeof(*d))) != NULL) {
		fresh = true;
		read_attributes(c, device, d);
		vendor_chip_name(&c->profiler->host, d->index, d->chip, sizeof(d->chip));
		lock_init(&d->lock, LOCK_LEAF);
		check_device(c, d);
		c->devices[c->n_devices++] = d;
	}
	lock_release(&c->devices_lock);
	if (fresh) {
		capture_announce(c);
	}
	return d;
}

void devices_free(struct capture *c)
{
	for (size_t i = 0; i < c->n_devices; i++) {
		struct device_info *d = c->devices[i];

		host_deinit(&d->host);
		host_deinit(&d->evaluator);
		lock_deinit(&d->lock);
		free(d);
	}
	c->n_devices = 0;
}

void capture_announce(struct capture *c)
{
	struct gpuctr_device devices[LIMIT_GPUS];
	char cupti[32], driver[32] = "";
	size_t n;
	int version = 0;
	struct wire_message m = { .type = WIRE_PROCESS };

	vendor_version_format(c->profiler->host.version, cupti, sizeof(cupti));
	if (c->profiler->cuDriverGetVersion(&version) == CUDA_SUCCESS) {
		snprintf(driver, sizeof(driver), "CUDA %d.%d", version / 1000, version % 1000 / 10);
	}
	lock_acquire(&c->devices_lock);
	n = c->n_devices;
	for (size_t i = 0; i < n; i++) {
		const struct device_info *d = c->devices[i];

		devices[i] = (struct gpuctr_device){ d->index, d->uuid,		d->name,
						     d->chip,  d->clock_sm_mhz, d->clock_mem_mhz };
	}
	lock_release(&c->devices_lock);
	m.process = (struct wire_process){
		.capture = c->welcome.capture,
		.process = c->welcome.process,
		.cupti = cupti,
		.driver = driver,
		.devices = { n, devices },
		.claims = claims_list(),
	};
	deliver_note(&c->deliver, &m);
}
