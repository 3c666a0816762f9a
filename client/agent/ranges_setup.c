/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/ranges_setup.h"

#include <stdlib.h>
#include <string.h>

#include "client/agent/capture.h"
#include "client/agent/confined.h"
#include "client/agent/contexts.h"
#include "client/agent/permission.h"
#include "client/agent/trace.h"

/* Makes and configures a context's profiler object, and reports why this failed.
 *
 * An object keeps its first configuration and its first image's number of ranges (CUPTI 2025.3):
 * after a second SetConfig with a larger image all ranges beyond that number were lost, and after
 * one for other metrics there were no values. So a larger batch needs a new object. A second
 * SetConfig does change the image that CUPTI decodes into, and so gives each pass its own image.
 *
 * CUPTI initialises an image for the metrics of the last GetCounterDataSize, which takes 3 ms; so
 * each pass's image is initialised once, and a copy is kept. SetConfig reads the image, so the
 * image is initialised before. */

enum { SIZE_FIRST = 64, RETRY_MS = 100 };

/* Reports why a context is not measured, from CUPTI's result. */
static void tell_failure(struct capture *c, struct ranges *r, const char *call, CUptiResult result)
{
	struct refusal refused;
	bool busy = result == CUPTI_ERROR_HARDWARE_BUSY;

	permission_last_refusal(&refused);
	if (result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ||
	    (refused.code != 0 && r->state == RANGES_NEW)) {
		if (refused.code == 0) {
			refusal_set(&refused, GPUCTR_E_GRANT_REFUSED,
				    "See `gpuctr-client status` and the daemon's log.",
				    "the driver refuses the counters (%s: %s)", call,
				    host_result_name(&c->profiler->host, result));
		}
		deliver_refusal(&c->deliver, &refused);
		return;
	}
	deliver_tell(&c->deliver, busy ? GPUCTR_E_HARDWARE_BUSY : GPUCTR_E_PROFILER,
		     busy ? "One process at a time has them: another profiler (ncu, DCGM), or "
			    "another process that is measured on this GPU. Wait for it, or end it."
			  : "",
		     "%s failed on GPU %u (%s, %d); its kernels run on unmeasured", call, r->device,
		     host_result_name(&c->profiler->host, result), (int)result);
}

void ranges_give_up(struct capture *c, struct ranges *r, const char *call, CUptiResult result)
{
	tell_failure(c, r, call, result);
	r->state = RANGES_BROKEN;
}

/* --- counters that others use --- */

static bool has_sibling(struct capture *c, const struct ranges *r)
{
	contexts_for_each(other, c) {
		if (other != r && other->device == r->device) {
			return true;
		}
	}
	return false;
}

static void tell_busy(struct capture *c, struct ranges *r, const char *call)
{
	if (!has_sibling(c, r)) {
		tell_failure(c, r, call, CUPTI_ERROR_HARDWARE_BUSY);
		return;
	}
	deliver_tell(&c->deliver, GPUCTR_E_HARDWARE_BUSY,
		     "Use one context (the primary one) for each GPU.",
		     "several contexts of the program use GPU %u, which has one set of counters: "
		     "they are measured in turns, and kernels of the others run unmeasured",
		     r->device);
}

void ranges_wait(struct capture *c, struct ranges *r, const char *call)
{
	if (!r->reported_busy) {
		r->reported_busy = true;
		tell_busy(c, r, call);
	}
	r->state = RANGES_WAITING;
	r->retry_ns = clock_now_ns() + RETRY_MS * CLOCK_NS_PER_MS;
}

/* --- images --- */

static CUptiResult make_image(struct capture *c, struct ranges *r,
			      const struct wire_strings *metrics, struct ranges_image *ret)
{
	CUpti_RangeProfiler_GetCounterDataSize_Params size = {
		RANGES_PARAMS(GetCounterDataSize, r),
		.pMetricNames = (const char **)(uintptr_t)metrics->v,
		.numMetrics = metrics->n,
		.maxNumOfRanges = r->size,
		.maxNumRangeTreeNodes = (uint32_t)r->size,
	};
	CUpti_RangeProfiler_CounterDataImage_Initialize_Params init = { RANGES_PARAMS(
		CounterDataImage_Initialize, r) };
	CUptiResult result = c->profiler->cuptiRangeProfilerGetCounterDataSize(&size);

	if (result != CUPTI_SUCCESS) {
		return result;
	}
	free(ret->fresh);
	ret->size = size.counterDataSize;
	ret->fresh = calloc(1, ret->size);
	if (!ret->fresh) {
		return CUPTI_ERROR_OUT_OF_MEMORY;
	}
	init.counterDataSize = ret->size;
	init.pCounterData = ret->fresh;
	return c->profiler->cuptiRangeProfilerCounterDataImageInitialize(&init);
}

static CUptiResult make_images(struct capture *c, struct ranges *r)
{
	CUptiResult result = CUPTI_SUCCESS;
	size_t most = 0, sum = 0;

	for (uint32_t i = 0; result == CUPTI_SUCCESS && i < c->passes.n; i++) {
		result = make_image(c, r, &c->passes.v[i].metrics, &r->images[i]);
		most = r->images[i].size > most ? r->images[i].size : most;
		sum += r->images[i].size;
	}
	if (result != CUPTI_SUCCESS) {
		return result;
	}
	r->image_bytes = (most + r->size - 1) / r->size;
	r->images_bytes = (sum + r->size - 1) / r->size;
	free(r->image);
	r->image = malloc(most);
	return r->image ? CUPTI_SUCCESS : CUPTI_ERROR_OUT_OF_MEMORY;
}

size_t ranges_size_most(const struct ranges *r)
{
	size_t each = RANGES_IMAGE_BYTES_MAX / r->image_bytes;
	size_t all = RANGES_IMAGES_BYTES_MAX / r->images_bytes;

	return each < all ? each : all;
}

static CUptiResult configure(struct capture *c, struct ranges *r)
{
	CUpti_RangeProfiler_SetConfig_Params p = {
		RANGES_PARAMS(SetConfig, r),
		.configSize = r->config.size,
		.pConfig = r->config.image,
		.counterDataImageSize = r->images[r->measured_pass].size,
		.pCounterDataImage = r->image,
		.range = CUPTI_UserRange,
		.replayMode = CUPTI_UserReplay,
		.maxRangesPerPass = r->size,
		.numNestingLevels = 1,
		.minNestingLevel = 1,
	};

	memcpy(r->image, r->images[r->measured_pass].fresh, r->images[r->measured_pass].size);
	return c->profiler->cuptiRangeProfilerSetConfig(&p);
}

CUptiResult ranges_renew_image(struct capture *c, struct ranges *r)
{
	if (c->passes.n > 1) {
		return configure(c, r); /* the next pass has another image */
	}
	memcpy(r->image, r->images[0].fresh, r->images[0].size);
	return CUPTI_SUCCESS;
}

static bool enable(struct capture *c, struct ranges *r)
{
	VENDOR_PARAMS(RangeProfiler_Enable, p, .ctx = r->context);
	CUptiResult result = c->profiler->cuptiRangeProfilerEnable(&p);

	if (result == CUPTI_ERROR_HARDWARE_BUSY) {
		ranges_wait(c, r, "cuptiRangeProfilerEnable");
		return false;
	}
	if (result != CUPTI_SUCCESS) {
		ranges_give_up(c, r, "cuptiRangeProfilerEnable", result);
		return false;
	}
	r->object = p.pRangeProfilerObject;
	r->measured_pass = 0;
	result = make_images(c, r);
	if (result != CUPTI_SUCCESS) {
		ranges_give_up(c, r, "cuptiRangeProfilerGetCounterDataSize", result);
		return false;
	}
	result = configure(c, r);
	if (result != CUPTI_SUCCESS) {
		ranges_give_up(c, r, "cuptiRangeProfilerSetConfig", result);
		return false;
	}
	r->state = RANGES_OFF;
	return true;
}

/* Makes the configuration of the passes that the daemon has planned. */
static bool make_config(struct capture *c, struct ranges *r)
{
	struct host_metrics passes[LIMIT_GROUPS];
	struct refusal why = { 0 };

	if (r->config.image) {
		return true;
	}
	for (uint32_t i = 0; i < c->passes.n; i++) {
		const struct wire_strings *m = &c->passes.v[i].metrics;

		passes[i] = (struct host_metrics){ m->v, m->n };
	}
	lock_acquire(&r->info->lock);
	host_config_new(&r->info->host, passes, c->passes.n, &r->config, &why);
	lock_release(&r->info->lock);
	if (why.code == 0 && r->config.passes != c->passes.n) {
		refusal_set(&why, GPUCTR_E_TOO_MANY_PASSES, "Ask for fewer metrics at a time.",
			    "the program's CUPTI needs %zu passes where the daemon's needs %u",
			    r->config.passes, c->passes.n);
		host_config_deinit(&r->config);
	}
	deliver_refusal(&c->deliver, &why);
	return why.code == 0;
}

/* True: the program has loaded a filter, which may forbid CUPTI's system calls. */
static bool is_shut_in(struct capture *c)
{
	struct refusal why;

	if (!confined_is_caller()) {
		return false;
	}
	confined_refusal(&why);
	deliver_refusal(&c->deliver, &why);
	return true;
}

bool ranges_setup(struct capture *c, struct ranges *r)
{
	if (is_shut_in(c)) {
		r->state = RANGES_BROKEN;
		return false;
	}
	r->info = r->info ? r->info : devices_find(c);
	if (!r->info || r->info->trouble.code != 0) {
		r->state = RANGES_BROKEN; /* devices_find() has reported why */
		return false;
	}
	r->device = r->info->index;
	if (!times_begin(c)) { /* this may add a metric to the plan */
		ranges_give_up(c, r, "cuptiActivityEnable", CUPTI_ERROR_NOT_READY);
		return false;
	}
	if (!make_config(c, r)) {
		r->state = RANGES_BROKEN;
		return false;
	}
	r->size = r->size ? r->size : SIZE_FIRST;
	return enable(c, r);
}

/* --- a context --- */

void ranges_forget_images(struct ranges *r)
{
	for (size_t i = 0; i < LIMIT_GROUPS; i++) {
		free(r->images[i].fresh);
		r->images[i] = (struct ranges_image){ 0 };
	}
	free(r->image);
	r->image = NULL;
	host_config_deinit(&r->config);
}
