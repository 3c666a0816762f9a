/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A trace in Chrome's format, as torch.profiler writes it: what counters are joined to, and where
 * in its text something can be put in. */

#include <stdbool.h>

#include "client/report/trace_text.h"
#include "proto/base/buf.h"

enum trace_category {
	TRACE_OTHER,
	TRACE_KERNEL, /* category "kernel" */
	TRACE_OP,     /* "cpu_op" */
	TRACE_LAUNCH, /* "cuda_runtime" whose name begins with cudaLaunchKernel */
	TRACE_RANGE,  /* "cuda_profiler_range": the trace has counters already */
	TRACE_END,    /* no event: the ']' that ends a list of events with a launch in it */
};

/* What a trace does not say is 0. */
struct trace_event {
	enum trace_category category;
	const char *name;
	const char *thread; /* "pid":1,"tid":2 as the event has them */
	double begin, us;
	uint64_t at, args_at; /* offsets of what begins it, of the '}' that ends its arguments */
	bool has_name, has_args, has_begin, has_duration;
	bool empty;	      /* it has no arguments yet */
	uint64_t correlation; /* launches are numbered by it in their order */
	unsigned device;
};

/* Calls it for each event of these categories, in the order of the file: kernels have a name and
 * arguments, launches, operators and ranges a begin and a length besides. What it returns other
 * than 0 ends the reading, and is returned.
 *
 * 0, -ENOMEM, another negative errno of the file, or -EINVAL with why told when it is no trace, and
 * *ret_remedy where there is one; else it is left as it is. *ret_bytes: of the text. */
int trace_read(gzFile text, int (*on_event)(const struct trace_event *event, void *userdata),
	       void *userdata, uint64_t *ret_bytes, struct buf *why, const char **ret_remedy);
