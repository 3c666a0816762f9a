/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/gpu/floor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "tests/gpu/driver.h"

static double seconds(void)
{
	return (double)clock_now_ns() / 1e9;
}

static void floor_init_image(struct floor *f)
{
	CUpti_RangeProfiler_CounterDataImage_Initialize_Params p = {
		.structSize = CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE,
		.pRangeProfilerObject = f->object,
		.counterDataSize = f->image_size,
		.pCounterData = f->image,
	};
	double t = seconds();

	check("CounterDataImageInitialize", f->p.cuptiRangeProfilerCounterDataImageInitialize(&p));
	f->init_s += seconds() - t;
}

static void floor_start(struct floor *f)
{
	CUpti_RangeProfiler_Start_Params p = {
		.structSize = CUpti_RangeProfiler_Start_Params_STRUCT_SIZE,
		.pRangeProfilerObject = f->object,
	};
	double t;

	floor_init_image(f);
	t = seconds();
	check("Start", f->p.cuptiRangeProfilerStart(&p));
	f->first_start_s = f->turns == 0 ? seconds() - t : f->first_start_s;
	f->start_s += f->turns == 0 ? 0 : seconds() - t;
	f->n = 0;
}

static void floor_stop(struct floor *f)
{
	CUpti_RangeProfiler_Stop_Params stop = {
		.structSize = CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE,
		.pRangeProfilerObject = f->object,
	};
	CUpti_RangeProfiler_DecodeData_Params decode = {
		.structSize = CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE,
		.pRangeProfilerObject = f->object,
	};
	double t = seconds();

	check("Stop", f->p.cuptiRangeProfilerStop(&stop));
	check("DecodeData", f->p.cuptiRangeProfilerDecodeData(&decode));
	f->stop_s += seconds() - t;
	f->turns++;
}

void floor_begin(struct floor *f, CUcontext context, unsigned device, char *names, unsigned batch)
{
	struct refusal r = { 0 };
	char chip[32];
	CUpti_RangeProfiler_Enable_Params enable = {
		.structSize = CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE,
		.ctx = context,
	};
	CUpti_RangeProfiler_GetCounterDataSize_Params size = {
		.structSize = CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE,
		.maxNumOfRanges = batch,
		.maxNumRangeTreeNodes = batch,
	};
	CUpti_RangeProfiler_SetConfig_Params config = {
		.structSize = CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE,
		.range = CUPTI_UserRange,
		.replayMode = CUPTI_UserReplay,
		.maxRangesPerPass = batch,
		.numNestingLevels = 1,
		.minNestingLevel = 1,
	};
	struct host_metrics set;
	char *save = NULL;

	f->batch = batch;
	for (char *m = strtok_r(names, ",", &save); m && f->n_metrics < 16;
	     m = strtok_r(NULL, ",", &save)) {
		f->metrics[f->n_metrics++] = m;
	}
	if (profiler_open(&f->p, &r) != 0) {
		fprintf(stderr, "%s\n", r.message);
		exit(1);
	}
	vendor_chip_name(&f->p.host, device, chip, sizeof(chip));
	check(chip, host_init(&f->host, &f->p.host, chip, &r));
	set = (struct host_metrics){ f->metrics, f->n_metrics };
	check("config", host_config_new(&f->host, &set, 1, &f->config, &r));
	check("Enable", f->p.cuptiRangeProfilerEnable(&enable));
	f->object = enable.pRangeProfilerObject;
	size.pRangeProfilerObject = f->object;
	size.pMetricNames = f->metrics;
	size.numMetrics = f->n_metrics;
	check("GetCounterDataSize", f->p.cuptiRangeProfilerGetCounterDataSize(&size));
	f->image_size = size.counterDataSize;
	f->image = calloc(1, f->image_size);
	floor_init_image(f); /* SetConfig reads it */
	config.pRangeProfilerObject = f->object;
	config.configSize = f->config.size;
	config.pConfig = f->config.image;
	config.counterDataImageSize = f->image_size;
	config.pCounterDataImage = f->image;
	check("SetConfig", f->p.cuptiRangeProfilerSetConfig(&config));
	floor_start(f);
}

void floor_push(struct floor *f)
{
	CUpti_RangeProfiler_PushRange_Params p = {
		.structSize = CUpti_RangeProfiler_PushRange_Params_STRUCT_SIZE,
	};
	char name[16];

	if (f->n == f->batch) {
		floor_stop(f);
		floor_start(f);
	}
	snprintf(name, sizeof(name), "%u", f->n++);
	p.pRangeProfilerObject = f->object;
	p.pRangeName = name;
	check("PushRange", f->p.cuptiRangeProfilerPushRange(&p));
}

void floor_pop(struct floor *f)
{
	CUpti_RangeProfiler_PopRange_Params p = {
		.structSize = CUpti_RangeProfiler_PopRange_Params_STRUCT_SIZE,
		.pRangeProfilerObject = f->object,
	};

	check("PopRange", f->p.cuptiRangeProfilerPopRange(&p));
}

void floor_end(struct floor *f)
{
	unsigned later = f->turns;

	floor_stop(f);
	printf("floor batch %u first start %.1f ms, later start %.2f ms, stop+decode %.2f ms, "
	       "image init %.2f ms, %zu bytes/range\n",
	       f->batch, f->first_start_s * 1e3, later > 0 ? f->start_s * 1e3 / later : 0.0,
	       f->stop_s * 1e3 / f->turns, f->init_s * 1e3 / f->turns, f->image_size / f->batch);
}

void floor_print_values(const struct floor *f)
{
	double values[ARRAY_SIZE(f->metrics)];

	for (unsigned i = 0; i < f->n; i++) {
		check("EvaluateToGpuValues", host_evaluate(&f->host, f->image, f->image_size, i,
							   f->metrics, f->n_metrics, values));
		printf("range %u", i);
		for (size_t k = 0; k < f->n_metrics; k++) {
			printf(" %.17g", values[k]);
		}
		printf("\n");
	}
}
