/* SPDX-License-Identifier: Apache-2.0 */

/* HolisticTraceAnalysis finds counters in events of category cuda_profiler_range: it pairs the i-th
 * of them, by ts, with the i-th cuda_runtime event whose name begins with cudaLaunchKernel, wants
 * as many of the one as of the other, and looks up the operators (cpu_op) around that launch, of
 * which there must be one. Times are rounded up to whole microseconds before.
 *
 * So each such launch gets a range, one without counters too, in the order of the launches and at
 * whole microseconds of which none comes twice; and where no operator is around a launch, one with
 * its times is put in before it. A kernel that was launched in another way has its counters at the
 * kernel alone. Where the trace has a range for each launch already, of a capture of other metrics,
 * the counters go into these. */

#include "client/report/merge_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/array.h"

/* --- order ----------------------------------------------------------------------------------- */

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int compare_time(double a, double b)
{
	return a < b ? -1 : a > b;
}

static int kernels_by_correlation(const void *a, const void *b)
{
	const struct trace_kernel *x = a, *y = b;
	int order = compare(x->correlation, y->correlation);

	return order ? order : compare(x->at, y->at);
}

static int launches_by_time(const void *a, const void *b)
{
	const struct trace_launch *x = a, *y = b;
	int order = compare_time(x->begin, y->begin);

	return order ? order : compare(x->at, y->at);
}

static int launches_by_thread(const void *a, const void *b)
{
	const struct trace_launch *x = a, *y = b;
	int order = compare((uintptr_t)x->thread, (uintptr_t)y->thread);

	return order ? order : launches_by_time(a, b);
}

static int launches_by_offset(const void *a, const void *b)
{
	const struct trace_launch *x = a, *y = b;

	return compare(x->at, y->at);
}

static int ops_by_thread(const void *a, const void *b)
{
	const struct trace_op *x = a, *y = b;
	int order = compare((uintptr_t)x->thread, (uintptr_t)y->thread);

	return order ? order : compare_time(x->begin, y->begin);
}

static int ranges_by_time(const void *a, const void *b)
{
	const struct trace_range *x = a, *y = b;
	int order = compare_time(x->begin, y->begin);

	return order ? order : compare(x->at, y->at);
}

static int ranges_by_offset(const void *a, const void *b)
{
	const struct trace_range *x = a, *y = b;

	return compare(x->at, y->at);
}

/* qsort() must not be called with NULL, which an empty list may be. */
static void sort(void *items, size_t n, size_t size, int (*by)(const void *, const void *))
{
	if (n > 0) {
		qsort(items, n, size, by);
	}
}

/* --- launches -------------------------------------------------------------------------------- */

/* The first that has this correlation id. */
static const struct trace_kernel *find_kernel(const struct trace *t, uint64_t correlation)
{
	size_t low = ARRAY_FIND_INDEX(t->kernels, t->n, correlation, correlation);

	return low < t->n && t->kernels[low].correlation == correlation ? &t->kernels[low] : NULL;
}

bool merge_has_value(const struct merge *m, size_t values)
{
	size_t n = m->plan->n_columns;

	for (size_t i = 0; values > 0 && i < n; i++) {
		if (isfinite(m->values[2 * (values - 1) * n + i])) {
			return true;
		}
	}
	return false;
}

static void find_kernels(struct merge *m, struct merge_counts *counts)
{
	struct trace *t = m->trace;
	uint64_t valued = 0;

	sort(t->kernels, t->n, sizeof(*t->kernels), kernels_by_correlation);
	for (size_t i = 0; i < t->n_launches; i++) {
		struct trace_launch *l = &t->launches[i];
		const struct trace_kernel *k = find_kernel(t, l->correlation);

		if (k) {
			l->values = k->values;
			l->text = k->text;
			l->kernel_us = k->us;
			l->device = k->device;
		}
		valued += merge_has_value(m, l->values);
	}
	counts->launches = t->n_launches;
	counts->launches_alone = t->n_launches - valued;
	counts->otherwise = counts->valued > valued ? counts->valued - valued : 0;
}

/* Operators of a thread nest or do not overlap. So a launch is within an operator if the latest end
 * of the operators that have begun is after it. */
static void find_ops(struct trace *t)
{
	const char *thread = NULL;
	double end = 0;
	size_t op = 0;

	sort(t->ops, t->n_ops, sizeof(*t->ops), ops_by_thread);
	sort(t->launches, t->n_launches, sizeof(*t->launches), launches_by_thread);
	for (size_t i = 0; i < t->n_launches; i++) {
		struct trace_launch *l = &t->launches[i];

		if (l->thread != thread) {
			thread = l->thread;
			end = -INFINITY;
		}
		while (op < t->n_ops && (uintptr_t)t->ops[op].thread < (uintptr_t)thread) {
			op++;
		}
		while (op < t->n_ops && t->ops[op].thread == thread &&
		       t->ops[op].begin <= l->begin) {
			end = fmax(end, t->ops[op++].end);
		}
		l->in_op = end >= l->begin + l->us;
	}
}

static int keep_bare(struct merge *m)
{
	const struct trace *t = m->trace;

	m->bare = calloc(t->n_launches + 1, sizeof(*m->bare));
	for (size_t i = 0; m->bare && i < t->n_launches; i++) {
		if (!t->launches[i].in_op) {
			m->bare[m->n_bare++] = t->launches[i];
		}
	}
	if (m->bare) {
		sort(m->bare, m->n_bare, sizeof(*m->bare), launches_by_offset);
	}
	return m->bare ? 0 : -ENOMEM;
}

/* Rounds the launches' times to whole microseconds as HTA does, and makes them differ. */
static void set_times(struct trace *t, struct merge_counts *counts)
{
	double last = -INFINITY;
	int64_t last_us = INT64_MIN;

	sort(t->launches, t->n_launches, sizeof(*t->launches), launches_by_time);
	for (size_t i = 0; i < t->n_launches; i++) {
		double begin = ceil(t->launches[i].begin);
		int64_t us = fabs(begin) < 9e18 ? (int64_t)begin : 0;

		counts->together += begin == last;
		last = begin;
		last_us = us > last_us ? us : last_us + 1;
		t->launches[i].range_us = last_us;
	}
}

static void fill_ranges(struct trace *t)
{
	sort(t->ranges, t->n_ranges, sizeof(*t->ranges), ranges_by_time);
	for (size_t i = 0; i < t->n_ranges; i++) {
		t->ranges[i].values = t->launches[i].values;
	}
	sort(t->ranges, t->n_ranges, sizeof(*t->ranges), ranges_by_offset);
}

int merge_ranges_prepare(struct merge *m, struct merge_counts *counts)
{
	struct trace *t = m->trace;
	int r = 0;

	counts->ranges = t->n_ranges == 0		? MERGE_WRITES_RANGES
			 : t->n_ranges == t->n_launches ? MERGE_FILLS_RANGES
							: MERGE_LEAVES_RANGES;
	find_kernels(m, counts);
	find_ops(t);
	if (counts->ranges != MERGE_LEAVES_RANGES) {
		r = keep_bare(m);
		counts->bare = m->n_bare;
	}
	set_times(t, counts);
	if (counts->ranges == MERGE_FILLS_RANGES) {
		fill_ranges(t);
	}
	return r;
}
