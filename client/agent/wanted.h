/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct arguments;
struct capture;
struct function;
struct ranges;
struct section;

/* Is this launch to be measured, by the filter, the NVTX ranges around it, skip and count? Counts
 * it otherwise. */
bool wanted_by_filter(struct capture *c, const struct function *f, const struct arguments *g);

/* With a budget: does the chooser choose the launch? v->chosen has its stratum. False: the launch
 * is counted as not sampled. */
bool wanted_by_budget(struct capture *c, struct section *v, struct ranges *r, struct function *f,
		      const struct arguments *g);
