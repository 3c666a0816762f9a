/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_SELECTING_H
#define CLIENT_CLI_SELECTING_H

/* The options of "run" and "capture" that say which launches are measured. */

#include <gpuctr/gpuctr.h>

#include "client/cli/options.h"

struct selecting {
	const char *kernel_regex, *kernel_name; /* NULL: none */
	unsigned kernel_name_base;		/* enum gpuctr_kernel_name_base */
	bool has_base, by_function; /* it was said; what chooses kernels means the function */
	uint64_t launch_skip, launch_every, launch_count, record_limit;
	unsigned filter_mode;	     /* enum gpuctr_filter_mode */
	unsigned nvtx_process_scope; /* 0 or 1 */
	struct strings nvtx_include, nvtx_exclude;
	const char *capture_range, *step; /* NULL: none */
	uint64_t skip_first, wait, warmup, active, repeat;
	uint64_t stop_on_range_end;
};

enum {
	OPTION_KERNEL = 1100,
	OPTION_KERNEL_NAME,
	OPTION_KERNEL_NAME_BASE,
	OPTION_LAUNCH_EVERY,
	OPTION_FILTER_MODE,
	OPTION_RECORD_LIMIT,
	OPTION_NVTX_SCOPE,
	OPTION_NVTX_INCLUDE,
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
#define SELECTING_OPTIONS                                                                         \
	{ OPTION_KERNEL, "kernel", "REGEX", "only kernels whose demangled name matches" },        \
		{ 'k', "kernel-name", "NAME", "only kernels of this function, or regex:EXPR" },   \
		{ OPTION_KERNEL_NAME_BASE, "kernel-name-base", "BASE",                            \
		  "what is compared: function, demangled or mangled" },                           \
		{ 's', "launch-skip", "N",                                                        \
		  "leave out the first N matching launches of a process" },                       \
		{ OPTION_LAUNCH_EVERY, "launch-every", "N", "then measure the first of each N" }, \
		{ 'c', "launch-count", "N", "and no more than N of these" },                      \
		{ OPTION_FILTER_MODE, "filter-mode", "MODE",                                      \
		  "these count global, per-gpu, per-kernel or per-launch-config" },               \
		{ OPTION_RECORD_LIMIT, "record-limit", "N",                                       \
		  "end the capture when there are N records" },                                   \
		{ OPTION_NVTX_INCLUDE, "nvtx-include", "EXPR",                                    \
		  "only in these NVTX ranges, as with ncu" },                                     \
		{ OPTION_NVTX_EXCLUDE, "nvtx-exclude", "EXPR", "not in these NVTX ranges" },      \
		{ OPTION_NVTX_SCOPE, "nvtx-push-pop-scope", "SCOPE",                              \
		  "of their push/pop ranges: thread (default) or process" },                      \
		{ OPTION_PROFILE_FROM_START, "profile-from-start", "on|off",                      \
		  "off: as --capture-range cudaProfilerApi" },                                    \
		{ OPTION_CAPTURE_RANGE, "capture-range", "RANGE",                                 \
		  "only in cudaProfilerApi or nvtx:EXPR" },                                       \
		{ OPTION_STOP_ON_RANGE_END, "stop-on-range-end", NULL,                            \
		  "only the first such range" },                                                  \
		{ OPTION_SCHEDULE, "schedule", "LIST",                                            \
		  "skip_first=,wait=,warmup=,active=,repeat=: some steps" },                      \
		{ OPTION_STEPS, "steps", "N",                                                     \
		  "the next N steps: as --schedule active=N,repeat=1" },                          \
	{                                                                                         \
		OPTION_STEP, "step", "EXPR",                                                      \
			"what begins a step: NVTX, cudaProfilerStart or gpuctr_step"              \
	}

/* Is it one of these options? Then takes its value; false: told why not. */
bool selecting_takes(int id);
bool selecting_take(struct selecting *s, int id, const char *value);

/* When all options are there; false: told why they cannot be. */
bool selecting_check(const struct selecting *s);
void selecting_deinit(struct selecting *s);

bool selecting_is_used(const struct selecting *s);
/* Do they say how many launches are measured, one of how many, or which of the steps? */
bool selecting_is_bounded(const struct selecting *s);

/* s is borrowed by o. */
void selecting_fill(const struct selecting *s, struct gpuctr_capture_options *o);

#endif
