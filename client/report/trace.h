/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What counters are joined to in a trace, and where in its text something can be put in. */

#include "client/report/texts.h"
#include "client/report/trace_events.h"

/* An event of category "kernel". */
struct trace_kernel {
	uint64_t name;	      /* trace_hash() of the name */
	const char *text;     /* the name, of the trace's texts */
	uint64_t correlation; /* launches are numbered by it in their order */
	uint64_t at;	      /* offset of the '}' that ends its arguments */
	double us;	      /* how long it ran */
	unsigned device;
	bool empty;    /* it has no arguments yet */
	size_t values; /* for merge.c: 1 + index of the kernel's values; 0: none */
};

/* An event of category "cuda_runtime" whose name begins with cudaLaunchKernel. */
struct trace_launch {
	double begin, us;
	uint64_t correlation;
	uint64_t at;	    /* offset of the '{' that begins the event */
	const char *thread; /* "pid":1,"tid":2 as the event has them, of the trace's texts */
	/* For who joins: */
	bool in_op;	  /* an operator is around it */
	size_t values;	  /* as of a kernel */
	const char *text; /* name of the launched kernel; NULL: not in the trace */
	double kernel_us;
	unsigned device;
	int64_t range_us; /* when its range begins */
};

/* An event of category "cpu_op" that does not lie within the one before. */
struct trace_op {
	double begin, end;
	const char *thread;
};

/* An event of category "cuda_profiler_range": the trace has counters already. */
struct trace_range {
	double begin;
	uint64_t at; /* as of a kernel */
	bool empty;
	size_t values; /* offset of the '}' that ends its arguments */
};

struct trace {
	struct trace_kernel *kernels; /* in the order of the file */
	struct trace_launch *launches;
	struct trace_op *ops;
	struct trace_range *ranges;
	size_t n, n_launches, n_ops, n_ranges;
	size_t max, max_launches, max_ops, max_ranges;
	uint64_t end;	/* offset of the ']' that ends a list of events with a launch in it */
	uint64_t bytes; /* of the text */
	struct texts texts;
};

/* 0, -ENOMEM, another negative errno of the file, or -EINVAL with why told when it is no trace. */
int trace_read(struct trace *t, struct trace_text *text, struct buf *why);
void trace_deinit(struct trace *t);

/* "pid":1,"tid":2 as the event has them, made in b. NULL: out of memory. */
const char *trace_thread(struct texts *texts, const struct trace_event *e, struct buf *b);

/* The hash of a kernel's name without its spaces: "> >" and ">>" are the same. */
uint64_t trace_hash(const char *name, size_t n);
