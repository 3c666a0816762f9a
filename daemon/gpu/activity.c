/* SPDX-License-Identifier: Apache-2.0 */

/* A sample takes 0.2 to 1.2 ms (H200). The front asks for the status every five seconds, as a sign
 * of life, and each request samples the GPUs. After a failure the next request tries again, with a
 * new pair of samples. */

#include "daemon/gpu/activity.h"

#include <math.h>
#include <stdio.h>

#include "proto/base/clock.h"

enum { MIN_S = 1 };

/* Values of nvmlGpmMetricId_t, in the order of the members of struct gpuctr_activity. */
static const unsigned ids[VENDOR_NVML_GPM_METRICS] = { 2, 5, 10, 20, 21, 61, 60 };
enum { PERCENTS = 3 }; /* number of percentages; the other metrics are in MiB a second */

static void fail(const struct vendor_nvml *nvml, struct activity_gpu *g, const char *call, int r)
{
	const char *text = nvml->error_string ? nvml->error_string(r) : NULL;

	g->at_ns = 0;
	snprintf(g->why, sizeof(g->why), "%s: %s (%d)", call, text ? text : "error", r);
}

/* False: NVML does not sample this GPU, and g->why has the reason. */
static bool open_gpu(const struct vendor_nvml *nvml, const char *uuid, struct activity_gpu *g)
{
	struct vendor_nvml_gpm_support support = { .version = 1 };
	void *device;
	int r;

	if (!nvml->gpm_metrics || !nvml->gpm_support || !nvml->gpm_alloc || !nvml->gpm_sample) {
		snprintf(g->why, sizeof(g->why), "this driver's NVML does not sample GPUs");
		return false;
	}
	if ((r = nvml->device_by_uuid(uuid, &device)) != 0) {
		fail(nvml, g, "nvmlDeviceGetHandleByUUID", r);
	} else if ((r = nvml->gpm_support(device, &support)) != 0) {
		fail(nvml, g, "nvmlGpmQueryDeviceSupport", r);
	} else if (!support.supported) {
		snprintf(g->why, sizeof(g->why), "NVML samples GPUs of Hopper and newer alone");
	} else if ((!g->before && (r = nvml->gpm_alloc(&g->before)) != 0) ||
		   (!g->now && (r = nvml->gpm_alloc(&g->now)) != 0)) {
		fail(nvml, g, "nvmlGpmSampleAlloc", r);
	} else {
		g->device = device;
	}
	return g->device != NULL;
}

static void evaluate(const struct vendor_nvml *nvml, struct activity_gpu *g, uint64_t over_ns)
{
	struct vendor_nvml_gpm_metrics m = {
		.version = 1, .n = VENDOR_NVML_GPM_METRICS, .before = g->before, .now = g->now
	};
	double values[VENDOR_NVML_GPM_METRICS];
	int r;

	for (int i = 0; i < VENDOR_NVML_GPM_METRICS; i++) {
		m.metrics[i].id = ids[i];
	}
	r = nvml->gpm_metrics(&m);
	if (r != 0) {
		fail(nvml, g, "nvmlGpmMetricsGet", r);
		return;
	}
	for (int i = 0; i < VENDOR_NVML_GPM_METRICS; i++) {
		double unit = i < PERCENTS ? 1 : 1 << 20;

		values[i] = m.metrics[i].result == 0 ? m.metrics[i].value * unit : NAN;
	}
	g->value = (struct gpuctr_activity){
		.over_ns = over_ns,
		.sm_pct = values[0],
		.tensor_pct = values[1],
		.dram_pct = values[2],
		.pcie_sent = values[3],
		.pcie_received = values[4],
		.nvlink_sent = values[5],
		.nvlink_received = values[6],
	};
	g->why[0] = '\0';
}

static void take(const struct vendor_nvml *nvml, struct activity_gpu *g, uint64_t now_ns)
{
	int r = nvml->gpm_sample(g->device, g->now);
	void *before = g->before;

	if (r != 0) {
		fail(nvml, g, "nvmlGpmSampleGet", r);
		return;
	}
	if (g->at_ns == 0) {
		snprintf(g->why, sizeof(g->why), "the first seconds are not over");
	} else {
		evaluate(nvml, g, now_ns - g->at_ns);
	}
	g->before = g->now;
	g->now = before;
	g->at_ns = now_ns;
}

void activity_take(struct activity *a, const struct device_list *l, uint64_t now_ns)
{
	for (size_t i = 0; i < l->n; i++) {
		struct activity_gpu *g = &a->gpus[i];
		bool due = g->at_ns == 0 || now_ns - g->at_ns >= MIN_S * CLOCK_NS_PER_S;

		if (due && (g->device || open_gpu(&l->nvml, l->devices[i].uuid, g))) {
			take(&l->nvml, g, now_ns);
		}
	}
}
