/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads a trace in Chrome's format, as torch.profiler writes it: the events that counters are
 * joined to, and the offsets at which text can be inserted. */

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

/* An event. Members that the trace does not have are 0. */
struct trace_event {
	enum trace_category category;
	const char *name;
	const char *thread; /* "pid":1,"tid":2 as the event has them */
	double begin, us;
	uint64_t at, args_at; /* offsets of the event's '{' and of the '}' of its arguments */
	bool has_name, has_args, has_begin, has_duration;
	bool empty;	      /* the list of arguments is empty */
	uint64_t correlation; /* correlation id; launches have rising ids */
	unsigned device;
};

/* Calls on_event for each event of these categories, in the order of the file. Kernels have a name
 * and arguments; launches, operators and ranges also have a begin and a length. If on_event returns
 * other than 0, the reading ends with this result.
 *
 * Returns 0, -ENOMEM, another negative errno of the file, or -EINVAL if the file is no trace. Then
 * why is filled, and *ret_remedy set if there is a remedy, and unchanged otherwise. *ret_bytes:
 * length of the text. */
int trace_read(gzFile text, int (*on_event)(const struct trace_event *event, void *userdata),
	       void *userdata, uint64_t *ret_bytes, struct buf *why, const char **ret_remedy);
