/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The passes of a capture, each of which measures one of the plan's groups of metrics. Mostly there
 * is one, the whole plan. In the agent only passes.c says groups; elsewhere they are passes. */

#include "proto/base/arena.h"
#include "proto/wire/limits.h"
#include "proto/wire/status.h"
#include "proto/wire/wire.h"

struct passes {
	uint32_t n;
	/* A plan for each pass, with all columns. Columns of other groups have no terms, and so no
	 * value. */
	struct wire_plan v[LIMIT_GROUPS];
	bool may_block[LIMIT_GROUPS]; /* push and pop of the pass's ranges wait for the GPU */
};

/* Allocates from a, and borrows from plan. 0, or a code with r filled: no memory, too many groups,
 * or a column in no group. */
int passes_init(struct passes *p, struct arena *a, const struct wire_plan *plan, struct refusal *r);

/* Adds a hardware metric to the passes that lack it and have room. */
void passes_add_metric(struct passes *p, struct arena *a, const char *name);
