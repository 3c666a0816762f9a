/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A trace in Chrome's format, as torch.profiler writes it: what counters are joined to, and where
 * in its text something can be put in. */

#include <stdbool.h>

#include "client/report/texts.h"
#include "client/report/trace_text.h"
#include "proto/base/buf.h"

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

/* Where an event stands, with which those begin that are sorted by it. */
struct trace_place {
	const char *thread; /* "pid":1,"tid":2 as the event has them, of the trace's texts */
	double begin;
	uint64_t at; /* an offset */
};

/* An event of category "cuda_runtime" whose name begins with cudaLaunchKernel. */
struct trace_launch {
	struct trace_place place; /* at: of the '{' that begins the event */
	double us;
	uint64_t correlation;
	struct trace_kernel *kernel; /* for merge.c; NULL: it is not in the trace */
	bool in_op;		     /* for merge.c: an operator is around it */
};

/* An event of category "cpu_op" that does not lie within the one before. */
struct trace_op {
	struct trace_place place;
	double end;
};

/* An event of category "cuda_profiler_range": the trace has counters already. */
struct trace_range {
	struct trace_place place; /* without a thread; at: as of a kernel */
	bool empty;
};

struct trace {
	/* In the order of the file. */
	struct trace_kernel *kernels;
	struct trace_launch *launches;
	struct trace_op *ops;
	struct trace_range *ranges;
	size_t n, n_launches, n_ops, n_ranges;
	size_t max, max_launches, max_ops, max_ranges;
	uint64_t end;	/* offset of the ']' that ends a list of events with a launch in it */
	uint64_t bytes; /* of the text */
	struct texts texts;
};

/* 0, -ENOMEM, another negative errno of the file, or -EINVAL with why told when it is no trace, and
 * *ret_remedy where there is one; else it is left as it is. */
int trace_read(struct trace *t, struct trace_text *text, struct buf *why, const char **ret_remedy);
void trace_deinit(struct trace *t);

/* The hash of a kernel's name without its spaces: "> >" and ">>" are the same. */
uint64_t trace_hash(const char *name, size_t n);
