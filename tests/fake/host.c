/* SPDX-License-Identifier: Apache-2.0 */
/* The host half of the fake profiler library: catalogue, config images, evaluation. Needs no
 * driver. Return codes follow what CUPTI 2025.3.1 was seen to answer: a metric without an ending is
 * INVALID_PARAMETER, an unknown one UNKNOWN, and after either the object makes no image any more.
 */

#include "tests/fake/left.h"
#include "tests/fake/profiler.h"

#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EVALUATE_SLEEP_NS = 3000000 };

struct CUpti_Profiler_Host_Object {
	unsigned int chip;
	bool is_spoilt;
	bool is_sampled; /* made for PM sampling */
	struct metric_set set;
	const char *names[METRIC_TYPE_COUNT][METRIC_MAX];
	size_t counts[METRIC_TYPE_COUNT];
};

_Static_assert((int)METRIC_COUNTER == (int)CUPTI_METRIC_TYPE_COUNTER &&
		       (int)METRIC_RATIO == (int)CUPTI_METRIC_TYPE_RATIO &&
		       (int)METRIC_THROUGHPUT == (int)CUPTI_METRIC_TYPE_THROUGHPUT,
	       "metric types are passed on as they are");

#define BEGIN(function, params)                                           \
	(call_has_size(params, sizeof(size_t) * 2) ? call_begin(function) \
						   : CUPTI_ERROR_INVALID_PARAMETER)

static void list_names(struct CUpti_Profiler_Host_Object *host)
{
	for (const struct metric *m = metric_catalogue; m->name; m++) {
		if (m->chips & host->chip) {
			host->names[m->type][host->counts[m->type]++] = m->name;
		}
	}
}

CUptiResult cuptiProfilerHostInitialize(CUpti_Profiler_Host_Initialize_Params *params)
{
	CUptiResult r = BEGIN("cuptiProfilerHostInitialize", params);
	struct CUpti_Profiler_Host_Object *host;
	unsigned int chip;

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (params->profilerType >= CUPTI_PROFILER_TYPE_PROFILER_INVALID || !params->pChipName) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	chip = metric_chip(params->pChipName);
	if (!chip) {
		return CUPTI_ERROR_INVALID_CHIP_NAME;
	}
	host = calloc(1, sizeof(*host));
	if (!host) {
		return CUPTI_ERROR_OUT_OF_MEMORY;
	}
	host->chip = chip;
	host->is_sampled = params->profilerType == CUPTI_PROFILER_TYPE_PM_SAMPLING;
	list_names(host);
	params->pHostObject = host;
	left_count(LEFT_HOSTS, 1);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostDeinitialize(CUpti_Profiler_Host_Deinitialize_Params *params)
{
	CUptiResult r = BEGIN("cuptiProfilerHostDeinitialize", params);

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	left_count(LEFT_HOSTS, params->pHostObject ? -1 : 0);
	free(params->pHostObject);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostGetSupportedChips(CUpti_Profiler_Host_GetSupportedChips_Params *params)
{
	static const char *const chips[] = { "GH100", "TU102" };
	CUptiResult r = BEGIN("cuptiProfilerHostGetSupportedChips", params);

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	params->numChips = sizeof(chips) / sizeof(chips[0]);
	params->ppChipNames = chips;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostGetBaseMetrics(CUpti_Profiler_Host_GetBaseMetrics_Params *params)
{
	CUptiResult r = BEGIN("cuptiProfilerHostGetBaseMetrics", params);

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (!params->pHostObject || (unsigned int)params->metricType >= METRIC_TYPE_COUNT) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	params->numMetrics = params->pHostObject->counts[params->metricType];
	params->ppMetricNames = params->pHostObject->names[params->metricType];
	return CUPTI_SUCCESS;
}

/* The metric that a query names, with or without an ending that is known. */
static const struct metric *query(const struct CUpti_Profiler_Host_Object *host, const char *name)
{
	const char *ending;
	const struct metric *m = host && name ? metric_find(host->chip, name, &ending) : NULL;

	return m && (*ending == '\0' || metric_has_ending(m, ending)) ? m : NULL;
}

CUptiResult cuptiProfilerHostGetSubMetrics(CUpti_Profiler_Host_GetSubMetrics_Params *params)
{
	CUptiResult r = BEGIN("cuptiProfilerHostGetSubMetrics", params);
	const struct metric *m;

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	m = query(params->pHostObject, params->pMetricName);
	if (!m) {
		return CUPTI_ERROR_INVALID_METRIC_NAME;
	}
	if ((unsigned int)params->metricType != m->type) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	params->ppSubMetrics = (const char **)metric_endings(m->type);
	params->numOfSubmetrics = 0;
	while (params->ppSubMetrics[params->numOfSubmetrics]) {
		params->numOfSubmetrics++;
	}
	return CUPTI_SUCCESS;
}

CUptiResult
cuptiProfilerHostGetMetricProperties(CUpti_Profiler_Host_GetMetricProperties_Params *params)
{
	CUptiResult r = BEGIN("cuptiProfilerHostGetMetricProperties", params);
	const struct metric *m;

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	m = query(params->pHostObject, params->pMetricName);
	if (!m) {
		return CUPTI_ERROR_INVALID_METRIC_NAME;
	}
	params->pDescription = m->description;
	params->pHwUnit = m->unit;
	params->pDimUnit = m->dimension;
	params->metricType = (CUpti_MetricType)m->type;
	return CUPTI_SUCCESS;
}

static CUptiResult add_metric(struct CUpti_Profiler_Host_Object *host, const char *name)
{
	const char *ending;
	const struct metric *m = name ? metric_find(host->chip, name, &ending) : NULL;

	if (m && *ending == '\0') {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	if (!m || !metric_has_ending(m, ending) || (m->is_sass && host->is_sampled) ||
	    !metric_set_add(&host->set, m)) {
		return CUPTI_ERROR_UNKNOWN;
	}
	return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostConfigAddMetrics(CUpti_Profiler_Host_ConfigAddMetrics_Params *params)
{
	CUptiResult r = BEGIN("cuptiProfilerHostConfigAddMetrics", params);

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (!params->pHostObject || !params->ppMetricNames || !params->numMetrics) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	if (params->pHostObject->is_spoilt) {
		return CUPTI_ERROR_UNKNOWN;
	}
	metric_set_begin(&params->pHostObject->set);
	for (size_t i = 0; i < params->numMetrics && r == CUPTI_SUCCESS; i++) {
		r = add_metric(params->pHostObject, params->ppMetricNames[i]);
	}
	params->pHostObject->is_spoilt = r != CUPTI_SUCCESS;
	return r;
}

CUptiResult
cuptiProfilerHostGetConfigImageSize(CUpti_Profiler_Host_GetConfigImageSize_Params *params)
{
	CUptiResult r = BEGIN("cuptiProfilerHostGetConfigImageSize", params);

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (!params->pHostObject) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	if (params->pHostObject->is_spoilt || !params->pHostObject->set.count) {
		return CUPTI_ERROR_UNKNOWN;
	}
	params->configImageSize = sizeof(struct config_image);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostGetConfigImage(CUpti_Profiler_Host_GetConfigImage_Params *params)
{
	CUptiResult r = BEGIN("cuptiProfilerHostGetConfigImage", params);
	struct config_image image = { .magic = CONFIG_MAGIC };

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (!params->pHostObject || !params->pConfigImage || params->pHostObject->is_spoilt ||
	    params->configImageSize < sizeof(image)) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	image.chip = params->pHostObject->chip;
	image.is_sampled = params->pHostObject->is_sampled;
	image.set = params->pHostObject->set;
	image.checksum = metric_checksum(&image.set);
	memcpy(params->pConfigImage, &image, sizeof(image));
	return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostGetNumOfPasses(CUpti_Profiler_Host_GetNumOfPasses_Params *params)
{
	CUptiResult r = BEGIN("cuptiProfilerHostGetNumOfPasses", params);
	struct config_image image;

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (!params->pConfigImage || params->configImageSize < sizeof(image)) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	memcpy(&image, params->pConfigImage, sizeof(image));
	if (image.magic != CONFIG_MAGIC || image.checksum != metric_checksum(&image.set)) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	params->numOfPasses = image.set.passes;
	return CUPTI_SUCCESS;
}

/* A range of an image that a user handed in, or NULL. */
static const struct data_range *find_range(const uint8_t *bytes, size_t size, size_t index)
{
	const struct data_image *image = (const void *)bytes;

	if (!bytes || (uintptr_t)bytes % 8 != 0 || size < sizeof(*image) ||
	    image->magic != DATA_MAGIC || image->count > image->capacity ||
	    (size - sizeof(*image)) / sizeof(image->range[0]) < image->count ||
	    index >= image->count) {
		return NULL;
	}
	return &image->range[index];
}

CUptiResult cuptiProfilerHostGetRangeName(CUpti_Profiler_Host_GetRangeName_Params *params)
{
	CUptiResult r = BEGIN("cuptiProfilerHostGetRangeName", params);
	const struct data_range *range;

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	range = find_range(params->pCounterDataImage, params->counterDataImageSize,
			   params->rangeIndex);
	if (!range) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	params->pRangeName = strdup(range->name); /* the caller frees it */
	return params->pRangeName ? CUPTI_SUCCESS : CUPTI_ERROR_OUT_OF_MEMORY;
}

/* NaN: the image was not made for this metric, or not all its passes ran. As CUPTI does, this
 * believes what an image says; a wrong one leads out of the image's memory. */
static double evaluate(const struct data_image *image, const struct data_range *range,
		       const struct metric *m, const char *ending)
{
	if (image->set.count > METRIC_MAX) {
		raise(SIGSEGV);
	}
	for (uint32_t i = 0; i < image->set.count && i < METRIC_MAX; i++) {
		uint32_t needed = image->set.pass_mask[i];

		if (&metric_catalogue[image->set.metric[i]] == m &&
		    (range->passes_done & needed) == needed) {
			return metric_value(m, ending, &range->work);
		}
	}
	return NAN;
}

/* In sleeps that are long enough to be exact. */
static void take_time(void)
{
	const char *each = getenv("GPUCTR_FAKE_EVALUATE_NS");
	static _Atomic long owed;

	if (each && atomic_fetch_add(&owed, strtol(each, NULL, 10)) > EVALUATE_SLEEP_NS) {
		nanosleep(&(struct timespec){ 0, atomic_exchange(&owed, 0) }, NULL);
	}
}

CUptiResult
cuptiProfilerHostEvaluateToGpuValues(CUpti_Profiler_Host_EvaluateToGpuValues_Params *params)
{
	CUptiResult r = BEGIN("cuptiProfilerHostEvaluateToGpuValues", params);
	const struct data_range *range;

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	range = find_range(params->pCounterDataImage, params->counterDataImageSize,
			   params->rangeIndex);
	if (!range || !params->pHostObject || !params->ppMetricNames || !params->pMetricValues) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	take_time();
	for (size_t i = 0; i < params->numMetrics; i++) {
		const char *ending;
		const struct metric *m =
			metric_find(params->pHostObject->chip, params->ppMetricNames[i], &ending);

		if (!m || !metric_has_ending(m, ending)) {
			return CUPTI_ERROR_INVALID_METRIC_NAME;
		}
		params->pMetricValues[i] =
			evaluate((const void *)params->pCounterDataImage, range, m, ending);
	}
	return CUPTI_SUCCESS;
}
