/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The options of "run", "capture" and "top" that choose the launches to be measured. */

#include <gpuctr/gpuctr.h>

#include "client/cli/options.h"

struct launch_filter {
	/* Of it what chooses launches is set, but for what follows. */
	struct gpuctr_capture_options chosen;
	bool has_base, by_function; /* --kernel-name-base was given; the kernel is named by its
				       function */
	bool stop_on_range_end;
	struct strings nvtx_include, nvtx_exclude;
};

/* Rows of a table of options, for a struct that has a struct launch_filter as this member. */
#define LAUNCH_FILTER_OPTIONS(of, member)                                                          \
	{ 0, "kernel", "REGEX", "only kernels whose demangled name matches",                       \
	  OPTION_TAKEN(launch_filter_take_regex, of, member) },                                    \
		{ 'k', "kernel-name", "NAME", "only kernels of this function, or regex:EXPR",      \
		  OPTION_TAKEN(launch_filter_take_name, of, member) },                             \
		{ 0, "kernel-name-base", "BASE",                                                   \
		  "what is compared: function, demangled or mangled",                              \
		  OPTION_TAKEN(launch_filter_take_base, of, member) },                             \
		{ 's', "launch-skip", "N", "leave out the first N matching launches of a process", \
		  OPTION_AT(NUMBER, of, member.chosen.launch_skip) },                              \
		{ 0, "launch-every", "N", "then measure the first of each N",                      \
		  OPTION_AT(COUNT, of, member.chosen.launch_every) },                              \
		{ 'c', "launch-count", "N", "and no more than N of these",                         \
		  OPTION_AT(NUMBER, of, member.chosen.launch_count) },                             \
		{ 0, "filter-mode", "MODE",                                                        \
		  "these count global, per-gpu, per-kernel or per-launch-config",                  \
		  OPTION_TAKEN(launch_filter_take_mode, of, member) },                             \
		{ 0, "record-limit", "N", "end the capture when there are N records",              \
		  OPTION_AT(COUNT, of, member.chosen.record_limit) },                              \
		{ 0, "nvtx-include", "EXPR", "only in these NVTX ranges, as with ncu",             \
		  OPTION_AT(ITEM, of, member.nvtx_include) },                                      \
		{ 0, "nvtx-exclude", "EXPR", "not in these NVTX ranges",                           \
		  OPTION_AT(ITEM, of, member.nvtx_exclude) },                                      \
		{ 0, "nvtx-push-pop-scope", "SCOPE",                                               \
		  "of their push/pop ranges: thread (default) or process",                         \
		  OPTION_TAKEN(launch_filter_take_scope, of, member) },                            \
		{ 0, "profile-from-start", "on|off", "off: as --capture-range cudaProfilerApi",    \
		  OPTION_TAKEN(launch_filter_take_from_start, of, member) },                       \
		{ 0, "capture-range", "RANGE", "only in cudaProfilerApi or nvtx:EXPR",             \
		  OPTION_AT(TEXT, of, member.chosen.capture_range) },                              \
		{ 0, "stop-on-range-end", NULL, "only the first such range",                       \
		  OPTION_AT(FLAG, of, member.stop_on_range_end) },                                 \
		{ 0, "schedule", "LIST", "skip_first=,wait=,warmup=,active=,repeat=: some steps",  \
		  OPTION_TAKEN(launch_filter_take_schedule, of, member) },                         \
		{ 0, "steps", "N", "the next N steps: as --schedule active=N,repeat=1",            \
		  OPTION_TAKEN(launch_filter_take_steps, of, member) },                            \
	{                                                                                          \
		0, "step", "EXPR", "what begins a step: NVTX, cudaProfilerStart or gpuctr_step",   \
			OPTION_AT(TEXT, of, member.chosen.step)                                    \
	}

/* Of these rows: s is a struct launch_filter. */
bool launch_filter_take_regex(void *s, const char *value);
bool launch_filter_take_name(void *s, const char *value);
bool launch_filter_take_base(void *s, const char *value);
bool launch_filter_take_mode(void *s, const char *value);
bool launch_filter_take_scope(void *s, const char *value);
bool launch_filter_take_from_start(void *s, const char *value);
bool launch_filter_take_schedule(void *s, const char *value);
bool launch_filter_take_steps(void *s, const char *value);

/* Checks options that depend on each other. False: the reason was reported. */
bool launch_filter_check(const struct launch_filter *s);
void launch_filter_deinit(struct launch_filter *s);

bool launch_filter_is_used(const struct launch_filter *s);
/* Do the options limit how many launches are measured? */
bool launch_filter_is_bounded(const struct launch_filter *s);

/* Options of a capture of these launches; they borrow s. */
struct gpuctr_capture_options launch_filter_capture(const struct launch_filter *s);
