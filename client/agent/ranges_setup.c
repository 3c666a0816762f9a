/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/ranges_setup.h"

#include <stdio.h>
#include <stdlib.h>

#include "client/agent/capture.h"
#include "client/agent/permission.h"
#include "client/agent/slower.h"

/* How a context comes to have a configured profiler object, and what is said when it cannot.
 *
 * A configured object keeps the image size of its first configuration (a second SetConfig with a
 * larger image lost all ranges beyond the first size, CUPTI 2025.3), so growing means a new object.
 * So does a change to other metrics: a SetConfig of the object that is there succeeds, takes 3 to
 * 7 ms, and none of 4,864 launches had a value then. SetConfig reads the image: it is initialised
 * first. */

enum { SIZE_FIRST = 64 };

/* Says once why a context is not measured, by what CUPTI answered. */
void ranges_tell_failure(struct capture *c, struct ranges *r, const char *call, CUptiResult result)
{
	struct refusal refused;
	char text[512];

	permission_last_refusal(&refused);
	if (result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ||
	    (refused.code != 0 && r->state == RANGES_NEW)) {
		if (refused.code == 0) {
			refusal_set(&refused, GPUCTR_E_GRANT_REFUSED,
				    "See `gpuctr-client status` and the daemon's log.",
				    "the driver refuses the counters (%s: %s)", call,
				    host_result_name(&c->profiler->host, result));
		}
		deliver_notice(&c->deliver, refused.code, refused.message, refused.remedy);
		return;
	}
	snprintf(text, sizeof(text), "%s failed on GPU %u (%s, %d); its kernels run on unmeasured",
		 call, r->device, host_result_name(&c->profiler->host, result), (int)result);
	if (result == CUPTI_ERROR_HARDWARE_BUSY) {
		deliver_notice(&c->deliver, GPUCTR_E_HARDWARE_BUSY, text,
			       "Another profiler uses this GPU's counters (ncu, DCGM, a second "
			       "context): end it.");
	} else {
		deliver_notice(&c->deliver, GPUCTR_E_PROFILER, text, "");
	}
}

void ranges_give_up(struct capture *c, struct ranges *r, const char *call, CUptiResult result)
{
	ranges_tell_failure(c, r, call, result);
	r->state = RANGES_BROKEN;
}

CUptiResult ranges_init_image(struct capture *c, struct ranges *r)
{
	CUpti_RangeProfiler_CounterDataImage_Initialize_Params p = {
		.structSize = CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE,
		.pRangeProfilerObject = r->object,
		.counterDataSize = r->image_size,
		.pCounterData = r->image,
	};

	return c->profiler->cuptiRangeProfilerCounterDataImageInitialize(&p);
}

static CUptiResult make_image(struct capture *c, struct ranges *r)
{
	const struct wire_strings *metrics = &c->passes.v[r->pass].metrics;
	CUpti_RangeProfiler_GetCounterDataSize_Params p = {
		.structSize = CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE,
		.pRangeProfilerObject = r->object,
		.pMetricNames = (const char **)(uintptr_t)metrics->v,
		.numMetrics = metrics->n,
		.maxNumOfRanges = r->size,
		.maxNumRangeTreeNodes = (uint32_t)r->size,
	};
	CUptiResult result = c->profiler->cuptiRangeProfilerGetCounterDataSize(&p);

	if (result != CUPTI_SUCCESS) {
		return result;
	}
	free(r->image);
	r->image_size = p.counterDataSize;
	r->image = calloc(1, r->image_size);
	return r->image ? ranges_init_image(c, r) : CUPTI_ERROR_OUT_OF_MEMORY;
}

static CUptiResult configure(struct capture *c, struct ranges *r)
{
	CUpti_RangeProfiler_SetConfig_Params p = {
		.structSize = CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE,
		.pRangeProfilerObject = r->object,
		.configSize = r->configs[r->pass].size,
		.pConfig = r->configs[r->pass].image,
		.range = CUPTI_UserRange,
		.replayMode = CUPTI_UserReplay,
		.maxRangesPerPass = r->size,
		.numNestingLevels = 1,
		.minNestingLevel = 1,
	};
	CUptiResult result = make_image(c, r);

	if (result != CUPTI_SUCCESS) {
		return result;
	}
	p.counterDataImageSize = r->image_size;
	p.pCounterDataImage = r->image;
	return c->profiler->cuptiRangeProfilerSetConfig(&p);
}

static bool enable(struct capture *c, struct ranges *r)
{
	CUpti_RangeProfiler_Enable_Params p = {
		.structSize = CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE,
		.ctx = r->context,
	};
	CUptiResult result = c->profiler->cuptiRangeProfilerEnable(&p);

	if (result == CUPTI_ERROR_HARDWARE_BUSY) {
		ranges_wait(c, r, "cuptiRangeProfilerEnable");
		return false;
	}
	if (result != CUPTI_SUCCESS) {
		ranges_give_up(c, r, "cuptiRangeProfilerEnable", result);
		return false;
	}
	slower_begins();
	r->object = p.pRangeProfilerObject;
	result = configure(c, r);
	if (result != CUPTI_SUCCESS) {
		ranges_give_up(c, r, "cuptiRangeProfilerSetConfig", result);
		return false;
	}
	r->set = r->pass;
	r->state = RANGES_OFF;
	return true;
}

/* All of them at once, so that it is known from the beginning whether they can be measured. */
static bool make_configs(struct capture *c, struct ranges *r)
{
	struct refusal why = { 0 };

	for (uint32_t i = 0; why.code == 0 && !r->configs[i].image && i < c->passes.n; i++) {
		const struct wire_strings *m = &c->passes.v[i].metrics;

		pthread_mutex_lock(&r->info->lock);
		host_config_new(&r->info->host, m->v, m->n, &r->configs[i], &why);
		pthread_mutex_unlock(&r->info->lock);
		if (why.code == 0 && r->configs[i].passes != 1) {
			refusal_set(
				&why, GPUCTR_E_TOO_MANY_PASSES, "Ask for fewer metrics at a time.",
				"the program's CUPTI needs %zu passes where the daemon's needs one",
				r->configs[i].passes);
		}
	}
	if (why.code != 0) {
		deliver_notice(&c->deliver, why.code, why.message, why.remedy);
	}
	return why.code == 0;
}

bool ranges_setup(struct capture *c, struct ranges *r)
{
	r->info = r->info ? r->info : devices_find(c);
	if (!r->info || r->info->trouble.code != 0) {
		r->state = RANGES_BROKEN; /* devices_find() has told why */
		return false;
	}
	r->device = r->info->index;
	if (!make_configs(c, r)) {
		r->state = RANGES_BROKEN;
		return false;
	}
	r->size = r->size ? r->size : SIZE_FIRST;
	return enable(c, r);
}
