/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "tests/unit/ranges_gpu.h"

#include "client/agent/guard.h"

enum { SETUP_MS = 50, START_MS = 6, STOP_MS = 8, PUSH_US = 2, POP_US = 3 };

struct gpu gpu;

void gpu_begin(void)
{
	memset(&gpu, 0, sizeof(gpu));
	made_clock = (struct made_clock){ 1000 * CLOCK_NS_PER_S, 10 };
	for (size_t i = 0; i < PASSES_MAX; i++) {
		gpu.bytes_a_range[i] = BYTES_A_RANGE + 8 * i;
	}
}

static void take(uint64_t ns)
{
	made_clock.now_ns += ns;
}

/* --- CUPTI --- */

static CUptiResult enable(CUpti_RangeProfiler_Enable_Params *p)
{
	struct CUpti_RangeProfiler_Object *o = &gpu.object[(uintptr_t)p->ctx - 1];
	uint32_t device = o->device;

	assert_false(o->enabled);
	take(SETUP_MS * MS);
	gpu.n_enabled++;
	*o = (struct CUpti_RangeProfiler_Object){ .enabled = true, .device = device };
	p->pRangeProfilerObject = o;
	return CUPTI_SUCCESS;
}

static CUptiResult disable(CUpti_RangeProfiler_Disable_Params *p)
{
	struct CUpti_RangeProfiler_Object *o = p->pRangeProfilerObject;

	assert_true(o->enabled && !o->started);
	o->enabled = false;
	gpu.owner[o->device] = gpu.owner[o->device] == o ? NULL : gpu.owner[o->device];
	return CUPTI_SUCCESS;
}

static CUptiResult get_size(CUpti_RangeProfiler_GetCounterDataSize_Params *p)
{
	struct CUpti_RangeProfiler_Object *o = p->pRangeProfilerObject;

	assert_int_equal(p->numMetrics, 1);
	o->layout = strtoul(p->pMetricNames[0] + 1, NULL, 10);
	o->layout_room = p->maxNumOfRanges;
	p->counterDataSize =
		sizeof(struct image) + p->maxNumOfRanges * gpu.bytes_a_range[o->layout];
	return CUPTI_SUCCESS;
}

static CUptiResult init_image(CUpti_RangeProfiler_CounterDataImage_Initialize_Params *p)
{
	struct CUpti_RangeProfiler_Object *o = p->pRangeProfilerObject;

	*(struct image *)(void *)p->pCounterData = (struct image){ o->layout, o->layout_room, 0 };
	return CUPTI_SUCCESS;
}

/* It is as large as is said. */
static void check_image(const struct CUpti_RangeProfiler_Object *o)
{
	assert_int_equal(o->image_bytes,
			 sizeof(struct image) +
				 o->image->capacity * gpu.bytes_a_range[o->image->pass]);
}

static CUptiResult set_config(CUpti_RangeProfiler_SetConfig_Params *p)
{
	struct CUpti_RangeProfiler_Object *o = p->pRangeProfilerObject;

	assert_false(o->started);
	o->image = (void *)p->pCounterDataImage;
	o->image_bytes = p->counterDataImageSize;
	o->max_ranges = p->maxRangesPerPass;
	check_image(o);
	o->kept = o->configured ? o->kept : o->image->capacity;
	o->configured = true;
	return CUPTI_SUCCESS;
}

static CUptiResult start(CUpti_RangeProfiler_Start_Params *p)
{
	struct CUpti_RangeProfiler_Object *o = p->pRangeProfilerObject;

	assert_true(o->configured && !o->started && !gpu.at_work);
	gpu.tried_ns[gpu.n_starts++ % ARRAY_SIZE(gpu.tried_ns)] = made_clock.now_ns;
	take(START_MS * MS);
	if (gpu.owner[o->device] && gpu.owner[o->device] != o) {
		return CUPTI_ERROR_HARDWARE_BUSY;
	}
	if (gpu.start != CUPTI_SUCCESS) {
		return gpu.start;
	}
	gpu.owner[o->device] = o;
	o->started = true;
	o->n = 0;
	return CUPTI_SUCCESS;
}

static CUptiResult stop(CUpti_RangeProfiler_Stop_Params *p)
{
	struct CUpti_RangeProfiler_Object *o = p->pRangeProfilerObject;

	assert_true(o->started && !o->open && !gpu.at_work);
	take(STOP_MS * MS);
	o->started = false;
	o->decoded = o->pass;
	o->pass = (o->pass + 1) % gpu.n_passes;
	p->passIndex = o->pass + gpu.wrong_pass;
	if (gpu.gets_work) {
		gpu.at_work = true;
		guard_disturb(gpu.gets_work, &(struct guard_work){ STREAM, false });
		gpu.gets_work = NULL;
	}
	return CUPTI_SUCCESS;
}

static CUptiResult push(CUpti_RangeProfiler_PushRange_Params *p)
{
	struct CUpti_RangeProfiler_Object *o = p->pRangeProfilerObject;

	assert_true(o->started && !o->open);
	assert_int_equal(strtoul(p->pRangeName, NULL, 10), o->n);
	take(PUSH_US * US);
	if (gpu.push != CUPTI_SUCCESS) {
		return gpu.push;
	}
	o->open = true;
	o->n++;
	gpu.n_ranges++;
	return CUPTI_SUCCESS;
}

static CUptiResult pop(CUpti_RangeProfiler_PopRange_Params *p)
{
	struct CUpti_RangeProfiler_Object *o = p->pRangeProfilerObject;

	assert_true(o->started && o->open);
	take(POP_US * US);
	o->open = false;
	return gpu.pop;
}

static CUptiResult decode(CUpti_RangeProfiler_DecodeData_Params *p)
{
	struct CUpti_RangeProfiler_Object *o = p->pRangeProfilerObject;

	check_image(o);
	if (o->n > 0) {
		assert_int_equal(o->image->pass, o->decoded);
		assert_int_equal(o->image->n, 0);
		assert_true(o->n <= o->image->capacity && o->n <= o->kept && o->n <= o->max_ranges);
	}
	o->image->n = o->n;
	p->numOfRangeDropped = 0;
	return gpu.decode;
}

/* --- CUPTI's schedule --- */

static CUptiResult begin_host(CUpti_Profiler_Host_Initialize_Params *p)
{
	p->pHostObject = (void *)&gpu;
	gpu.n_sets = 0;
	return CUPTI_SUCCESS;
}

static CUptiResult end_host(CUpti_Profiler_Host_Deinitialize_Params *p)
{
	(void)p;
	return CUPTI_SUCCESS;
}

static CUptiResult add_metrics(CUpti_Profiler_Host_ConfigAddMetrics_Params *p)
{
	assert_int_equal(strtoul(p->ppMetricNames[0] + 1, NULL, 10), gpu.n_sets++);
	return CUPTI_SUCCESS;
}

static CUptiResult get_config_size(CUpti_Profiler_Host_GetConfigImageSize_Params *p)
{
	p->configImageSize = 8;
	return CUPTI_SUCCESS;
}

static CUptiResult get_config(CUpti_Profiler_Host_GetConfigImage_Params *p)
{
	(void)p;
	return CUPTI_SUCCESS;
}

static CUptiResult get_passes(CUpti_Profiler_Host_GetNumOfPasses_Params *p)
{
	p->numOfPasses = gpu.n_passes;
	return CUPTI_SUCCESS;
}

/* --- the driver --- */

static CUresult query(CUstream stream)
{
	(void)stream;
	return gpu.at_work ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult create_event(CUevent *event, unsigned flags)
{
	(void)flags;
	*event = (CUevent)(uintptr_t)1;
	return CUDA_SUCCESS;
}

static CUresult record_event(CUevent event, CUstream stream)
{
	(void)event;
	(void)stream;
	return CUDA_SUCCESS;
}

static CUresult query_event(CUevent event)
{
	(void)event;
	return query(NULL);
}

static CUresult destroy_event(CUevent event)
{
	(void)event;
	return CUDA_SUCCESS;
}

static CUresult push_context(CUcontext context)
{
	(void)context;
	gpu.n_pushed++;
	return CUDA_SUCCESS;
}

static CUresult pop_context(CUcontext *context)
{
	*context = NULL;
	gpu.n_pushed--;
	return CUDA_SUCCESS;
}

static CUptiResult result_string(CUptiResult result, const char **ret)
{
	(void)result;
	*ret = "CUPTI_ERROR";
	return CUPTI_SUCCESS;
}

const struct profiler gpu_profiler = {
	.host.cuptiGetResultString = result_string,
	.host.cuptiProfilerHostInitialize = begin_host,
	.host.cuptiProfilerHostDeinitialize = end_host,
	.host.cuptiProfilerHostConfigAddMetrics = add_metrics,
	.host.cuptiProfilerHostGetConfigImageSize = get_config_size,
	.host.cuptiProfilerHostGetConfigImage = get_config,
	.host.cuptiProfilerHostGetNumOfPasses = get_passes,
	.cuptiRangeProfilerEnable = enable,
	.cuptiRangeProfilerDisable = disable,
	.cuptiRangeProfilerGetCounterDataSize = get_size,
	.cuptiRangeProfilerCounterDataImageInitialize = init_image,
	.cuptiRangeProfilerSetConfig = set_config,
	.cuptiRangeProfilerStart = start,
	.cuptiRangeProfilerStop = stop,
	.cuptiRangeProfilerPushRange = push,
	.cuptiRangeProfilerPopRange = pop,
	.cuptiRangeProfilerDecodeData = decode,
	.cuStreamQuery = query,
	.cuEventCreate = create_event,
	.cuEventRecord = record_event,
	.cuEventQuery = query_event,
	.cuEventDestroy = destroy_event,
	.cuCtxPushCurrent = push_context,
	.cuCtxPopCurrent = pop_context,
};
