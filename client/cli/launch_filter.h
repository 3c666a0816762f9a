/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The options of "run" and "capture" that choose the launches to be measured. */

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
	{ 'k', "kernel-name", "NAME",                                                              \
	  "launches of this function, or of those that match regex:EXPR",                          \
	  OPTION_TAKEN(launch_filter_take_name, of, member) },                                     \
		{ 0, "kernel", "REGEX", "launches of kernels whose name with its types matches",   \
		  OPTION_TAKEN(launch_filter_take_regex, of, member) },                            \
		{ 0, "kernel-name-base", "BASE", NULL,                                             \
		  OPTION_TAKEN(launch_filter_take_base, of, member) },                             \
		{ 's', "launch-skip", "N", "all but the first N launches of a process that match", \
		  OPTION_AT(NUMBER, of, member.chosen.launch_skip) },                              \
		{ 0, "launch-every", "N", "of these, the first of each N launches",                \
		  OPTION_AT(COUNT, of, member.chosen.launch_every) },                              \
		{ 'c', "launch-count", "N", "of these, no more than N launches of a process",      \
		  OPTION_AT(NUMBER, of, member.chosen.launch_count) },                             \
		{ 0, "filter-mode", "MODE", NULL,                                                  \
		  OPTION_TAKEN(launch_filter_take_mode, of, member) },                             \
		{ 0, "nvtx-include", "EXPR", "launches in these NVTX ranges, written as for ncu",  \
		  OPTION_AT(ITEM, of, member.nvtx_include) },                                      \
		{ 0, "nvtx-exclude", "EXPR", "launches outside of these NVTX ranges",              \
		  OPTION_AT(ITEM, of, member.nvtx_exclude) },                                      \
		{ 0, "profile-from-start", "on|off", NULL,                                         \
		  OPTION_TAKEN(launch_filter_take_from_start, of, member) },                       \
		{ 0, "capture-range", "RANGE",                                                     \
		  "launches while cudaProfilerApi is on, or nvtx:EXPR is open",                    \
		  OPTION_AT(TEXT, of, member.chosen.capture_range) },                              \
		{ 0, "stop-on-range-end", NULL, NULL,                                              \
		  OPTION_AT(FLAG, of, member.stop_on_range_end) },                                 \
		{ 0, "schedule", "LIST", NULL,                                                     \
		  OPTION_TAKEN(launch_filter_take_schedule, of, member) },                         \
		{ 0, "steps", "N", "launches of the next N steps of a loop, such as a training's", \
		  OPTION_TAKEN(launch_filter_take_steps, of, member) },                            \
	{                                                                                          \
		0, "step", "EXPR",                                                                 \
			"what begins a step, as for --nvtx-include (default: it is found)",        \
			OPTION_AT(TEXT, of, member.chosen.step)                                    \
	}

/* Of these rows: s is a struct launch_filter. */
bool launch_filter_take_regex(void *s, const char *value);
bool launch_filter_take_name(void *s, const char *value);
bool launch_filter_take_base(void *s, const char *value);
bool launch_filter_take_mode(void *s, const char *value);
bool launch_filter_take_from_start(void *s, const char *value);
bool launch_filter_take_schedule(void *s, const char *value);
bool launch_filter_take_steps(void *s, const char *value);

/* Checks options that depend on each other. False: the reason was reported. */
bool launch_filter_check(const struct launch_filter *s);
void launch_filter_deinit(struct launch_filter *s);

bool launch_filter_is_used(const struct launch_filter *s);
/* Do the options limit how many launches are measured? */
bool launch_filter_is_bounded(const struct launch_filter *s);

/* As --steps does. False: the options name steps or a range already. */
bool launch_filter_measure_steps(struct launch_filter *s, uint64_t n);

/* Options of a capture of these launches; they borrow s. */
struct gpuctr_capture_options launch_filter_capture(const struct launch_filter *s);
