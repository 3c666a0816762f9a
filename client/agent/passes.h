/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The passes of a capture: its plan, taken apart into its groups of metrics, each of one pass. Only
 * passes.c speaks of groups: everywhere else in the agent they are passes.
 * Mostly there is one, which is the whole plan. */

#include "proto/base/arena.h"
#include "proto/wire/limits.h"
#include "proto/wire/status.h"
#include "proto/wire/wire.h"

struct passes {
	uint32_t n;
	/* Each plan has all columns. Columns of other groups have no terms, and so no value. */
	struct wire_plan v[LIMIT_GROUPS];
	bool may_block[LIMIT_GROUPS]; /* opening and closing its ranges waits for the GPU */
};

/* Everything lives in a or is the plan's. 0, or a code with r filled: the plan has too many groups,
 * or a column that is in none. */
int passes_init(struct passes *p, struct arena *a, const struct wire_plan *plan, struct refusal *r);

/* Adds a hardware metric to those that lack it, while there is room. */
void passes_add_metric(struct passes *p, struct arena *a, const char *name);
