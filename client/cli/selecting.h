/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_SELECTING_H
#define CLIENT_CLI_SELECTING_H

/* The options of "run" and "capture" that say which launches are measured, beyond --kernel,
 * --launch-skip and --launch-count. */

#include <gpuctr/gpuctr.h>

#include "client/cli/options.h"

struct selecting {
	struct strings nvtx_include, nvtx_exclude;
	const char *capture_range, *step; /* NULL: none */
	uint64_t skip_first, wait, warmup, active, repeat;
	uint64_t stop_on_range_end;
};

enum {
	OPTION_NVTX_INCLUDE = 1100,
	OPTION_NVTX_EXCLUDE,
	OPTION_PROFILE_FROM_START,
	OPTION_CAPTURE_RANGE,
	OPTION_STOP_ON_RANGE_END,
	OPTION_SCHEDULE,
	OPTION_STEPS,
	OPTION_STEP,
	OPTION_SELECTING_END,
};

/* Rows of a table of options. */
#define SELECTING_OPTIONS                                                                          \
	{ OPTION_NVTX_INCLUDE, "nvtx-include", "EXPR", "only in these NVTX ranges, as with ncu" }, \
		{ OPTION_NVTX_EXCLUDE, "nvtx-exclude", "EXPR", "not in these NVTX ranges" },       \
		{ OPTION_PROFILE_FROM_START, "profile-from-start", "on|off",                       \
		  "off: as --capture-range cudaProfilerApi" },                                     \
		{ OPTION_CAPTURE_RANGE, "capture-range", "RANGE",                                  \
		  "only in cudaProfilerApi or nvtx:EXPR" },                                        \
		{ OPTION_STOP_ON_RANGE_END, "stop-on-range-end", NULL,                             \
		  "only the first such range" },                                                   \
		{ OPTION_SCHEDULE, "schedule", "LIST",                                             \
		  "skip_first=,wait=,warmup=,active=,repeat=: some steps" },                       \
		{ OPTION_STEPS, "steps", "N",                                                      \
		  "the next N steps: as --schedule active=N,repeat=1" },                           \
	{                                                                                          \
		OPTION_STEP, "step", "EXPR", "what begins a step: NVTX, or cudaProfilerStart"      \
	}

/* Is it one of these options? Then takes its value; false: told why not. */
bool selecting_takes(int id);
bool selecting_take(struct selecting *s, int id, const char *value);

/* When all options are there; false: told why they cannot be. */
bool selecting_check(const struct selecting *s);
void selecting_deinit(struct selecting *s);

/* s is borrowed by o. */
void selecting_fill(const struct selecting *s, struct gpuctr_capture_options *o);

#endif
