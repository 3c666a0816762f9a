/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Inside of the fake profiler library. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes the vendor's own headers export what they declare. */
#define CUPTI_LIB 1
#include <cuda.h>
#include <cupti_result.h>

#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <cupti_profiler_host.h>
#include <cupti_pmsampling.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#include <cupti_version.h>

#include "tests/fake/hook.h"
#include "tests/fake/metric.h"

/* call.c: every function begins with this, which applies GPUCTR_FAKE_FAIL, the delays and the call
 * log. Anything but CUPTI_SUCCESS is to be returned at once. */
CUptiResult call_begin(const char *function);

/* The same for an object that one thread may be inside of at a time; the caller takes busy back. */
CUptiResult call_begin_alone(const char *function, _Atomic bool *busy);

/* The driver API library's side, or NULL if it cannot be loaded. */
const struct fake_hooks *call_driver(void);

/* Is there a parameter struct, and as large as ours? */
bool call_has_size(const void *params, size_t size);

/* ranges.c: what the driver ran. */
void ranges_executed(CUcontext context, const struct fake_work *work);

/* ranges.c: the context ends while its profiler is enabled. */
void ranges_context_ends(CUcontext context);

/* activity.c: what the driver ran. */
void activity_executed(CUcontext context, const struct fake_run *run);
void activity_range_began(void);
bool activity_traces_kernels(void);

/* callback.c: around turning kernels' tracing on or off; which launch the record of a kernel of
 * this one names. */
void callback_turn_tracing(bool begins);
uint32_t callback_name(uint32_t correlation);
void callback_listen(const struct fake_hooks *driver);
