/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/times.h"

#include <stdio.h>

#include "client/agent/capture.h"

enum { PATIENCE_S = 10 }; /* how long to wait for a thread that is within CUPTI */

/* Uses the lengths of ranges in place of the kernels' own times, if these lengths cost nothing. */
static void measure_ranges(struct capture *c)
{
	if (c->welcome.plan.fits_duration) {
		passes_add_metric(&c->passes, &c->arena, "gpu__time_duration.sum");
	}
}

static const char *what_times_are(const struct capture *c)
{
	return c->welcome.trace ? "the times of kernels are not known, and those of CUDA graphs "
				  "are in no record"
				: "the times of kernels are those of the ranges around them";
}

static void start_activity(struct capture *c)
{
	CUptiResult result = activity_start(c->activity, c->profiler);
	char text[256];

	if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
		snprintf(
			text, sizeof(text),
			"the program uses CUPTI's activity records itself, and CUPTI gives them to "
			"one user in a process: %s",
			what_times_are(c));
		deliver_notice(&c->deliver, GPUCTR_E_CUPTI_IN_USE, text, TIMES_OTHERS_REMEDY);
		c->reported_others = true;
	} else if (result != CUPTI_SUCCESS) {
		snprintf(text, sizeof(text),
			 "CUPTI does not tell when kernels begin and end (%s, %d): %s",
			 host_result_name(&c->profiler->host, result), (int)result,
			 what_times_are(c));
		deliver_notice(&c->deliver, GPUCTR_E_PROFILER, text, "");
	}
	if (result != CUPTI_SUCCESS) {
		measure_ranges(c);
	}
}

/* Tracing adds instructions to each warp: sm__inst_executed of a copy was 44 % too high, and SASS
 * metrics read 0 (H200, CUPTI 2025.3). Of several passes some mostly count instructions. */
static bool may_trace(const struct capture *c)
{
	return c->passes.n == 1 && !c->passes.may_block[0];
}

void times_init(struct capture *c)
{
	if (!may_trace(c)) {
		c->has_times = true;
		measure_ranges(c);
	}
}

bool times_begin(struct capture *c)
{
	if (!lock_until(&c->times_lock, clock_now_ns() + PATIENCE_S * CLOCK_NS_PER_S)) {
		return false;
	}
	if (!c->has_times) {
		c->has_times = true;
		start_activity(c);
	}
	lock_release(&c->times_lock);
	return true;
}
