/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The options of "run" and "capture" that choose the launches to measure, and the time to wait for
 * the GPUs. */

#include <gpuctr/gpuctr.h>

#include "client/cli/options.h"

struct launch_filter {
	/* Has the time to wait and the members that choose launches, except NVTX expressions. */
	struct gpuctr_capture_options chosen;
	struct strings nvtx_include, nvtx_exclude;
};

/* For rows of a table of options: s is a struct launch_filter. */
bool launch_filter_take_kernel(void *s, const char *value);
bool launch_filter_take_nvtx(void *expressions, const char *value);
bool launch_filter_take_skip(void *s, const char *value);
bool launch_filter_take_count(void *s, const char *value);
bool launch_filter_take_per(void *s, const char *value);
bool launch_filter_take_from_start(void *s, const char *value);
bool launch_filter_take_range_end(void *s, const char *value);
bool launch_filter_take_schedule(void *s, const char *value);
bool launch_filter_take_steps(void *s, const char *value);
/* Takes the time to wait in the queue; 0: not at all. */
bool launch_filter_take_wait(void *s, const char *value);

void launch_filter_deinit(struct launch_filter *s);

/* Do the options limit how many launches are measured? */
bool launch_filter_is_bounded(const struct launch_filter *s);

/* Chooses n steps, as --steps does. False: the options name steps or a range already. */
bool launch_filter_measure_steps(struct launch_filter *s, uint64_t n);

/* Returns options of a capture of the chosen launches, which borrow s. */
struct gpuctr_capture_options launch_filter_capture(const struct launch_filter *s);
