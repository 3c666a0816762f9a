/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Plans what the hardware measures for the names that a user typed: metrics, columns, passes. */

#include "proto/nvidia/catalogue.h"

/* Resolves names, presets and derived names, in their order and without repeats. When they do not
 * fit into one pass, groups says how many one-pass captures cover them, and each column names its
 * group; the columns of a preset are in one group, except columns that an earlier name has added.
 * That takes hundreds of calls of CUPTI; a plan that is not complete by by_ns is refused.
 * fits_duration: gpu__time_duration.sum also fits into each group, for an agent that has no better
 * time.
 *
 * The plan lives in a. other_chips names chips that have a metric which this one lacks; it may be
 * NULL. 0, or a positive code with r filled. A plan of more than one pass is not an error here. */
typedef const char *(*plan_other_chips)(void *userdata, struct arena *a, const char *metric);

int plan_make(struct catalogue *c, struct arena *a, const struct wire_strings *wanted,
	      plan_other_chips other_chips, void *userdata, uint64_t by_ns, struct wire_plan *ret,
	      struct refusal *r);
