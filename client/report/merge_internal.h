/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What merge.c and merge_ranges.c share; nobody else includes this. */

#include "client/report/merge.h"

struct merge {
	struct trace *trace;
	struct merge_queue *queues; /* by name */
	size_t n_queues;
	const struct gpuctr_plan *plan;
	double *values; /* of the joined launches, one after the other: values, then errors */
	size_t n_values, max_values;
	const char **unsampled; /* of each: why a value is missing; NULL: it is not */
	size_t max_unsampled;
	uint64_t alone;

	/* Places of the text where something is inserted, each list in the order of the file. */
	size_t next_kernel, next_bare, next_range, next_launch;
	struct trace_launch *bare; /* launches without an operator around them */
	size_t n_bare;
	enum merge_ranges ranges;
};

/* Is one of these, as trace_kernel.values has them, known? */
bool merge_has_value(const struct merge *m, size_t values);

/* Finds the values that belong to each launch, and what to insert for it. 0 or -ENOMEM. */
int merge_ranges_prepare(struct merge *m, struct merge_counts *counts);
