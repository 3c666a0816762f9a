/* SPDX-License-Identifier: Apache-2.0 */
#include "client/sampler/pm.h"

CUptiResult pm_enable(struct pm *pm)
{
	CUpti_PmSampling_Enable_Params p = {
		.structSize = CUpti_PmSampling_Enable_Params_STRUCT_SIZE,
		.deviceIndex = (size_t)pm->device,
	};
	CUptiResult result = pm->v.cuptiPmSamplingEnable(&p);

	pm->object = result == CUPTI_SUCCESS ? p.pPmSamplingObject : NULL;
	return result;
}

CUptiResult pm_disable(struct pm *pm)
{
	CUpti_PmSampling_Disable_Params p = {
		.structSize = CUpti_PmSampling_Disable_Params_STRUCT_SIZE,
		.pPmSamplingObject = pm->object,
	};

	pm->object = NULL;
	return pm->v.cuptiPmSamplingDisable(&p);
}

CUptiResult pm_configure(struct pm *pm, const struct host_config *config, size_t buffer_bytes,
			 uint64_t interval_ns)
{
	CUpti_PmSampling_SetConfig_Params p = {
		.structSize = CUpti_PmSampling_SetConfig_Params_STRUCT_SIZE,
		.pPmSamplingObject = pm->object,
		.configSize = config->size,
		.pConfig = config->image,
		.hardwareBufferSize = buffer_bytes,
		.samplingInterval = interval_ns,
		.triggerMode = CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL,
		.hwBufferAppendMode = CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST,
	};

	return pm->v.cuptiPmSamplingSetConfig(&p);
}

CUptiResult pm_start(struct pm *pm)
{
	CUpti_PmSampling_Start_Params p = {
		.structSize = CUpti_PmSampling_Start_Params_STRUCT_SIZE,
		.pPmSamplingObject = pm->object,
	};
	CUptiResult result = pm->v.cuptiPmSamplingStart(&p);

	pm->is_started = result == CUPTI_SUCCESS;
	return result;
}

CUptiResult pm_stop(struct pm *pm)
{
	CUpti_PmSampling_Stop_Params p = {
		.structSize = CUpti_PmSampling_Stop_Params_STRUCT_SIZE,
		.pPmSamplingObject = pm->object,
	};

	pm->is_started = false;
	return pm->v.cuptiPmSamplingStop(&p);
}

static CUptiResult image_bytes(const struct pm *pm, const struct metrics_set *metrics,
			       uint32_t samples, size_t *ret)
{
	CUpti_PmSampling_GetCounterDataSize_Params p = {
		.structSize = CUpti_PmSampling_GetCounterDataSize_Params_STRUCT_SIZE,
		.pPmSamplingObject = pm->object,
		.pMetricNames = (const char **)(uintptr_t)metrics->v,
		.numMetrics = metrics->n,
		.maxSamples = samples,
	};
	CUptiResult result = pm->v.cuptiPmSamplingGetCounterDataSize(&p);

	*ret = p.counterDataSize;
	return result;
}

CUptiResult pm_layout(struct pm *pm, const struct metrics_set *metrics, uint32_t samples,
		      struct image_layout *ret)
{
	size_t twice, once = 0;
	CUptiResult result = image_bytes(pm, metrics, 2 * samples, &twice);

	if (result == CUPTI_SUCCESS) {
		result = image_bytes(pm, metrics, samples, &once);
	}
	if (result == CUPTI_SUCCESS) {
		size_t each = (twice - once) / samples, most = once / samples;

		pm->room = ret->room = samples;
		ret->sample = each < most ? each : most;
		ret->head = once - samples * ret->sample;
	}
	return result;
}

CUptiResult pm_init_image(const struct pm *pm, struct image *image)
{
	CUpti_PmSampling_CounterDataImage_Initialize_Params p = {
		.structSize = CUpti_PmSampling_CounterDataImage_Initialize_Params_STRUCT_SIZE,
		.pPmSamplingObject = pm->object,
		.counterDataSize = image->bytes,
		.pCounterData = image->data,
	};

	return pm->v.cuptiPmSamplingCounterDataImageInitialize(&p);
}

CUptiResult pm_decode(const struct pm *pm, struct image *image, bool *ret_is_full,
		      bool *ret_overflows)
{
	CUpti_PmSampling_DecodeData_Params p = {
		.structSize = CUpti_PmSampling_DecodeData_Params_STRUCT_SIZE,
		.pPmSamplingObject = pm->object,
		.pCounterDataImage = image->data,
		.counterDataImageSize = image->bytes,
	};
	CUptiResult result = pm->v.cuptiPmSamplingDecodeData(&p);

	*ret_is_full = p.decodeStopReason == CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL;
	*ret_overflows = p.overflow != 0 || result == CUPTI_ERROR_OUT_OF_MEMORY;
	return result;
}

CUptiResult pm_count(const struct pm *pm, const struct image *image, size_t *ret_complete,
		     size_t *ret_all)
{
	CUpti_PmSampling_GetCounterDataInfo_Params p = {
		.structSize = CUpti_PmSampling_GetCounterDataInfo_Params_STRUCT_SIZE,
		.pCounterDataImage = image->data,
		.counterDataImageSize = image->bytes,
	};
	CUptiResult result = pm->v.cuptiPmSamplingGetCounterDataInfo(&p);

	*ret_complete = p.numCompletedSamples;
	*ret_all = p.numPopulatedSamples;
	return result;
}

CUptiResult pm_times(const struct pm *pm, const struct image *image, size_t sample,
		     int64_t ret_ns[2])
{
	CUpti_PmSampling_CounterData_GetSampleInfo_Params p = {
		.structSize = CUpti_PmSampling_CounterData_GetSampleInfo_Params_STRUCT_SIZE,
		.pPmSamplingObject = pm->object,
		.pCounterDataImage = image->data,
		.counterDataImageSize = image->bytes,
		.sampleIndex = sample,
	};
	CUptiResult result = pm->v.cuptiPmSamplingCounterDataGetSampleInfo(&p);

	ret_ns[0] = (int64_t)p.startTimestamp;
	ret_ns[1] = (int64_t)p.endTimestamp;
	return result;
}
