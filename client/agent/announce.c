/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/capture.h"

#include <stdio.h>

#include "client/agent/claims.h"
#include "client/agent/devices.h"

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
