/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_MERGE_H
#define CLIENT_REPORT_MERGE_H

/* Joins the kernels of a trace with the records of a capture of another run of the same program:
 * the i-th launch of a name there with the i-th of that name here. Correlation ids and times differ
 * between runs, so nothing else can tell. */

#include <gpuctr/gpuctr.h>

#include "client/report/trace.h"

struct merge;

/* The trace, which is sorted, lives longer. NULL: out of memory. */
struct merge *merge_new(struct trace *trace, const struct gpuctr_plan *plan);
struct merge *merge_free(struct merge *m); /* takes NULL, returns NULL */

/* In the order of the process. 0 or -ENOMEM. */
int merge_record(struct merge *m, const struct gpuctr_record *record);

/* Events of category cuda_profiler_range, one for each launch. */
enum merge_ranges {
	MERGE_WRITES_RANGES, /* there are none yet */
	MERGE_FILLS_RANGES,  /* there is one for each already: of another capture */
	MERGE_LEAVES_RANGES, /* there are some, and not one for each */
};

struct merge_counts {
	uint64_t joined, trace_alone, capture_alone;
	enum merge_ranges ranges;
	uint64_t launches, launches_alone; /* those without counters */
	uint64_t otherwise;		   /* joined, and not launched by one of these */
	uint64_t together;		   /* launches in one microsecond with the one before */
	uint64_t bare;			   /* launches that no operator was around */
};

/* All records have come. 0 or -ENOMEM. */
int merge_finish(struct merge *m, struct merge_counts *ret);

/* Where in the text of the trace, from its begin to its end, something is to be put in next; false:
 * nowhere any more. merge_put() appends what, and goes on to the place after it. */
bool merge_next(const struct merge *m, uint64_t *ret_at);
void merge_put(struct merge *m, struct buf *b);

#endif
