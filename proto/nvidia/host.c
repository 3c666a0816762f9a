/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/nvidia/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A CUPTI host object accumulates the metrics that are added to it. So each config image needs a
 * new object, and one more object serves evaluation. Making an object costs about 1
 * ms. */

const char *host_result_name(const struct vendor_host *v, CUptiResult result)
{
	const char *name = NULL;

	if (v->cuptiGetResultString(result, &name) != CUPTI_SUCCESS || !name) {
		return "unknown CUPTI result";
	}
	return name;
}

static int object_new(const struct host *h, CUpti_Profiler_Host_Object **ret, struct refusal *r)
{
	VENDOR_PARAMS(Profiler_Host_Initialize, p, .profilerType = h->type, .pChipName = h->chip);
	CUptiResult result = h->v->cuptiProfilerHostInitialize(&p);

	if (result != CUPTI_SUCCESS) {
		refusal_set(r, GPUCTR_E_CHIP_UNKNOWN,
			    "`gpuctr-client metrics --chip help` lists the chips.",
			    "CUPTI does not know the chip %s (%s, %d)", h->chip,
			    host_result_name(h->v, result), result);
		return r->code;
	}
	*ret = p.pHostObject;
	return 0;
}

static void object_free(const struct vendor_host *v, CUpti_Profiler_Host_Object *object)
{
	VENDOR_PARAMS(Profiler_Host_Deinitialize, p, .pHostObject = object);

	if (object) {
		v->cuptiProfilerHostDeinitialize(&p);
	}
}

static int init(struct host *h, const struct vendor_host *v, const char *chip,
		CUpti_ProfilerType type, struct refusal *r)
{
	*h = (struct host){ .v = v, .type = type };
	snprintf(h->chip, sizeof(h->chip), "%s", chip);
	return object_new(h, &h->object, r);
}

int host_init(struct host *h, const struct vendor_host *v, const char *chip, struct refusal *r)
{
	return init(h, v, chip, CUPTI_PROFILER_TYPE_RANGE_PROFILER, r);
}

int host_init_sampling(struct host *h, const struct vendor_host *v, const char *chip,
		       struct refusal *r)
{
	return init(h, v, chip, CUPTI_PROFILER_TYPE_PM_SAMPLING, r);
}

void host_deinit(struct host *h)
{
	if (h->v) {
		object_free(h->v, h->object);
	}
	*h = (struct host){ 0 };
}

static CUptiResult add_sets(const struct vendor_host *v, CUpti_Profiler_Host_Object *object,
			    const struct host_metrics *sets, size_t n)
{
	CUptiResult result = CUPTI_SUCCESS;

	for (size_t i = 0; result == CUPTI_SUCCESS && i < n; i++) {
		CUpti_Profiler_Host_ConfigAddMetrics_Params p = {
			.structSize = CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE,
			.pHostObject = object,
			.ppMetricNames = (const char **)(uintptr_t)sets[i].v,
			.numMetrics = sets[i].n,
		};

		result = v->cuptiProfilerHostConfigAddMetrics(&p);
	}
	return result;
}

static CUptiResult take_image(const struct vendor_host *v, CUpti_Profiler_Host_Object *object,
			      struct host_config *c)
{
	VENDOR_PARAMS(Profiler_Host_GetConfigImageSize, size, .pHostObject = object);
	VENDOR_PARAMS(Profiler_Host_GetConfigImage, image, .pHostObject = object);
	VENDOR_PARAMS(Profiler_Host_GetNumOfPasses, passes);
	CUptiResult result = v->cuptiProfilerHostGetConfigImageSize(&size);

	if (result != CUPTI_SUCCESS) {
		return result;
	}
	c->size = size.configImageSize;
	c->image = calloc(1, c->size ? c->size : 1);
	if (!c->image) {
		return CUPTI_ERROR_OUT_OF_MEMORY;
	}
	image.configImageSize = passes.configImageSize = c->size;
	image.pConfigImage = passes.pConfigImage = c->image;
	result = v->cuptiProfilerHostGetConfigImage(&image);
	if (result == CUPTI_SUCCESS) {
		result = v->cuptiProfilerHostGetNumOfPasses(&passes);
	}
	c->passes = passes.numOfPasses;
	return result;
}

int host_config_new(struct host *h, const struct host_metrics *sets, size_t n,
		    struct host_config *ret, struct refusal *r)
{
	CUpti_Profiler_Host_Object *object = NULL;
	struct host_config c = { 0 };
	CUptiResult result;
	int code = object_new(h, &object, r);

	if (code != 0) {
		return code;
	}
	result = add_sets(h->v, object, sets, n);
	if (result == CUPTI_SUCCESS) {
		result = take_image(h->v, object, &c);
	}
	object_free(h->v, object);
	if (result != CUPTI_SUCCESS) {
		host_config_deinit(&c);
		refusal_set(r, GPUCTR_E_PROFILER, "Ask for fewer or other metrics.",
			    "CUPTI cannot schedule these metrics on %s (%s, %d)", h->chip,
			    host_result_name(h->v, result), result);
		return r->code;
	}
	*ret = c;
	return 0;
}

void host_config_deinit(struct host_config *c)
{
	free(c->image);
	*c = (struct host_config){ 0 };
}

size_t host_count_ranges(const struct host *h, const uint8_t *image, size_t size)
{
	VENDOR_PARAMS(RangeProfiler_GetCounterDataInfo, p, .pCounterDataImage = image,
		      .counterDataImageSize = size);

	return h->v->cuptiRangeProfilerGetCounterDataInfo(&p) == CUPTI_SUCCESS ? p.numTotalRanges
									       : 0;
}

CUptiResult host_evaluate(const struct host *h, const uint8_t *image, size_t size, size_t range,
			  const char *const *metrics, size_t n, double *values)
{
	CUpti_Profiler_Host_EvaluateToGpuValues_Params p = {
		.structSize = CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE,
		.pHostObject = h->object,
		.pCounterDataImage = image,
		.counterDataImageSize = size,
		.rangeIndex = range,
		.ppMetricNames = (const char **)(uintptr_t)metrics,
		.numMetrics = n,
		.pMetricValues = values,
	};

	return h->v->cuptiProfilerHostEvaluateToGpuValues(&p);
}
