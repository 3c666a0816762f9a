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

struct merge_counts {
	uint64_t joined, trace_alone, capture_alone;
};

/* All records have come: the trace is in the order of the file again. */
void merge_finish(struct merge *m, struct merge_counts *ret);

/* Appends what is to be inserted before the end of a kernel's arguments. */
void merge_add_values(const struct merge *m, const struct trace_kernel *kernel, struct buf *b);

#endif
