/* SPDX-License-Identifier: Apache-2.0 */
/* The fake range profiler: which profilers there are.
 *
 * There is one object for each context, from Enable to Disable. It owns one driver object of class
 * 0xB2CC, for which it has the driver API library ask. The table holds the enabled ones. */

#include "tests/fake/left.h"
#include "tests/fake/ranges.h"
#include "tests/fake/state.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PROFILERS = 64 };

pthread_mutex_t ranges_lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUpti_RangeProfiler_Object *profilers[MAX_PROFILERS];
static _Atomic bool was_initialised, is_hooked;

static bool is_known(const struct CUpti_RangeProfiler_Object *p)
{
	bool found = false;

	pthread_mutex_lock(&ranges_lock);
	for (size_t i = 0; i < MAX_PROFILERS; i++) {
		found = found || (p && profilers[i] == p);
	}
	pthread_mutex_unlock(&ranges_lock);
	return found;
}

CUptiResult ranges_enter(const char *function, const void *params, size_t size,
			 struct CUpti_RangeProfiler_Object *p)
{
	if (!call_has_size(params, size)) {
		fake_violation("%s: struct size", function);
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	if (!is_known(p)) {
		fake_violation("%s: not an enabled profiler", function);
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	return call_begin_alone(function, &p->busy);
}

CUptiResult ranges_leave(struct CUpti_RangeProfiler_Object *p, CUptiResult r)
{
	atomic_store(&p->busy, false);
	return r;
}

CUptiResult ranges_out_of_order(struct CUpti_RangeProfiler_Object *p, const char *what)
{
	fake_violation("%s", what);
	return ranges_leave(p, CUPTI_ERROR_INVALID_OPERATION);
}

bool ranges_permission_is_gone(const struct CUpti_RangeProfiler_Object *p)
{
	return !fake_object_exists(p->permission.file, p->permission.h_root,
				   p->permission.h_object);
}

CUptiResult cuptiProfilerInitialize(CUpti_Profiler_Initialize_Params *params)
{
	CUptiResult r = call_begin("cuptiProfilerInitialize");

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (!call_has_size(params, CUpti_Profiler_Initialize_Params_STRUCT_SIZE)) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	atomic_store(&was_initialised, true);
	left_count(LEFT_HOOKS, !atomic_exchange(&is_hooked, true));
	return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerDeInitialize(CUpti_Profiler_DeInitialize_Params *params)
{
	CUptiResult r = call_begin("cuptiProfilerDeInitialize");

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (!call_has_size(params, CUpti_Profiler_DeInitialize_Params_STRUCT_SIZE)) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	left_count(LEFT_HOOKS, -(int)atomic_exchange(&is_hooked, false));
	return CUPTI_SUCCESS;
}

/* How the profiler reports the driver's answer to an allocation. */
static CUptiResult permission_result(int status)
{
	return status == 0	? CUPTI_SUCCESS
	       : status == 0x1b ? CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
				: CUPTI_ERROR_UNKNOWN;
}

static CUptiResult find_context(CUcontext context, int *ret_gpu)
{
	const struct fake_hooks *driver = call_driver();
	uint32_t uid;

	if (!driver || !atomic_load(&was_initialised)) {
		fake_violation("a profiler call before cuptiProfilerInitialize");
		return CUPTI_ERROR_NOT_INITIALIZED;
	}
	return driver->context_find(context, ret_gpu, &uid) ? CUPTI_SUCCESS
							    : CUPTI_ERROR_INVALID_CONTEXT;
}

CUptiResult
cuptiProfilerGetCounterAvailability(CUpti_Profiler_GetCounterAvailability_Params *params)
{
	static const uint8_t image[256] = { 'a', 'v', 'a', 'i', 'l' };
	CUptiResult r = call_begin("cuptiProfilerGetCounterAvailability");
	struct fake_profiler permission;
	CUcontext context;
	int gpu;

	if (r == CUPTI_SUCCESS &&
	    !call_has_size(params, CUpti_Profiler_GetCounterAvailability_Params_STRUCT_SIZE)) {
		r = CUPTI_ERROR_INVALID_PARAMETER;
	}
	if (r == CUPTI_SUCCESS) {
		r = find_context(params->ctx, &gpu);
	}
	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (!fake_gpu_is_ours(gpu)) {
		return CUPTI_ERROR_HARDWARE_BUSY;
	}
	context = params->ctx ? params->ctx : call_driver()->current();
	r = permission_result(call_driver()->profiler_alloc(context, gpu, &permission));
	if (r != CUPTI_SUCCESS) {
		return r;
	}
	(void)call_driver()->profiler_free(&permission);
	if (!params->pCounterAvailabilityImage) {
		params->counterAvailabilityImageSize = sizeof(image);
		return CUPTI_SUCCESS;
	}
	if (params->counterAvailabilityImageSize < sizeof(image)) {
		return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
	}
	memcpy(params->pCounterAvailabilityImage, image, sizeof(image));
	params->counterAvailabilityImageSize = sizeof(image);
	return CUPTI_SUCCESS;
}

static bool context_has_profiler(CUcontext context)
{
	bool found = false;

	pthread_mutex_lock(&ranges_lock);
	for (size_t i = 0; i < MAX_PROFILERS; i++) {
		found = found || (profilers[i] && profilers[i]->context == context);
	}
	pthread_mutex_unlock(&ranges_lock);
	return found;
}

static bool table_add(struct CUpti_RangeProfiler_Object *p)
{
	bool added = false;

	pthread_mutex_lock(&ranges_lock);
	for (size_t i = 0; i < MAX_PROFILERS && !added; i++) {
		if (!profilers[i]) {
			profilers[i] = p;
			added = true;
		}
	}
	pthread_mutex_unlock(&ranges_lock);
	return added;
}

CUptiResult cuptiRangeProfilerEnable(CUpti_RangeProfiler_Enable_Params *params)
{
	CUptiResult r = call_begin("cuptiRangeProfilerEnable");
	struct CUpti_RangeProfiler_Object *p;
	int gpu;

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (!call_has_size(params, CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE)) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	r = find_context(params->ctx, &gpu);
	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (context_has_profiler(params->ctx)) {
		fake_violation("cuptiRangeProfilerEnable: twice on one context");
		return CUPTI_ERROR_INVALID_OPERATION;
	}
	p = calloc(1, sizeof(*p));
	if (!p) {
		return CUPTI_ERROR_OUT_OF_MEMORY;
	}
	p->context = params->ctx;
	p->gpu = gpu;
	r = permission_result(call_driver()->profiler_alloc(params->ctx, gpu, &p->permission));
	if (r != CUPTI_SUCCESS || !table_add(p)) {
		free(p);
		return r != CUPTI_SUCCESS ? r : CUPTI_ERROR_OUT_OF_MEMORY;
	}
	params->pRangeProfilerObject = p;
	left_count(LEFT_PROFILERS, 1);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerDisable(CUpti_RangeProfiler_Disable_Params *params)
{
	struct CUpti_RangeProfiler_Object *p = params ? params->pRangeProfilerObject : NULL;
	CUptiResult r = ranges_enter("cuptiRangeProfilerDisable", params,
				     CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE, p);

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (p->is_started && !ranges_permission_is_gone(p)) {
		fake_violation("cuptiRangeProfilerDisable: between Start and Stop");
	}
	fake_gpu_release(p->gpu, (uintptr_t)p);
	pthread_mutex_lock(&ranges_lock);
	for (size_t i = 0; i < MAX_PROFILERS; i++) {
		profilers[i] = profilers[i] == p ? NULL : profilers[i];
	}
	pthread_mutex_unlock(&ranges_lock);
	call_driver()->forget(p);
	(void)call_driver()->profiler_free(&p->permission);
	free(p->staged);
	free(p);
	left_count(LEFT_PROFILERS, -1);
	return CUPTI_SUCCESS;
}

void ranges_executed(CUcontext context, const struct fake_work *work)
{
	pthread_mutex_lock(&ranges_lock);
	for (size_t i = 0; i < MAX_PROFILERS; i++) {
		struct CUpti_RangeProfiler_Object *p = profilers[i];

		if (p && p->context == context && p->is_started) {
			ranges_add(p, work);
		}
	}
	pthread_mutex_unlock(&ranges_lock);
}

void ranges_context_ends(CUcontext context)
{
	if (context_has_profiler(context)) {
		fake_violation("a context is destroyed while its range profiler is enabled");
	}
}
