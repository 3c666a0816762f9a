/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Joins the kernels of a trace with the records of a capture that was made in another run of the
 * same program: the i-th launch of a name in the trace with the i-th launch of that name in the
 * capture. Names and order are all that the runs share; correlation ids and times differ. */

#include <gpuctr/gpuctr.h>

#include "client/report/trace.h"

struct merge;

/* trace and plan must outlive the result. NULL: out of memory. */
struct merge *merge_new(struct trace *trace, const struct gpuctr_plan *plan);
struct merge *merge_free(struct merge *m); /* takes NULL, returns NULL */

/* Adds a record; records come in the order of their index. 0 or -ENOMEM. */
int merge_record(struct merge *m, const struct gpuctr_record *record);

/* Events of category cuda_profiler_range, one for each launch. */
enum merge_ranges {
	MERGE_WRITES_RANGES, /* the trace has none yet */
	MERGE_FILLS_RANGES,  /* the trace has one for each launch, from another capture */
	MERGE_LEAVES_RANGES, /* the trace has some, but not one for each launch */
};

struct merge_counts {
	uint64_t joined, trace_alone, capture_alone;
	uint64_t valued; /* of the joined, those that have a value of some metric */
	enum merge_ranges ranges;
	uint64_t launches, launches_alone; /* launches; launches without counters */
	uint64_t otherwise; /* kernels with counters that were not launched by one of these */
	uint64_t together;  /* launches within the same microsecond as the launch before */
	uint64_t bare;	    /* launches outside any operator */
	uint64_t crowded;   /* ranges that overlap others on their track */
};

/* To be called after the last record. 0 or -ENOMEM. */
int merge_finish(struct merge *m, struct merge_counts *ret);

/* The offset in the trace's text where merge_put() will next insert something; offsets rise. False:
 * there is nothing more to insert. merge_put() appends the insertion and goes on to the next
 * offset. */
bool merge_next(const struct merge *m, uint64_t *ret_at);
void merge_put(struct merge *m, struct buf *b);
