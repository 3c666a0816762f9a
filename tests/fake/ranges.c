/* SPDX-License-Identifier: Apache-2.0 */
/* The fake range profiler: one session.
 *
 *	Enable -> GetCounterDataSize -> CounterDataImageInitialize -> SetConfig ->
 *	(Start -> (Push -> launches -> Pop)* -> Stop -> Decode)* -> Disable
 *
 * Stricter than the real library: every call out of this order is INVALID_OPERATION and a line in
 * violations.log, and so are two threads inside one object and a context that ends while enabled.
 *
 * The hardware of the GPU belongs to the object from the first Start to Disable, and to nobody once
 * its driver object was destroyed from outside (revocation): then Start and Stop answer UNKNOWN.
 *
 * A range takes its place in the staged array at Push, is counted as dropped beyond
 * maxRangesPerPass, and is appended to the counter data image by Decode. In later passes of user
 * replay the i-th range is merged into the i-th of pass 0. Decode promises no order: with
 * GPUCTR_FAKE_DECODE_REVERSED the last range comes first. What is beyond the size of the image that
 * the object was first configured with is lost, and nobody is told. Neither is anybody told that an
 * object keeps the metrics and the pass of its first configuration: of a later one it takes the
 * image alone. An image holds the metrics that GetCounterDataSize was asked about before it was
 * initialised, and nothing of others (H200).
 *
 * A range counts what the GPU runs between the two barriers that Push and Pop give it, which may be
 * long after both have returned. */

#include "tests/fake/ranges.h"
#include "tests/fake/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

CUptiResult
cuptiRangeProfilerGetCounterDataSize(CUpti_RangeProfiler_GetCounterDataSize_Params *params)
{
	struct CUpti_RangeProfiler_Object *p = params ? params->pRangeProfilerObject : NULL;
	CUptiResult r = ranges_enter("cuptiRangeProfilerGetCounterDataSize", params,
				     CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE, p);
	const char *ending;

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (!params->pMetricNames || !params->numMetrics || !params->maxNumOfRanges ||
	    params->maxNumRangeTreeNodes < params->maxNumOfRanges) {
		return ranges_leave(p, CUPTI_ERROR_INVALID_PARAMETER);
	}
	memset(&p->layout, 0, sizeof(p->layout));
	for (size_t i = 0; i < params->numMetrics; i++) {
		const struct metric *m = metric_find(CHIP_GH100, params->pMetricNames[i], &ending);

		if (!m || !metric_set_add(&p->layout, m)) {
			return ranges_leave(p, CUPTI_ERROR_INVALID_METRIC_NAME);
		}
	}
	params->counterDataSize =
		sizeof(struct data_image) + params->maxNumOfRanges * sizeof(struct data_range);
	p->counter_data_bytes = params->counterDataSize;
	return ranges_leave(p, CUPTI_SUCCESS);
}

CUptiResult cuptiRangeProfilerCounterDataImageInitialize(
	CUpti_RangeProfiler_CounterDataImage_Initialize_Params *params)
{
	struct CUpti_RangeProfiler_Object *p = params ? params->pRangeProfilerObject : NULL;
	CUptiResult r =
		ranges_enter("cuptiRangeProfilerCounterDataImageInitialize", params,
			     CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE, p);
	struct data_image *image;

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (!p->counter_data_bytes) {
		return ranges_out_of_order(p,
					   "CounterDataImageInitialize before GetCounterDataSize");
	}
	if (p->is_started) {
		return ranges_out_of_order(p, "CounterDataImageInitialize between Start and Stop");
	}
	image = (void *)params->pCounterData;
	if (!image || (uintptr_t)image % 8 != 0 ||
	    params->counterDataSize != p->counter_data_bytes) {
		return ranges_leave(p, CUPTI_ERROR_INVALID_PARAMETER);
	}
	memset(image, 0, params->counterDataSize);
	image->magic = DATA_MAGIC;
	image->set = p->layout;
	image->capacity =
		(uint32_t)((params->counterDataSize - sizeof(*image)) / sizeof(image->range[0]));
	return ranges_leave(p, CUPTI_SUCCESS);
}

/* The CPU reads counters within the SMs, and waits for the GPU before and after a range; the GPU
 * reads the others (seen on an H200, CUPTI 2025.3). */
static bool waits_for_gpu(const struct metric_set *set, uint32_t pass)
{
	bool waits = false;

	for (uint32_t i = 0; i < set->count; i++) {
		const char *name = metric_catalogue[set->metric[i]].name;

		waits = waits ||
			((set->pass_mask[i] & 1u << pass) &&
			 (strncmp(name, "sm__", 4) == 0 || strncmp(name, "smsp__", 6) == 0 ||
			  strncmp(name, "l1tex__", 7) == 0));
	}
	return waits;
}

static bool config_is_valid(const CUpti_RangeProfiler_SetConfig_Params *c,
			    struct config_image *ret_config)
{
	const struct data_image *image = (const void *)c->pCounterDataImage;

	if (!c->pConfig || c->configSize < sizeof(*ret_config) || !image ||
	    c->counterDataImageSize < sizeof(*image) || image->magic != DATA_MAGIC) {
		return false;
	}
	memcpy(ret_config, c->pConfig, sizeof(*ret_config));
	if (ret_config->magic != CONFIG_MAGIC || ret_config->chip != CHIP_GH100 ||
	    ret_config->checksum != metric_checksum(&ret_config->set) ||
	    c->passIndex >= ret_config->set.passes) {
		return false;
	}
	if (c->range == CUPTI_AutoRange && c->numNestingLevels != 1) {
		return false;
	}
	return (c->range == CUPTI_AutoRange || c->range == CUPTI_UserRange) &&
	       (c->replayMode == CUPTI_KernelReplay || c->replayMode == CUPTI_UserReplay ||
		c->replayMode == CUPTI_ApplicationReplay) &&
	       !(c->range == CUPTI_UserRange && c->replayMode == CUPTI_KernelReplay) &&
	       c->maxRangesPerPass > 0 && c->numNestingLevels > 0;
}

/* Waits on the CPU for all work of the context. Who frees the driver's object meanwhile ends that.
 */
static CUptiResult drain(const struct CUpti_RangeProfiler_Object *p)
{
	const struct timespec pause = { 0, 200 * 1000 };

	while (!call_driver()->is_idle(p->context)) {
		if (ranges_permission_is_gone(p)) {
			return CUPTI_ERROR_UNKNOWN;
		}
		nanosleep(&pause, NULL);
	}
	return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerSetConfig(CUpti_RangeProfiler_SetConfig_Params *params)
{
	struct CUpti_RangeProfiler_Object *p = params ? params->pRangeProfilerObject : NULL;
	CUptiResult r = ranges_enter("cuptiRangeProfilerSetConfig", params,
				     CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE, p);
	struct config_image config;
	struct data_range *staged;

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (p->is_started) {
		return ranges_out_of_order(p, "SetConfig between Start and Stop");
	}
	if (!config_is_valid(params, &config)) {
		return ranges_leave(p, CUPTI_ERROR_INVALID_PARAMETER);
	}
	r = drain(p);
	if (r != CUPTI_SUCCESS) {
		return ranges_leave(p, r);
	}
	staged = calloc(params->maxRangesPerPass, sizeof(*staged));
	if (!staged) {
		return ranges_leave(p, CUPTI_ERROR_OUT_OF_MEMORY);
	}
	free(p->staged);
	p->staged = staged;
	p->image = (void *)params->pCounterDataImage;
	p->image_bytes = params->counterDataImageSize;
	p->kept_ranges = p->kept_ranges ? p->kept_ranges : p->image->capacity;
	p->mode = params->range;
	p->is_user_replay = params->replayMode != CUPTI_KernelReplay;
	p->max_ranges = params->maxRangesPerPass;
	p->levels = params->numNestingLevels;
	p->first_level = params->minNestingLevel ? params->minNestingLevel : 1;
	if (!p->has_config) {
		p->config = config;
		p->pass = (uint32_t)params->passIndex;
	}
	p->has_config = true;
	p->has_stopped = false;
	return ranges_leave(p, CUPTI_SUCCESS);
}

CUptiResult cuptiRangeProfilerStart(CUpti_RangeProfiler_Start_Params *params)
{
	struct CUpti_RangeProfiler_Object *p = params ? params->pRangeProfilerObject : NULL;
	CUptiResult r = ranges_enter("cuptiRangeProfilerStart", params,
				     CUpti_RangeProfiler_Start_Params_STRUCT_SIZE, p);
	struct fake_owner owner = { .pid = getpid(), .token = (uintptr_t)p };

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (!p->has_config) {
		return ranges_out_of_order(p, "Start before SetConfig");
	}
	if (p->is_started) {
		return ranges_out_of_order(p, "Start after Start");
	}
	if (ranges_permission_is_gone(p)) {
		return ranges_leave(p, CUPTI_ERROR_UNKNOWN);
	}
	if (!fake_object_is_permitted(p->permission.file, p->permission.h_root,
				      p->permission.h_object)) {
		return ranges_leave(p, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
	}
	if (call_driver()->invalidate_stream_captures(p->context)) {
		fake_violation("Start while a stream captures, which is invalidated");
		return ranges_leave(p, CUPTI_ERROR_UNKNOWN);
	}
	r = drain(p);
	if (r != CUPTI_SUCCESS) {
		return ranges_leave(p, r);
	}
	owner.file = p->permission.file;
	owner.h_root = p->permission.h_root;
	owner.h_object = p->permission.h_object;
	if (!fake_gpu_acquire(p->gpu, &owner)) {
		return ranges_leave(p, CUPTI_ERROR_HARDWARE_BUSY);
	}
	pthread_mutex_lock(&ranges_lock);
	p->staged_count = 0;
	p->dropped = 0;
	p->auto_count = 0;
	p->depth = 0;
	p->n_running = 0;
	p->waits = waits_for_gpu(&p->config.set, p->pass);
	p->is_started = true;
	p->has_stopped = false;
	pthread_mutex_unlock(&ranges_lock);
	return ranges_leave(p, CUPTI_SUCCESS);
}

/* The caller holds the lock. Returns the index, or -1: there is no room. */
static ssize_t stage(struct CUpti_RangeProfiler_Object *p, const char *name)
{
	if (p->staged_count == p->max_ranges) {
		p->dropped++;
		return -1;
	}
	memset(&p->staged[p->staged_count], 0, sizeof(p->staged[0]));
	snprintf(p->staged[p->staged_count].name, RANGE_NAME_MAX, "%s", name);
	return (ssize_t)p->staged_count++;
}

static void on_gpu_push(void *profiler, long staged)
{
	struct CUpti_RangeProfiler_Object *p = profiler;

	pthread_mutex_lock(&ranges_lock);
	if (p->n_running < MAX_DEPTH) {
		p->running[p->n_running++] = staged;
	}
	pthread_mutex_unlock(&ranges_lock);
}

static void on_gpu_pop(void *profiler, long unused)
{
	struct CUpti_RangeProfiler_Object *p = profiler;

	(void)unused;
	pthread_mutex_lock(&ranges_lock);
	p->n_running -= p->n_running > 0;
	pthread_mutex_unlock(&ranges_lock);
}

static bool is_gone(const void *profiler)
{
	return ranges_permission_is_gone(profiler);
}

/* Puts a barrier at the begin or end of a range: later work waits for earlier work. Where the CPU
 * waits the GPU need not, and a wait that revocation ended leaves nothing behind. */
static CUptiResult surround(struct CUpti_RangeProfiler_Object *p, void (*on_gpu)(void *, long),
			    long staged)
{
	const struct fake_barrier barrier = { on_gpu, is_gone, p, staged };
	CUptiResult r = p->waits ? drain(p) : CUPTI_SUCCESS;

	if (r == CUPTI_SUCCESS) {
		call_driver()->barrier(p->context, &barrier);
	}
	return r;
}

static ssize_t push(struct CUpti_RangeProfiler_Object *p, const char *name)
{
	struct open_range *range = &p->stack[p->depth];
	const char *outer = p->depth ? p->stack[p->depth - 1].path : "";
	unsigned int level = p->depth + 1;

	pthread_mutex_lock(&ranges_lock);
	snprintf(range->path, sizeof(range->path), "%.47s%s%.47s", outer, *outer ? "/" : "", name);
	range->staged = level >= p->first_level ? stage(p, range->path) : -1;
	p->depth++;
	pthread_mutex_unlock(&ranges_lock);
	return range->staged;
}

CUptiResult cuptiRangeProfilerPushRange(CUpti_RangeProfiler_PushRange_Params *params)
{
	struct CUpti_RangeProfiler_Object *p = params ? params->pRangeProfilerObject : NULL;
	CUptiResult r = ranges_enter("cuptiRangeProfilerPushRange", params,
				     CUpti_RangeProfiler_PushRange_Params_STRUCT_SIZE, p);

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (!p->is_started) {
		return ranges_out_of_order(p, "Push outside of Start and Stop");
	}
	if (p->mode != CUPTI_UserRange || !params->pRangeName || !params->pRangeName[0]) {
		return ranges_leave(p, CUPTI_ERROR_INVALID_PARAMETER);
	}
	if (p->depth >= p->first_level + p->levels - 1 || p->depth == MAX_DEPTH) {
		return ranges_out_of_order(p, "Push deeper than the configured nesting levels");
	}
	r = surround(p, on_gpu_push, push(p, params->pRangeName));
	activity_range_began();
	return ranges_leave(p, r);
}

CUptiResult cuptiRangeProfilerPopRange(CUpti_RangeProfiler_PopRange_Params *params)
{
	struct CUpti_RangeProfiler_Object *p = params ? params->pRangeProfilerObject : NULL;
	CUptiResult r = ranges_enter("cuptiRangeProfilerPopRange", params,
				     CUpti_RangeProfiler_PopRange_Params_STRUCT_SIZE, p);

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (!p->is_started || p->depth == 0) {
		return ranges_out_of_order(p, "Pop without Push");
	}
	r = surround(p, on_gpu_pop, 0);
	pthread_mutex_lock(&ranges_lock);
	p->depth--;
	pthread_mutex_unlock(&ranges_lock);
	return ranges_leave(p, r);
}

CUptiResult cuptiRangeProfilerStop(CUpti_RangeProfiler_Stop_Params *params)
{
	struct CUpti_RangeProfiler_Object *p = params ? params->pRangeProfilerObject : NULL;
	CUptiResult r = ranges_enter("cuptiRangeProfilerStop", params,
				     CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE, p);

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (!p->is_started) {
		return ranges_out_of_order(p, "Stop without Start");
	}
	if (ranges_permission_is_gone(p)) {
		p->is_started = false;
		return ranges_leave(p, CUPTI_ERROR_UNKNOWN);
	}
	if (p->depth) {
		return ranges_out_of_order(p, "Stop inside a range");
	}
	r = drain(p);
	pthread_mutex_lock(&ranges_lock);
	p->is_started = false;
	p->has_stopped = r == CUPTI_SUCCESS;
	pthread_mutex_unlock(&ranges_lock);
	if (r != CUPTI_SUCCESS) {
		return ranges_leave(p, r);
	}
	p->run_pass = p->pass;
	params->isAllPassSubmitted = !p->is_user_replay || p->pass + 1 >= p->config.set.passes;
	p->pass = params->isAllPassSubmitted ? 0 : p->pass + 1;
	params->passIndex = p->pass;
	params->targetNestingLevel = p->first_level;
	return ranges_leave(p, CUPTI_SUCCESS);
}

/* The passes that this run makes: all in kernel replay; in user replay the one at which the session
 * is. */
static uint32_t passes_of_run(const struct CUpti_RangeProfiler_Object *p)
{
	return p->is_user_replay ? 1u << p->run_pass : (1u << p->config.set.passes) - 1;
}

static bool decodes_reversed(void)
{
	return getenv("GPUCTR_FAKE_DECODE_REVERSED") != NULL;
}

/* place is in the image, counted from base. */
static void decode_range(struct CUpti_RangeProfiler_Object *p, size_t index, size_t place)
{
	struct data_image *image = p->image;
	size_t at = p->base + place;

	if (at >= image->capacity) {
		p->dropped++;
		return;
	}
	if (at >= p->kept_ranges) {
		return;
	}
	if (at >= image->count) {
		image->range[at] = p->staged[index];
		image->count = (uint32_t)at + 1;
	}
	image->range[at].passes_done |= passes_of_run(p);
}

/* Of the metrics that are configured, those for which the image was initialised. */
static struct metric_set set_of_image(const struct CUpti_RangeProfiler_Object *p)
{
	struct metric_set set = p->config.set;
	const struct metric_set *layout = &p->image->set;

	for (uint32_t i = 0; i < set.count; i++) {
		bool found = false;

		for (uint32_t k = 0; k < layout->count; k++) {
			found = found || (layout->metric[k] == set.metric[i] &&
					  layout->pass_mask[k] != UINT32_MAX);
		}
		set.pass_mask[i] = found ? set.pass_mask[i] : UINT32_MAX;
	}
	return set;
}

CUptiResult cuptiRangeProfilerDecodeData(CUpti_RangeProfiler_DecodeData_Params *params)
{
	struct CUpti_RangeProfiler_Object *p = params ? params->pRangeProfilerObject : NULL;
	CUptiResult r = ranges_enter("cuptiRangeProfilerDecodeData", params,
				     CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE, p);

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (p->is_started || !p->has_stopped) {
		return ranges_out_of_order(p, "DecodeData not after Stop");
	}
	if (p->image->magic != DATA_MAGIC) {
		return ranges_leave(p, CUPTI_ERROR_INVALID_PARAMETER);
	}
	p->image->set = set_of_image(p);
	if (!p->is_user_replay || p->run_pass == 0 || p->base > p->image->count) {
		p->base = p->image->count;
	}
	for (size_t i = 0; i < p->staged_count; i++) {
		decode_range(p, decodes_reversed() ? p->staged_count - 1 - i : i, i);
	}
	params->numOfRangeDropped = p->dropped;
	p->has_stopped = false;
	return ranges_leave(p, CUPTI_SUCCESS);
}

CUptiResult
cuptiRangeProfilerGetCounterDataInfo(CUpti_RangeProfiler_GetCounterDataInfo_Params *params)
{
	CUptiResult r = call_begin("cuptiRangeProfilerGetCounterDataInfo");
	const struct data_image *image;

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (!call_has_size(params, CUpti_RangeProfiler_GetCounterDataInfo_Params_STRUCT_SIZE) ||
	    !params->pCounterDataImage || params->counterDataImageSize < sizeof(*image)) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	image = (const void *)params->pCounterDataImage;
	if (image->magic != DATA_MAGIC) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	params->numTotalRanges = image->count;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerCounterDataGetRangeInfo(
	CUpti_RangeProfiler_CounterData_GetRangeInfo_Params *params)
{
	CUptiResult r = call_begin("cuptiRangeProfilerCounterDataGetRangeInfo");
	const struct data_image *image;

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (!call_has_size(params,
			   CUpti_RangeProfiler_CounterData_GetRangeInfo_Params_STRUCT_SIZE) ||
	    !params->pCounterDataImage || params->counterDataImageSize < sizeof(*image)) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	image = (const void *)params->pCounterDataImage;
	if (image->magic != DATA_MAGIC || params->rangeIndex >= image->count) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	params->rangeName = strdup(image->range[params->rangeIndex].name);
	return params->rangeName ? CUPTI_SUCCESS : CUPTI_ERROR_OUT_OF_MEMORY;
}

static void add_work(struct data_range *range, const struct fake_work *work)
{
	range->work.threads += work->threads;
	range->work.warps += work->warps;
	range->work.time_ns += work->time_ns + work->load_ns;
	range->work.kernels += work->kernels;
	range->work.traced_warps += work->traced_warps;
	range->work.traced_threads += work->traced_threads;
}

/* Work counts for every range that is open around it. */
void ranges_add(struct CUpti_RangeProfiler_Object *p, const struct fake_work *work)
{
	char name[24];
	ssize_t at;

	if (p->mode == CUPTI_AutoRange) {
		snprintf(name, sizeof(name), "%zu", p->auto_count++);
		at = stage(p, name);
		if (at >= 0) {
			add_work(&p->staged[at], work);
		}
		return;
	}
	for (unsigned int i = 0; i < p->n_running; i++) {
		if (p->running[i] >= 0) {
			add_work(&p->staged[p->running[i]], work);
		}
	}
}
