/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/gpu/gpu.h"

#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/base/list.h"
#include "daemon/gpu/activity.h"
#include "daemon/gpu/device.h"
#include "daemon/gpu/service.h"

/* The process reads the list of GPUs once, at the start, and asks NVML for the computing processes
 * at each request. Leases depend on these answers, so it does nothing else that takes long:
 * sampling takes a millisecond for each GPU, every five seconds. */

struct gpu {
	struct service service;
	struct device_list devices;
	struct activity activity;
};

static struct gpu *gpu_of(struct service *s)
{
	return list_entry(s, struct gpu, service);
}

static int handle_status(struct service *s, const struct wire_message *m)
{
	struct gpu *g = gpu_of(s);
	struct gpuctr_gpu gpus[LIMIT_GPUS];
	struct gpuctr_activity activity[LIMIT_GPUS];
	char cupti[32] = "";
	const struct refusal *t = s->no_vendor.code ? &s->no_vendor : &g->devices.trouble;
	struct wire_message answer = {
		.type = WIRE_STATUS_REPLY,
		.status_reply = {
			.request = m->status_request.request,
			.driver = g->devices.driver,
			.cupti = cupti,
			.restricted = g->devices.restricted,
			.gpus = { g->devices.n, gpus },
			.activity = { g->devices.n, activity },
			.trouble = t->message,
			.trouble_code = (uint32_t)t->code,
			.trouble_remedy = t->remedy,
		},
	};

	activity_take(&g->activity, &g->devices, clock_now_ns());
	for (size_t i = 0; i < g->devices.n; i++) {
		const struct device *d = &g->devices.devices[i];

		gpus[i] = (struct gpuctr_gpu){
			.index = (uint32_t)i,
			.uuid = d->uuid,
			.name = d->name,
			.chip = d->chip,
		};
		activity[i] = g->activity.gpus[i].value;
		activity[i].gpu = (uint32_t)i;
		activity[i].unknown = g->activity.gpus[i].why;
	}
	if (s->no_vendor.code == 0) {
		vendor_version_format(s->vendor.version, cupti, sizeof(cupti));
	}
	return service_reply(s, &answer);
}

static int handle_tenants(struct service *s, const struct wire_message *m)
{
	const struct gpu *g = gpu_of(s);
	uint32_t gpus[LIMIT_TENANTS], pids[LIMIT_TENANTS];
	size_t n;
	struct wire_message answer = { .type = WIRE_TENANTS_REPLY };

	answer.tenants_reply.request = m->tenants_request.request;
	answer.tenants_reply.known = device_list_tenants(&g->devices, m->tenants_request.gpus, gpus,
							 pids, LIMIT_TENANTS, &n);
	answer.tenants_reply.gpu = (struct wire_u32s){ n, gpus };
	answer.tenants_reply.pid = (struct wire_u32s){ n, pids };
	return service_reply(s, &answer);
}

static const struct service_handler handlers[] = {
	{ WIRE_STATUS_REQUEST, handle_status },
	{ WIRE_TENANTS_REQUEST, handle_tenants },
};

int gpu_run(int link)
{
	static struct gpu g;

	service_init(&g.service, link, handlers, ARRAY_SIZE(handlers));
	device_list_read(&g.devices, g.service.no_vendor.code == 0 ? &g.service.vendor : NULL);
	return service_run(&g.service);
}
