/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a trace of torch.profiler's says of its program, in the terms of a capture: kernels and
 * copies with their times, and around each launch the ranges that emit_nvtx() would have opened
 * (operators, labels, steps, modules). Values of counters it has none. */

#include <gpuctr/gpuctr.h>

#include "client/report/texts.h"
#include "client/report/trace.h"

enum { TORCH_EVENTS_MAX = 1 << 24 }; /* of each kind that is kept; a trace with more is refused */

struct torch_launch;
struct torch_span;
struct torch_kernel;
struct torch_thread;

struct torch {
	/* Where the clock of its times begins, since 1970: what the trace says, if it does. */
	bool has_base;
	int64_t base_ns;
	int64_t begin_ns, end_ns; /* of all kernels and copies that have times, by that clock */

	struct gpuctr_process process; /* number 1, and its devices, which have no UUID yet */
	struct gpuctr_device *devices;
	size_t n_devices, max_devices;
	struct torch_kernel *kernels; /* in the order of their launches */
	size_t n_kernels, max_kernels;
	struct gpuctr_copy *copies;
	size_t n_copies, max_copies;
	uint64_t timeless_copies; /* left out */

	struct torch_launch *launches;
	size_t n_launches, max_launches;
	struct torch_span *spans;
	size_t n_spans, max_spans;
	struct torch_thread *threads;
	size_t n_threads, max_threads;
	struct gpuctr_range *ranges;
	struct map kernels_by_name, threads_by_text;
	struct texts texts;
	struct buf text;
};

/* Zero-initialised by the caller. 0, a negative errno of the file, or -EINVAL with why told. */
int torch_read(struct torch *t, const char *path, struct buf *why);
void torch_deinit(struct torch *t);

/* The i-th kernel, without values; its index is i. Valid as long as the trace. Times are on the
 * clock that begins at base_ns. */
void torch_record(const struct torch *t, size_t i, struct gpuctr_record *ret);
void torch_copy(const struct torch *t, size_t i, struct gpuctr_copy *ret);
