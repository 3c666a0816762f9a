/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The events of a trace, and which of them belong together: kernels and records by name and order,
 * launches and kernels by correlation id. */

#include <gpuctr/gpuctr.h>

#include "client/report/trace.h"
#include "proto/base/map.h"

/* A name that kernels share, or a thread. */
struct merge_name {
	struct merge_name *plain; /* without spaces; names that differ in spaces alone share it */
	size_t next, end;	  /* of a plain name: its kernels without a record, in by_order */
	struct merge_op *ops;	  /* operators of a thread */
	size_t n_ops, max_ops, begun;
	double until; /* the latest end of the operators that have begun */
	char text[];
};

struct merge_event {
	uint64_t at : 62; /* offset of an insertion: before a launch, else behind arguments */
	uint64_t empty : 1, put : 1; /* the arguments are empty; something is inserted */
	uint64_t correlation;	     /* of a range: the correlation id of its launch */
	union {
		double begin;
		unsigned device; /* of a kernel */
	};
	double us;
	struct merge_name *name; /* of a kernel; the thread of a launch */
};

/* Zero-initialised by the caller. */
struct merge_join {
	struct map names;
	struct merge_list {
		struct merge_event *items; /* in the order of the trace */
		size_t n, max;
	} lists[TRACE_END]; /* lists of kernels, launches and ranges, by category */
	uint64_t end;	    /* offset of the ']' that ends the last list with a launch in it */
	struct merge_event **by_order; /* kernels by plain name and order */
	struct merge_event **by_id;    /* kernels by correlation id */
	struct merge_event **by_time;  /* launches */
};

void merge_join_deinit(struct merge_join *j);

/* These return 0 or -ENOMEM. merge_join_event() is a callback of trace_read(); merge_join_begin()
 * is called after it. */
int merge_join_event(const struct trace_event *event, void *join);
int merge_join_begin(struct merge_join *j);
/* Sets *ret to the kernel that belongs to the next record of this name, or to NULL. */
int merge_join_record(struct merge_join *j, const struct gpuctr_kernel *kernel,
		      struct merge_event **ret);
/* To be called after the last record. */
int merge_join_finish(struct merge_join *j);

/* The first kernel that has this correlation id; NULL: there is none. */
const struct merge_event *merge_join_find(const struct merge_join *j, uint64_t correlation);
