/* SPDX-License-Identifier: Apache-2.0 */
/* The fake PM sampling: counters of a whole GPU over time, whoever's kernels run on it.
 *
 *	Enable -> GetCounterDataSize -> CounterDataImageInitialize -> SetConfig ->
 *	(Start -> (DecodeData -> CounterDataImageInitialize)* -> Stop -> DecodeData*)* -> Disable
 *
 * Programs note what the GPU has done in the state that all share (state.h) while it is sampled. A
 * kernel's work is spread evenly over its own time, to the last thread, so the sum of all samples
 * is what kernels did. A kernel that is noted when its samples were decoded already counts in the
 * next one: samples are decoded LAG_NS after their end, so this is rare.
 *
 * Samples follow each other without a gap. The first one after Start begins a second before, or at
 * the Stop before it, and holds nonsense, as it spans what nobody asked for (H200). When more
 * samples wait than the hardware's buffer holds, DecodeData answers OUT_OF_MEMORY until Stop, and
 * what waits is lost. */

#include "tests/fake/left.h"
#include "tests/fake/profiler.h"
#include "tests/fake/state.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	MAX_SAMPLERS = FAKE_MAX_GPUS,
	MAX_WAITING = 1 << 17, /* samples */
	RECORD_BYTES = 256,    /* of a sample in the hardware's buffer */
	SM_RECORD_BYTES = 26000,
	LAG_NS = 2000000,
	BACK_AFTER_NS = 300000000,
	NONSENSE = 1234567,
};

enum { CLOCK_DECODES = 7, CLOCK_AHEAD_NS = 100 }; /* between two corrections; by so much */

#define SECOND_NS UINT64_C(1000000000)

struct CUpti_PmSampling_Object {
	int gpu;
	struct fake_profiler permission;
	_Atomic bool busy; /* a thread is inside of a call */
	struct config_image config;
	bool has_config, is_started, is_silent;
	struct metric_set layout;
	size_t image_bytes;
	uint64_t interval_ns, capacity; /* of the hardware's buffer, in samples */

	uint64_t origin_ns; /* where sample 1 begins */
	uint64_t before_ns; /* where sample 0 begins */
	uint64_t stop_ns;   /* 0: never stopped */
	uint64_t back_ns;   /* so far the clock is set back, in the middle */
	uint64_t next;	    /* sample to be decoded */
	uint64_t decodes;
	uint64_t done;			       /* of fake_done_take() */
	struct fake_work waiting[MAX_WAITING]; /* a ring, from next on */
};

static _Atomic long starts;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUpti_PmSampling_Object *samplers[MAX_SAMPLERS]; /* by GPU */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

/* From this Start of the process on no sample comes, and nobody says why. */
static bool is_silent(long start)
{
	const char *first = getenv("GPUCTR_FAKE_SILENT");

	return first && start >= strtol(first, NULL, 10);
}

static uint64_t set_back_ns(void)
{
	const char *ms = getenv("GPUCTR_FAKE_SET_BACK_MS");

	return ms ? strtoul(ms, NULL, 10) * (SECOND_NS / 1000) : 0;
}

static void take_time(uint64_t samples)
{
	const char *each = getenv("GPUCTR_FAKE_DECODE_NS");
	uint64_t ns = each ? samples * strtoul(each, NULL, 10) : 0;

	nanosleep(&(struct timespec){ (time_t)(ns / SECOND_NS), (long)(ns % SECOND_NS) }, NULL);
}

/* What who has taken this library over would try. */
static void break_out(void)
{
	(void)execl("/bin/true", "true", (char *)NULL);
	dprintf(STDERR_FILENO, "execve: %s; ", strerror(errno));
	errno = 0;
	(void)socket(AF_INET, SOCK_DGRAM, 0);
	dprintf(STDERR_FILENO, "a socket of the network: %s; ", strerror(errno));
	errno = 0;
	(void)ptrace(PTRACE_TRACEME);
	dprintf(STDERR_FILENO, "ptrace: %s\n", strerror(errno));
}

static bool is_known(const struct CUpti_PmSampling_Object *p)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < MAX_SAMPLERS; i++) {
		found = found || (p && samplers[i] == p);
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static CUptiResult enter(const char *function, const void *params, size_t size,
			 struct CUpti_PmSampling_Object *p)
{
	if (!call_has_size(params, size) || !is_known(p)) {
		fake_violation("%s: struct size, or not enabled", function);
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	return call_begin_alone(function, &p->busy);
}

static CUptiResult leave(struct CUpti_PmSampling_Object *p, CUptiResult r)
{
	atomic_store(&p->busy, false);
	return r;
}

static CUptiResult out_of_order(struct CUpti_PmSampling_Object *p, const char *what)
{
	fake_violation("PM sampling: %s", what);
	return leave(p, CUPTI_ERROR_INVALID_OPERATION);
}

static bool permission_is_gone(const struct CUpti_PmSampling_Object *p)
{
	return !fake_object_exists(p->permission.file, p->permission.h_root,
				   p->permission.h_object);
}

/* --- from Enable to Start --- */

static CUptiResult allocate(int gpu, struct fake_profiler *ret)
{
	int status = call_driver()->profiler_alloc(NULL, gpu, ret);

	return status == 0	? CUPTI_SUCCESS
	       : status == 0x1b ? CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
				: CUPTI_ERROR_UNKNOWN;
}

CUptiResult cuptiPmSamplingEnable(CUpti_PmSampling_Enable_Params *params)
{
	CUptiResult r = call_begin("cuptiPmSamplingEnable");
	struct CUpti_PmSampling_Object *p;
	int gpu;

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (!call_has_size(params, CUpti_PmSampling_Enable_Params_STRUCT_SIZE) || !call_driver()) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	gpu = call_driver()->device_gpu((int)params->deviceIndex);
	p = gpu < 0 ? NULL : calloc(1, sizeof(*p));
	if (!p) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	p->gpu = gpu;
	r = samplers[gpu] ? CUPTI_ERROR_INVALID_OPERATION : allocate(gpu, &p->permission);
	if (r != CUPTI_SUCCESS) {
		free(p);
		return r;
	}
	pthread_mutex_lock(&lock);
	samplers[gpu] = p;
	pthread_mutex_unlock(&lock);
	left_count(LEFT_SAMPLERS, 1);
	params->pPmSamplingObject = p;
	return CUPTI_SUCCESS;
}

static bool has_sm_metric(const struct metric_set *set)
{
	for (uint32_t i = 0; i < set->count; i++) {
		if (strncmp(metric_catalogue[set->metric[i]].name, "sm", 2) == 0) {
			return true;
		}
	}
	return false;
}

/* In an image. What samples take more than a range does is not used. */
static size_t sample_bytes(const struct metric_set *set)
{
	const char *bytes = getenv("GPUCTR_FAKE_SAMPLE_BYTES");

	return bytes		    ? strtoul(bytes, NULL, 10)
	       : has_sm_metric(set) ? SM_RECORD_BYTES
				    : sizeof(struct data_range);
}

CUptiResult cuptiPmSamplingGetCounterDataSize(CUpti_PmSampling_GetCounterDataSize_Params *params)
{
	struct CUpti_PmSampling_Object *p = params ? params->pPmSamplingObject : NULL;
	CUptiResult r = enter("cuptiPmSamplingGetCounterDataSize", params,
			      CUpti_PmSampling_GetCounterDataSize_Params_STRUCT_SIZE, p);
	const char *ending;

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	memset(&p->layout, 0, sizeof(p->layout));
	for (size_t i = 0; i < params->numMetrics; i++) {
		const struct metric *m = metric_find(CHIP_GH100, params->pMetricNames[i], &ending);

		if (!m || !metric_set_add(&p->layout, m)) {
			return leave(p, CUPTI_ERROR_INVALID_METRIC_NAME);
		}
	}
	p->image_bytes = params->counterDataSize =
		sizeof(struct data_image) + params->maxSamples * sample_bytes(&p->layout);
	return leave(p, CUPTI_SUCCESS);
}

CUptiResult cuptiPmSamplingCounterDataImageInitialize(
	CUpti_PmSampling_CounterDataImage_Initialize_Params *params)
{
	struct CUpti_PmSampling_Object *p = params ? params->pPmSamplingObject : NULL;
	CUptiResult r = enter("cuptiPmSamplingCounterDataImageInitialize", params,
			      CUpti_PmSampling_CounterDataImage_Initialize_Params_STRUCT_SIZE, p);
	struct data_image *image;
	uint32_t capacity;

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	image = (void *)params->pCounterData;
	if (!image || params->counterDataSize != p->image_bytes) {
		return leave(p, CUPTI_ERROR_INVALID_PARAMETER);
	}
	capacity =
		(uint32_t)((params->counterDataSize - sizeof(*image)) / sample_bytes(&p->layout));
	memset(image, 0, sizeof(*image) + capacity * sizeof(image->range[0]));
	image->magic = DATA_MAGIC;
	image->set = p->layout;
	image->capacity = capacity;
	return leave(p, CUPTI_SUCCESS);
}

CUptiResult cuptiPmSamplingSetConfig(CUpti_PmSampling_SetConfig_Params *params)
{
	struct CUpti_PmSampling_Object *p = params ? params->pPmSamplingObject : NULL;
	CUptiResult r = enter("cuptiPmSamplingSetConfig", params,
			      CUpti_PmSampling_SetConfig_Params_STRUCT_SIZE, p);
	uint64_t record;

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (p->is_started) {
		return out_of_order(p, "SetConfig between Start and Stop");
	}
	if (!params->pConfig || params->configSize < sizeof(p->config) ||
	    params->samplingInterval < 1000 ||
	    params->triggerMode != CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL) {
		return leave(p, CUPTI_ERROR_INVALID_PARAMETER);
	}
	memcpy(&p->config, params->pConfig, sizeof(p->config));
	if (p->config.magic != CONFIG_MAGIC || !p->config.is_sampled) {
		return leave(p, CUPTI_ERROR_INVALID_PARAMETER);
	}
	if (p->config.set.passes != 1) {
		return leave(p, CUPTI_ERROR_NOT_SUPPORTED);
	}
	record = has_sm_metric(&p->config.set) ? SM_RECORD_BYTES : RECORD_BYTES;
	p->interval_ns = params->samplingInterval;
	p->capacity = params->hardwareBufferSize / record;
	p->capacity = p->capacity < MAX_WAITING / 2 ? p->capacity : MAX_WAITING / 2;
	p->has_config = true;
	return leave(p, CUPTI_SUCCESS);
}

CUptiResult cuptiPmSamplingStart(CUpti_PmSampling_Start_Params *params)
{
	struct CUpti_PmSampling_Object *p = params ? params->pPmSamplingObject : NULL;
	CUptiResult r =
		enter("cuptiPmSamplingStart", params, CUpti_PmSampling_Start_Params_STRUCT_SIZE, p);
	struct fake_owner owner = { .pid = getpid(), .token = (uintptr_t)p };

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (getenv("GPUCTR_FAKE_EXEC")) {
		break_out();
	}
	if (!p->has_config || p->is_started) {
		return out_of_order(p, "Start before SetConfig or after Start");
	}
	if (permission_is_gone(p)) {
		return leave(p, CUPTI_ERROR_UNKNOWN);
	}
	if (!fake_object_is_permitted(p->permission.file, p->permission.h_root,
				      p->permission.h_object)) {
		return leave(p, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
	}
	owner.file = p->permission.file;
	owner.h_root = p->permission.h_root;
	owner.h_object = p->permission.h_object;
	if (!fake_gpu_acquire(p->gpu, &owner)) {
		return leave(p, CUPTI_ERROR_HARDWARE_BUSY);
	}
	memset(p->waiting, 0, sizeof(p->waiting));
	atomic_fetch_or(&fake_state()->samplers, 1u << p->gpu);
	p->done = atomic_load(&fake_state()->done_used);
	p->origin_ns = now_ns();
	p->before_ns = p->stop_ns ? p->stop_ns : p->origin_ns - SECOND_NS;
	p->waiting[0].threads = NONSENSE;
	p->next = 0;
	p->is_started = true;
	p->is_silent = is_silent(atomic_fetch_add(&starts, 1) + 1);
	p->back_ns = set_back_ns();
	return leave(p, CUPTI_SUCCESS);
}

/* --- samples --- */

/* The timer of a GPU is not quite even. */
static uint64_t begin_of(const struct CUpti_PmSampling_Object *p, uint64_t sample)
{
	return sample == 0 ? p->before_ns
			   : p->origin_ns + (sample - 1) * p->interval_ns +
				     (sample > 1 ? 16 * (sample % 2) : 0);
}

static uint64_t sample_at(const struct CUpti_PmSampling_Object *p, uint64_t ns)
{
	uint64_t sample = ns < p->origin_ns ? 0 : (ns - p->origin_ns) / p->interval_ns + 1;

	while (sample > 0 && begin_of(p, sample) > ns) {
		sample--;
	}
	while (begin_of(p, sample + 1) <= ns) {
		sample++;
	}
	return sample;
}

/* The part of n that lies before at_ns. */
static uint64_t part(uint64_t n, const struct fake_done *d, uint64_t at_ns)
{
	uint64_t before = at_ns <= d->begin_ns		 ? 0
			  : at_ns >= d->begin_ns + d->ns ? d->ns
							 : at_ns - d->begin_ns;

	return d->ns == 0 ? n : (uint64_t)((unsigned __int128)n * before / d->ns);
}

static void spread(struct CUpti_PmSampling_Object *p, const struct fake_done *d)
{
	uint64_t first = sample_at(p, d->begin_ns), last = sample_at(p, d->begin_ns + d->ns);
	uint64_t threads = 0, warps = 0;

	first = first > p->next ? first : p->next;
	last = last > first ? last : first;
	last = last < p->next + MAX_WAITING ? last : p->next + MAX_WAITING - 1;
	first = first < last ? first : last;
	for (uint64_t i = first; i <= last; i++) {
		struct fake_work *w = &p->waiting[i % MAX_WAITING];
		uint64_t end = begin_of(p, i + 1);
		uint64_t t = i == last ? d->threads : part(d->threads, d, end);
		uint64_t n = i == last ? d->warps : part(d->warps, d, end);

		w->threads += t - threads;
		w->warps += n - warps;
		threads = t;
		warps = n;
	}
}

static void take_done(struct CUpti_PmSampling_Object *p)
{
	struct fake_done d;

	while (fake_done_take(&p->done, &d)) {
		if (d.gpu == p->gpu && d.begin_ns + d.ns >= p->origin_ns) {
			spread(p, &d);
		}
	}
}

/* The clock of samples is set right now and then, forth and back. */
static void write_sample(struct CUpti_PmSampling_Object *p, struct data_image *image)
{
	struct fake_work *w = &p->waiting[p->next % MAX_WAITING];
	struct data_range *range = &image->range[image->count++];
	uint64_t ahead_ns = p->decodes / CLOCK_DECODES % 2 ? CLOCK_AHEAD_NS : 0;

	ahead_ns += begin_of(p, p->next) > p->origin_ns + BACK_AFTER_NS ? p->back_ns : 0;
	range->begin_ns = begin_of(p, p->next) - ahead_ns;
	range->end_ns = begin_of(p, p->next + 1) - ahead_ns;
	range->work = *w;
	range->work.time_ns = range->end_ns - range->begin_ns;
	range->passes_done = 1;
	*w = (struct fake_work){ 0 };
	p->next++;
}

/* An image of metrics that are not counted. */
static bool is_foreign(const struct CUpti_PmSampling_Object *p, const struct data_image *image)
{
	const struct metric_set *counted = &p->config.set;

	for (uint32_t i = 0; i < image->set.count; i++) {
		uint32_t k = 0;

		while (k < counted->count && counted->metric[k] != image->set.metric[i]) {
			k++;
		}
		if (k == counted->count) {
			return true;
		}
	}
	return false;
}

CUptiResult cuptiPmSamplingDecodeData(CUpti_PmSampling_DecodeData_Params *params)
{
	struct CUpti_PmSampling_Object *p = params ? params->pPmSamplingObject : NULL;
	CUptiResult r = enter("cuptiPmSamplingDecodeData", params,
			      CUpti_PmSampling_DecodeData_Params_STRUCT_SIZE, p);
	struct data_image *image;
	uint64_t until_ns, had;

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	image = (void *)params->pCounterDataImage;
	if (!p->has_config || !image || image->magic != DATA_MAGIC ||
	    params->counterDataImageSize != p->image_bytes || is_foreign(p, image)) {
		return out_of_order(p, "DecodeData before SetConfig, or no image of its metrics");
	}
	if (p->is_started && permission_is_gone(p)) {
		return leave(p, CUPTI_ERROR_UNKNOWN);
	}
	until_ns = p->is_started ? now_ns() - LAG_NS : p->stop_ns;
	until_ns = p->is_silent ? 0 : until_ns;
	params->overflow = p->is_started && p->next > 0 &&
			   until_ns > begin_of(p, p->next) + p->capacity * p->interval_ns;
	if (params->overflow) {
		return leave(p, CUPTI_ERROR_OUT_OF_MEMORY);
	}
	take_done(p);
	p->decodes++;
	had = image->count;
	while (image->count < image->capacity && begin_of(p, p->next + 1) <= until_ns) {
		write_sample(p, image);
	}
	/* Now and then the last one is not complete yet. */
	image->ends_early = p->is_started && image->count > had && image->count < image->capacity &&
			    p->decodes % 5 == 0;
	take_time(image->count - had);
	params->decodeStopReason = image->count == image->capacity
					   ? CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL
					   : CUPTI_PM_SAMPLING_DECODE_STOP_REASON_END_OF_RECORDS;
	return leave(p, CUPTI_SUCCESS);
}

CUptiResult cuptiPmSamplingGetCounterDataInfo(CUpti_PmSampling_GetCounterDataInfo_Params *params)
{
	CUptiResult r = call_begin("cuptiPmSamplingGetCounterDataInfo");
	const struct data_image *image;

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	image = (const void *)params->pCounterDataImage;
	if (!image || image->magic != DATA_MAGIC) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	params->numTotalSamples = image->capacity;
	params->numPopulatedSamples = image->count;
	params->numCompletedSamples = image->count - (image->ends_early ? 1 : 0);
	return CUPTI_SUCCESS;
}

CUptiResult
cuptiPmSamplingCounterDataGetSampleInfo(CUpti_PmSampling_CounterData_GetSampleInfo_Params *params)
{
	CUptiResult r = call_begin("cuptiPmSamplingCounterDataGetSampleInfo");
	const struct data_image *image;

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	image = (const void *)params->pCounterDataImage;
	if (!image || image->magic != DATA_MAGIC || params->sampleIndex >= image->count) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	params->startTimestamp = image->range[params->sampleIndex].begin_ns;
	params->endTimestamp = image->range[params->sampleIndex].end_ns;
	return CUPTI_SUCCESS;
}

/* --- the end --- */

static void stop(struct CUpti_PmSampling_Object *p)
{
	atomic_fetch_and(&fake_state()->samplers, ~(1u << p->gpu));
	p->is_started = false;
	p->stop_ns = now_ns();
}

CUptiResult cuptiPmSamplingStop(CUpti_PmSampling_Stop_Params *params)
{
	struct CUpti_PmSampling_Object *p = params ? params->pPmSamplingObject : NULL;
	CUptiResult r =
		enter("cuptiPmSamplingStop", params, CUpti_PmSampling_Stop_Params_STRUCT_SIZE, p);

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (!p->is_started) {
		return out_of_order(p, "Stop before Start");
	}
	stop(p);
	return leave(p, permission_is_gone(p) ? CUPTI_ERROR_UNKNOWN : CUPTI_SUCCESS);
}

CUptiResult cuptiPmSamplingDisable(CUpti_PmSampling_Disable_Params *params)
{
	struct CUpti_PmSampling_Object *p = params ? params->pPmSamplingObject : NULL;
	CUptiResult r = enter("cuptiPmSamplingDisable", params,
			      CUpti_PmSampling_Disable_Params_STRUCT_SIZE, p);

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (p->is_started) {
		fake_violation("cuptiPmSamplingDisable: between Start and Stop");
		stop(p);
	}
	fake_gpu_release(p->gpu, (uintptr_t)p);
	pthread_mutex_lock(&lock);
	samplers[p->gpu] = NULL;
	pthread_mutex_unlock(&lock);
	(void)call_driver()->profiler_free(&p->permission);
	free(p);
	left_count(LEFT_SAMPLERS, -1);
	return CUPTI_SUCCESS;
}
