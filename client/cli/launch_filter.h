/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The options of "run" and "capture" that choose the launches to be measured. */

#include <gpuctr/gpuctr.h>

#include "client/cli/options.h"

struct launch_filter {
	/* Of it what chooses launches is set, but for what follows. */
	struct gpuctr_capture_options chosen;
	struct strings nvtx_include, nvtx_exclude;
};

/* Rows of a table of options, for a struct that has a struct launch_filter as this member. */
#define LAUNCH_FILTER_OPTIONS(of, member)                                                      \
	{ 'k', "kernel", "NAME|regex:RE",                                                      \
	  "this function, or what matches in a name with its types",                           \
	  OPTION_TAKEN(launch_filter_take_kernel, of, member) },                               \
		{ 's', "skip", "N", "all but the first N launches of a process that match",    \
		  OPTION_TAKEN(launch_filter_take_skip, of, member) },                         \
		{ 0, "every", "N", "of these, the first of each N launches",                   \
		  OPTION_AT(COUNT, of, member.chosen.launch_every) },                          \
		{ 'c', "count", "N", "of these, no more than N launches of a process",         \
		  OPTION_TAKEN(launch_filter_take_count, of, member) },                        \
		{ 0, "per", "kernel|gpu",                                                      \
		  "-s, --every and -c count launches of each kernel, or GPU",                  \
		  OPTION_TAKEN(launch_filter_take_per, of, member) },                          \
		{ 0, "nvtx", "EXPR", "launches in these NVTX ranges, written as for ncu",      \
		  OPTION_TAKEN(launch_filter_take_nvtx, of, member.nvtx_include) },            \
		{ 0, "no-nvtx", "EXPR", "launches outside of these NVTX ranges",               \
		  OPTION_AT(ITEM, of, member.nvtx_exclude) },                                  \
		{ 0, "within", "RANGE",                                                        \
		  "launches while cudaProfilerApi is on, or nvtx:EXPR is open",                \
		  OPTION_AT(TEXT, of, member.chosen.capture_range) },                          \
		{ 0, "steps", "N|SKIP+N",                                                      \
		  "launches of N steps of a loop, such as a training's, after SKIP others",    \
		  OPTION_TAKEN(launch_filter_take_steps, of, member) },                        \
	{                                                                                      \
		0, "step", "EXPR", "what begins a step, as for --nvtx (default: it is found)", \
			OPTION_AT(TEXT, of, member.chosen.step)                                \
	}

/* The same in words of other tools that mean what ours cannot say. */
#define LAUNCH_FILTER_FOREIGN(of, member)                                                          \
	{ 0, "profile-from-start", "on|off", NULL,                                                 \
	  OPTION_TAKEN(launch_filter_take_from_start, of, member) },                               \
		{ 0, "capture-range-end", "HOW", NULL,                                             \
		  OPTION_TAKEN(launch_filter_take_range_end, of, member) },                        \
	{                                                                                          \
		0, "schedule", "LIST", NULL, OPTION_TAKEN(launch_filter_take_schedule, of, member) \
	}

/* Of these rows: s is a struct launch_filter. */
bool launch_filter_take_kernel(void *s, const char *value);
bool launch_filter_take_nvtx(void *expressions, const char *value);
bool launch_filter_take_skip(void *s, const char *value);
bool launch_filter_take_count(void *s, const char *value);
bool launch_filter_take_per(void *s, const char *value);
bool launch_filter_take_from_start(void *s, const char *value);
bool launch_filter_take_range_end(void *s, const char *value);
bool launch_filter_take_schedule(void *s, const char *value);
bool launch_filter_take_steps(void *s, const char *value);

void launch_filter_deinit(struct launch_filter *s);

/* Do the options limit how many launches are measured? */
bool launch_filter_is_bounded(const struct launch_filter *s);

/* As --steps does. False: the options name steps or a range already. */
bool launch_filter_measure_steps(struct launch_filter *s, uint64_t n);

/* Options of a capture of these launches; they borrow s. */
struct gpuctr_capture_options launch_filter_capture(const struct launch_filter *s);
