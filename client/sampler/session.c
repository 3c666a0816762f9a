/* SPDX-License-Identifier: Apache-2.0 */
#include "client/sampler/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/sampler/metrics.h"
#include "client/sampler/refuse.h"
#include "proto/base/clock.h"
#include "proto/nvidia/uuid.h"

/* PM sampling wants no context: it counts whatever runs on the GPU. The hardware writes samples
 * into a buffer; decoding moves them into an image, and each is evaluated from there. At 10 us that
 * is most of the work here. Emptying an image costs by its size (0.2 us a sample of dram__bytes_*),
 * so an image is used until only what three drains bring has room.
 *
 * An image that becomes full costs samples: behind the 100 to 600 samples that the next image gets
 * at once, as many are missing (H100, CUPTI 2025.3). So an image that has room for one and a half
 * drains alone is emptied at the price of its last sample, which may be incomplete, and one that
 * was full all the same doubles.
 *
 * The first sample after Start begins at some earlier time, so it is left out. When the buffer runs
 * over, CUPTI says OUT_OF_MEMORY or sets a flag, and how many samples are missing nobody knows: so
 * sampling begins anew, and the gap's length in time tells how many. Counters that were taken away
 * show as an error, or as samples that come no more. */

enum {
	SAMPLES_FIRST = 16384,
	SAMPLES_MIN = 64,
	OVERFLOWS_MAX = 3,
	SILENT_INTERVALS = 200,
	ROUNDS_MAX =
		64, /* rounds of a drain that hardly keeps up, after which signals are looked at */
};

#define IMAGE_FIRST_BYTES (UINT64_C(64) << 20)
#define IMAGE_MAX_BYTES (UINT64_C(256) << 20)
#define SHORT_INTERVAL_NS 20000
#define OVERFLOWS_APART_NS CLOCK_NS_PER_S  /* with more frequent losses samples do not keep up */
#define LAST_DRAIN_NS (2 * CLOCK_NS_PER_S) /* afterwards, what is left in the buffer is missing */
#define SILENT_NS (3 * CLOCK_NS_PER_S)

static uint64_t buffer_bytes(const struct session_options *o)
{
	return o->buffer_bytes			     ? o->buffer_bytes
	       : o->interval_ns <= SHORT_INTERVAL_NS ? UINT64_C(512) << 20
						     : UINT64_C(256) << 20;
}

static int refuse(const struct session *s, CUptiResult result, const char *call, struct refusal *r)
{
	return refuse_call(&s->host, &s->vendor, result, call, buffer_bytes(s->options), r);
}

/* While sampling: what fails then was taken away. */
static int cut_off(const struct session *s, CUptiResult result, const char *call, struct refusal *r)
{
	refusal_set(r, SAMPLER_CUT_OFF, "`gpuctr-client status` shows who has them now.",
		    "the counters were taken away, or the GPU is lost (%s: %s)", call,
		    result == CUPTI_SUCCESS ? "no samples come any more"
					    : host_result_name(&s->vendor, result));
	return r->code;
}

/* --- opening --- */

static bool is_device(const struct session *s, int i, CUdevice device, const char *gpu)
{
	char index[16], uuid[SAMPLER_UUID_BYTES];
	CUuuid bytes;

	snprintf(index, sizeof(index), "%d", i);
	if (s->driver.cuDeviceGetUuid(&bytes, device) != CUDA_SUCCESS) {
		return false;
	}
	uuid_format(&bytes, uuid, sizeof(uuid));
	return strcmp(gpu, index) == 0 || strcmp(gpu, uuid) == 0;
}

static int find_device(struct session *s, struct refusal *r)
{
	CUdevice device;
	CUuuid bytes;
	int n = 0;

	if (s->driver.cuInit(0) != CUDA_SUCCESS || s->driver.cuDeviceGetCount(&n) != CUDA_SUCCESS) {
		n = 0;
	}
	for (int i = 0; i < n; i++) {
		if (s->driver.cuDeviceGet(&device, i) == CUDA_SUCCESS &&
		    is_device(s, i, device, s->options->gpu)) {
			s->device = i;
			s->driver.cuDeviceGetUuid(&bytes, device);
			uuid_format(&bytes, s->uuid, sizeof(s->uuid));
			return 0;
		}
	}
	refusal_set(r, SAMPLER_NO_GPU,
		    "`gpuctr-client status` lists GPUs; CUDA_VISIBLE_DEVICES may hide some.",
		    "CUDA shows no GPU %.64s (%d in all)", s->options->gpu, n);
	return r->code;
}

static int open_libraries(struct session *s, struct refusal *r)
{
	CUpti_Profiler_Initialize_Params init = {
		.structSize = CUpti_Profiler_Initialize_Params_STRUCT_SIZE,
	};
	char chip[sizeof(s->host.chip)];
	int code;

	if (vendor_open_driver(&s->driver, r) != 0) {
		return r->code = SAMPLER_NO_CUPTI;
	}
	code = find_device(s, r);
	if (code != 0) {
		return code;
	}
	if (vendor_open_host(&s->vendor, r) != 0 ||
	    vendor_open_sampling(&s->vendor, &s->pm, r) != 0) {
		return r->code = SAMPLER_NO_CUPTI;
	}
	vendor_chip_name(&s->vendor, (size_t)s->device, chip, sizeof(chip));
	if (s->vendor.cuptiProfilerInitialize(&init) != CUPTI_SUCCESS) {
		return refuse(s, CUPTI_ERROR_UNKNOWN, "cuptiProfilerInitialize", r);
	}
	return host_init_sampling(&s->host, &s->vendor, chip, r) != 0 ? (r->code = SAMPLER_NO_CHIP)
								      : 0;
}

static CUptiResult set_config(struct session *s)
{
	CUpti_PmSampling_SetConfig_Params p = {
		.structSize = CUpti_PmSampling_SetConfig_Params_STRUCT_SIZE,
		.pPmSamplingObject = s->object,
		.configSize = s->config.size,
		.pConfig = s->config.image,
		.hardwareBufferSize = buffer_bytes(s->options),
		.samplingInterval = s->options->interval_ns,
		.triggerMode = CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL,
		.hwBufferAppendMode = CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST,
	};

	return s->pm.cuptiPmSamplingSetConfig(&p);
}

static CUptiResult init_image(struct session *s)
{
	CUpti_PmSampling_CounterDataImage_Initialize_Params p = {
		.structSize = CUpti_PmSampling_CounterDataImage_Initialize_Params_STRUCT_SIZE,
		.pPmSamplingObject = s->object,
		.counterDataSize = s->image_bytes,
		.pCounterData = s->image,
	};

	s->taken = 0;
	return s->pm.cuptiPmSamplingCounterDataImageInitialize(&p);
}

static CUptiResult size_image(const struct session *s, uint32_t samples, size_t *ret)
{
	CUpti_PmSampling_GetCounterDataSize_Params p = {
		.structSize = CUpti_PmSampling_GetCounterDataSize_Params_STRUCT_SIZE,
		.pPmSamplingObject = s->object,
		.pMetricNames = (const char **)(uintptr_t)s->options->metrics,
		.numMetrics = s->options->n_metrics,
		.maxSamples = samples,
	};
	CUptiResult result = s->pm.cuptiPmSamplingGetCounterDataSize(&p);

	*ret = p.counterDataSize;
	return result;
}

/* If this fails, the present image stays. */
static CUptiResult make_image(struct session *s, uint32_t samples)
{
	size_t bytes = 0;
	CUptiResult result = size_image(s, samples, &bytes);
	uint8_t *image = result == CUPTI_SUCCESS ? calloc(1, bytes) : NULL;

	if (!image) {
		return result == CUPTI_SUCCESS ? CUPTI_ERROR_OUT_OF_MEMORY : result;
	}
	free(s->image);
	s->image = image;
	s->image_bytes = bytes;
	s->samples = samples;
	return init_image(s);
}

static CUptiResult make_first_image(struct session *s)
{
	uint32_t samples = SAMPLES_FIRST;
	size_t bytes = 0;
	CUptiResult result = size_image(s, samples, &bytes);

	if (result == CUPTI_SUCCESS && bytes > IMAGE_FIRST_BYTES) {
		samples = (uint32_t)(IMAGE_FIRST_BYTES * samples / bytes);
		samples = samples > SAMPLES_MIN ? samples : SAMPLES_MIN;
	}
	return result == CUPTI_SUCCESS ? make_image(s, samples) : result;
}

static CUptiResult empty_image(struct session *s, bool is_full)
{
	bool grows = is_full && 2 * s->image_bytes <= IMAGE_MAX_BYTES;

	return grows && make_image(s, 2 * s->samples) == CUPTI_SUCCESS ? CUPTI_SUCCESS
								       : init_image(s);
}

static int enable(struct session *s, struct refusal *r)
{
	CUpti_PmSampling_Enable_Params p = {
		.structSize = CUpti_PmSampling_Enable_Params_STRUCT_SIZE,
		.deviceIndex = (size_t)s->device,
	};
	CUptiResult result = s->pm.cuptiPmSamplingEnable(&p);

	if (result != CUPTI_SUCCESS) {
		return refuse(s, result, "cuptiPmSamplingEnable", r);
	}
	s->object = p.pPmSamplingObject;
	result = set_config(s);
	if (result != CUPTI_SUCCESS) {
		return refuse(s, result, "cuptiPmSamplingSetConfig", r);
	}
	result = make_first_image(s);
	return result == CUPTI_SUCCESS ? 0 : refuse(s, result, "the counter data image", r);
}

int session_open(struct session *s, const struct session_options *o, struct refusal *r)
{
	int code;

	*s = (struct session){ .options = o };
	code = open_libraries(s, r);
	code = code ? code : metrics_configure(&s->host, o->metrics, o->n_metrics, &s->config, r);
	return code ? code : enable(s, r);
}

/* --- sampling --- */

static CUptiResult start(struct session *s)
{
	CUpti_PmSampling_Start_Params p = {
		.structSize = CUpti_PmSampling_Start_Params_STRUCT_SIZE,
		.pPmSamplingObject = s->object,
	};
	CUptiResult result = s->pm.cuptiPmSamplingStart(&p);

	s->is_started = result == CUPTI_SUCCESS;
	s->skips = true;
	s->progress_ns = clock_now_ns();
	return result;
}

static CUptiResult stop(struct session *s)
{
	CUpti_PmSampling_Stop_Params p = {
		.structSize = CUpti_PmSampling_Stop_Params_STRUCT_SIZE,
		.pPmSamplingObject = s->object,
	};

	s->is_started = false;
	return s->pm.cuptiPmSamplingStop(&p);
}

int session_start(struct session *s, struct refusal *r)
{
	CUptiResult result = start(s);

	return result == CUPTI_SUCCESS ? 0 : refuse(s, result, "cuptiPmSamplingStart", r);
}

static CUptiResult decode(struct session *s, bool *ret_is_full, bool *ret_overflows)
{
	CUpti_PmSampling_DecodeData_Params p = {
		.structSize = CUpti_PmSampling_DecodeData_Params_STRUCT_SIZE,
		.pPmSamplingObject = s->object,
		.pCounterDataImage = s->image,
		.counterDataImageSize = s->image_bytes,
	};
	CUptiResult result = s->pm.cuptiPmSamplingDecodeData(&p);

	*ret_is_full = p.decodeStopReason == CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL;
	*ret_overflows = p.overflow != 0 || result == CUPTI_ERROR_OUT_OF_MEMORY;
	return result;
}

/* The number of samples in the image. False: CUPTI does not say. */
static bool count_samples(const struct session *s, size_t *ret_complete, size_t *ret_all)
{
	CUpti_PmSampling_GetCounterDataInfo_Params p = {
		.structSize = CUpti_PmSampling_GetCounterDataInfo_Params_STRUCT_SIZE,
		.pCounterDataImage = s->image,
		.counterDataImageSize = s->image_bytes,
	};

	if (s->pm.cuptiPmSamplingGetCounterDataInfo(&p) != CUPTI_SUCCESS) {
		return false;
	}
	*ret_complete = p.numCompletedSamples;
	*ret_all = p.numPopulatedSamples;
	return true;
}

/* How many samples are missing until start_ns. */
static uint64_t missing(const struct session *s, int64_t start_ns)
{
	uint64_t gap = (uint64_t)(start_ns - s->end_ns), interval = s->options->interval_ns;
	uint64_t n = (gap + interval / 2) / interval;

	return n > 0 ? n : 1;
}

static CUptiResult take_sample(struct session *s, size_t i, struct sampler_writer *w)
{
	CUpti_PmSampling_CounterData_GetSampleInfo_Params p = {
		.structSize = CUpti_PmSampling_CounterData_GetSampleInfo_Params_STRUCT_SIZE,
		.pPmSamplingObject = s->object,
		.pCounterDataImage = s->image,
		.counterDataImageSize = s->image_bytes,
		.sampleIndex = i,
	};
	CUptiResult result = s->pm.cuptiPmSamplingCounterDataGetSampleInfo(&p);
	double values[SAMPLER_METRICS_MAX];
	int64_t start_ns = (int64_t)p.startTimestamp, end_ns = (int64_t)p.endTimestamp;

	if (result != CUPTI_SUCCESS) {
		return result;
	}
	if (s->skips || end_ns <= start_ns || start_ns < s->end_ns) {
		s->skips = false;
		return CUPTI_SUCCESS;
	}
	result = host_evaluate(&s->host, s->image, s->image_bytes, i, s->options->metrics,
			       s->options->n_metrics, values);
	if (result != CUPTI_SUCCESS) {
		return result;
	}
	if (s->end_ns != 0 && start_ns > s->end_ns) {
		sampler_writer_lost(w, missing(s, start_ns));
	}
	sampler_writer_sample(w, start_ns, end_ns, values);
	s->end_ns = end_ns;
	return CUPTI_SUCCESS;
}

/* came: samples of the last drain; complete: all samples are. */
static bool is_used_up(const struct session *s, size_t all, size_t came, bool complete)
{
	return all + came + came / 2 > s->samples || (complete && all + 3 * came > s->samples);
}

/* Takes the samples that are complete. */
static CUptiResult take_image(struct session *s, struct sampler_writer *w, bool is_full)
{
	CUptiResult result = CUPTI_SUCCESS;
	size_t n = 0, all = 0, came;

	if (!count_samples(s, &n, &all)) {
		return CUPTI_ERROR_UNKNOWN;
	}
	came = n - s->taken;
	if (came > 0) {
		s->progress_ns = clock_now_ns();
	}
	while (s->taken < n && result == CUPTI_SUCCESS) {
		result = take_sample(s, s->taken++, w);
	}
	if (result == CUPTI_SUCCESS && (is_full || is_used_up(s, all, came, all == n))) {
		result = empty_image(s, is_full);
	}
	return result;
}

static int begin_anew(struct session *s, struct refusal *r)
{
	uint64_t now = clock_now_ns();
	CUptiResult result;

	s->overflows++;
	s->in_a_row = now < s->overflow_ns + OVERFLOWS_APART_NS ? s->in_a_row + 1 : 1;
	s->overflow_ns = now;
	if (s->in_a_row > OVERFLOWS_MAX) {
		return refuse_interval("cuptiPmSamplingDecodeData", r);
	}
	result = stop(s);
	result = result == CUPTI_SUCCESS ? init_image(s) : result;
	result = result == CUPTI_SUCCESS ? start(s) : result;
	return result == CUPTI_SUCCESS ? 0 : refuse_interval("beginning anew after an overflow", r);
}

static bool is_silent(const struct session *s)
{
	uint64_t patience = s->options->interval_ns * SILENT_INTERVALS;

	patience = patience > SILENT_NS ? patience : SILENT_NS;
	return clock_now_ns() - s->progress_ns > patience;
}

int session_drain(struct session *s, struct sampler_writer *w, struct refusal *r)
{
	bool is_full = true, overflows = false;

	for (unsigned i = 0; is_full && i < ROUNDS_MAX; i++) {
		CUptiResult result = decode(s, &is_full, &overflows);

		if (result != CUPTI_SUCCESS && !overflows) {
			return cut_off(s, result, "cuptiPmSamplingDecodeData", r);
		}
		result = take_image(s, w, is_full);
		if (result != CUPTI_SUCCESS) {
			return cut_off(s, result, "evaluation", r);
		}
		if (overflows) {
			return begin_anew(s, r);
		}
	}
	return is_silent(s) ? cut_off(s, CUPTI_SUCCESS, "cuptiPmSamplingDecodeData", r) : 0;
}

int session_stop(struct session *s, struct sampler_writer *w, struct refusal *r)
{
	uint64_t give_up_ns = clock_now_ns() + LAST_DRAIN_NS;
	int64_t stopped_ns = (int64_t)clock_wall_ns(); /* samples have this clock */
	bool is_full = true, overflows;
	CUptiResult result;

	if (!s->is_started) {
		return 0;
	}
	result = stop(s);
	while (result == CUPTI_SUCCESS && is_full && clock_now_ns() < give_up_ns) {
		result = decode(s, &is_full, &overflows);
		result = result == CUPTI_SUCCESS ? take_image(s, w, is_full) : result;
		s->overflows += overflows;
	}
	if (is_full && s->end_ns != 0 && stopped_ns > s->end_ns) {
		sampler_writer_lost(w, missing(s, stopped_ns));
	}
	return result == CUPTI_SUCCESS ? 0 : cut_off(s, result, "cuptiPmSamplingStop", r);
}

void session_close(struct session *s)
{
	CUpti_PmSampling_Disable_Params disable = {
		.structSize = CUpti_PmSampling_Disable_Params_STRUCT_SIZE,
		.pPmSamplingObject = s->object,
	};
	CUpti_Profiler_DeInitialize_Params deinit = {
		.structSize = CUpti_Profiler_DeInitialize_Params_STRUCT_SIZE,
	};

	if (s->is_started) {
		stop(s);
	}
	if (s->object) {
		s->pm.cuptiPmSamplingDisable(&disable);
	}
	if (s->host.object) {
		host_deinit(&s->host);
		s->vendor.cuptiProfilerDeInitialize(&deinit);
	}
	host_config_deinit(&s->config);
	free(s->image);
}
