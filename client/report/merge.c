/* SPDX-License-Identifier: Apache-2.0 */

/* The trace's kernels sorted by name and order are a queue for each name, from which each record
 * takes the next. Values are kept for those that were taken.
 *
 * HolisticTraceAnalysis finds counters in events of category cuda_profiler_range: it pairs the i-th
 * of them, by ts, with the i-th cuda_runtime event whose name begins with cudaLaunchKernel, wants
 * as many of the one as of the other, and looks up the operators (cpu_op) around that launch, of
 * which there must be one. Times are rounded up to whole microseconds before.
 *
 * So each such launch gets a range, one without counters too, in the order of the launches and at
 * whole microseconds of which none comes twice; and where no operator is around a launch, one with
 * its times is put in before it. A kernel that was launched in another way has its counters at the
 * kernel alone. Where the trace has a range for each launch already, of a capture of other metrics,
 * the counters go into these. */

#include "client/report/merge.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/chrome.h"
#include "proto/base/array.h"

/* Kernels of one name, in the order of their launches. */
struct queue {
	uint64_t name;
	size_t next, end; /* in by_launch */
};

enum what {
	INSERT_VALUES, /* into the arguments of a kernel */
	INSERT_PLAIN,  /* into those of a range */
	INSERT_OP,     /* an operator before a launch */
	INSERT_RANGE,  /* a range at the end of the events */
};

struct insertion {
	uint64_t at; /* offset in the text */
	enum what what;
	bool first; /* nothing stands before it in its object */
	size_t values;
	const struct trace_launch *launch;
	int64_t us, length_us; /* of a range */
	unsigned lane;
};

struct merge {
	struct trace *trace;
	struct trace_kernel **by_launch; /* by name, then order */
	struct queue *queues;		 /* by name */
	size_t n_queues;
	const struct gpuctr_plan *plan;
	double *values; /* of the joined launches, one after the other: values, then errors */
	size_t n_values, max_values;
	uint64_t alone;

	struct insertion *insertions; /* sorted by offset */
	size_t n_insertions, max_insertions, next;
	struct lanes lanes; /* of the ranges */
};

/* --- order ----------------------------------------------------------------------------------- */

#define COMPARE(a, b) ((a) < (b) ? -1 : (a) > (b))

static int by_launch(const void *a, const void *b)
{
	const struct trace_kernel *x = *(struct trace_kernel *const *)a,
				  *y = *(struct trace_kernel *const *)b;
	int order = COMPARE(x->name, y->name);

	order = order ? order : COMPARE(x->correlation, y->correlation);
	return order ? order : COMPARE(x->at, y->at);
}

static int by_correlation(const void *a, const void *b)
{
	const struct trace_kernel *x = *(struct trace_kernel *const *)a,
				  *y = *(struct trace_kernel *const *)b;
	int order = COMPARE(x->correlation, y->correlation);

	return order ? order : COMPARE(x->at, y->at);
}

/* Of events that begin with their place. */
static int by_time(const void *a, const void *b)
{
	const struct trace_place *x = a, *y = b;
	int order = COMPARE(x->begin, y->begin);

	return order ? order : COMPARE(x->at, y->at);
}

static int by_thread(const void *a, const void *b)
{
	const struct trace_place *x = a, *y = b;
	int order = COMPARE((uintptr_t)x->thread, (uintptr_t)y->thread);

	return order ? order : by_time(a, b);
}

/* Ranges at the end keep their own order. */
static int insertions_by_offset(const void *a, const void *b)
{
	const struct insertion *x = a, *y = b;
	int order = COMPARE(x->at, y->at);

	return order ? order : COMPARE(x->us, y->us);
}

/* qsort() must not be called with NULL, which an empty list may be. */
static void sort(void *items, size_t n, size_t size, int (*by)(const void *, const void *))
{
	if (n > 0) {
		qsort(items, n, size, by);
	}
}

static int make_queues(struct merge *m)
{
	const struct trace *t = m->trace;
	const struct trace_kernel *last = NULL;

	m->by_launch = calloc(t->n + 1, sizeof(*m->by_launch));
	m->queues = calloc(t->n + 1, sizeof(*m->queues));
	if (!m->by_launch || !m->queues) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < t->n; i++) {
		m->by_launch[i] = &t->kernels[i];
	}
	sort(m->by_launch, t->n, sizeof(m->by_launch[0]), by_launch);
	for (size_t i = 0; i < t->n; i++) {
		const struct trace_kernel *k = m->by_launch[i];

		if (!last || k->name != last->name) {
			m->queues[m->n_queues++] = (struct queue){ .name = k->name, .next = i };
		}
		m->queues[m->n_queues - 1].end = i + 1;
		last = k;
	}
	return 0;
}

/* --- life ------------------------------------------------------------------------------------ */

struct merge *merge_new(struct trace *trace, const struct gpuctr_plan *plan)
{
	struct merge *m = calloc(1, sizeof(*m));

	if (!m) {
		return NULL;
	}
	m->trace = trace;
	m->plan = plan;
	return make_queues(m) ? merge_free(m) : m;
}

struct merge *merge_free(struct merge *m)
{
	if (m) {
		free(m->by_launch);
		free(m->queues);
		free(m->values);
		free(m->insertions);
		free(m);
	}
	return NULL;
}

/* --- records --------------------------------------------------------------------------------- */

static struct queue *find_queue(struct merge *m, const char *name)
{
	uint64_t hash = trace_hash(name, strlen(name));
	size_t i = ARRAY_FIND_INDEX(m->queues, m->n_queues, name, hash);

	return i < m->n_queues && m->queues[i].name == hash ? &m->queues[i] : NULL;
}

static int keep_values(struct merge *m, const struct gpuctr_record *record)
{
	size_t n = m->plan->n_columns;
	double *to;

	if (!array_make_room(&m->values, (2 * n + 1) * sizeof(double), m->n_values,
			     &m->max_values)) {
		return -ENOMEM;
	}
	to = &m->values[2 * m->n_values * n];
	for (size_t i = 0; i < n; i++) {
		to[i] = record->values[i];
		to[n + i] = record->errors ? record->errors[i] : NAN;
	}
	m->n_values++;
	return 0;
}

int merge_record(struct merge *m, const struct gpuctr_record *record)
{
	struct queue *q = record->kernel ? find_queue(m, record->kernel->name) : NULL;

	q = q || !record->kernel ? q : find_queue(m, record->kernel->mangled);
	if (!q || q->next == q->end) {
		m->alone++;
		return 0;
	}
	if (keep_values(m, record)) {
		return -ENOMEM;
	}
	m->by_launch[q->next++]->values = m->n_values;
	return 0;
}

static bool has_value(const struct merge *m, size_t values)
{
	size_t n = m->plan->n_columns;

	for (size_t i = 0; values > 0 && i < n; i++) {
		if (isfinite(m->values[2 * (values - 1) * n + i])) {
			return true;
		}
	}
	return false;
}

/* --- launches -------------------------------------------------------------------------------- */

/* Each launch's kernel is the first that has its correlation id. */
static void find_kernels(struct merge *m, struct merge_counts *counts)
{
	struct trace *t = m->trace;
	uint64_t valued = 0;

	sort(m->by_launch, t->n, sizeof(m->by_launch[0]), by_correlation);
	for (size_t i = 0; i < t->n_launches; i++) {
		struct trace_launch *l = &t->launches[i];
		size_t at = 0, end = t->n;

		while (at < end) {
			size_t middle = at + (end - at) / 2;
			bool before = m->by_launch[middle]->correlation < l->correlation;

			at = before ? middle + 1 : at;
			end = before ? end : middle;
		}
		if (at < t->n && m->by_launch[at]->correlation == l->correlation) {
			l->kernel = m->by_launch[at];
			valued += has_value(m, l->kernel->values);
		}
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

	sort(t->ops, t->n_ops, sizeof(*t->ops), by_thread);
	sort(t->launches, t->n_launches, sizeof(*t->launches), by_thread);
	for (size_t i = 0; i < t->n_launches; i++) {
		struct trace_launch *l = &t->launches[i];

		if (l->place.thread != thread) {
			thread = l->place.thread;
			end = -INFINITY;
		}
		while (op < t->n_ops && (uintptr_t)t->ops[op].place.thread < (uintptr_t)thread) {
			op++;
		}
		while (op < t->n_ops && t->ops[op].place.thread == thread &&
		       t->ops[op].place.begin <= l->place.begin) {
			end = fmax(end, t->ops[op++].end);
		}
		l->in_op = end >= l->place.begin + l->us;
	}
}

/* --- insertions ------------------------------------------------------------------------------ */

static int insert(struct merge *m, struct insertion insertion)
{
	if (!array_make_room(&m->insertions, sizeof(insertion), m->n_insertions,
			     &m->max_insertions)) {
		return -ENOMEM;
	}
	m->insertions[m->n_insertions++] = insertion;
	return 0;
}

static size_t values_of(const struct trace_launch *launch)
{
	return launch->kernel ? launch->kernel->values : 0;
}

static int insert_values(struct merge *m)
{
	const struct trace *t = m->trace;
	int r = 0;

	for (size_t i = 0; i < t->n && r == 0; i++) {
		const struct trace_kernel *k = &t->kernels[i];

		r = k->values == 0 ? 0
				   : insert(m, (struct insertion){ .at = k->at,
								   .what = INSERT_VALUES,
								   .first = k->empty,
								   .values = k->values });
	}
	return r;
}

static int insert_op(struct merge *m, const struct trace_launch *l)
{
	return insert(m, (struct insertion){ .at = l->place.at, .what = INSERT_OP, .launch = l });
}

static int insert_range(struct merge *m, const struct trace_launch *l, size_t i, int64_t us)
{
	const struct trace *t = m->trace;

	if (t->n_ranges == 0) {
		double kernel_us = l->kernel ? fmin(floor(l->kernel->us), 1e15) : 1;
		int64_t length_us = kernel_us >= 1 ? (int64_t)kernel_us : 1;
		bool fresh;

		return insert(m, (struct insertion){
					 .at = t->end,
					 .what = INSERT_RANGE,
					 .values = values_of(l),
					 .launch = l,
					 .us = us,
					 .length_us = length_us,
					 .lane = lanes_take(&m->lanes, us, length_us, &fresh),
				 });
	}
	return insert(m, (struct insertion){ .at = t->ranges[i].place.at,
					     .what = INSERT_PLAIN,
					     .first = t->ranges[i].empty,
					     .values = values_of(l) });
}

/* Of the launches in the order of time. Times are rounded to whole microseconds as HTA does it, and
 * made to differ. */
static int insert_ranges(struct merge *m, struct merge_counts *counts)
{
	struct trace *t = m->trace;
	int64_t last_us = INT64_MIN;
	double last = -INFINITY;
	int r = 0;

	sort(t->ranges, t->n_ranges, sizeof(*t->ranges), by_time);
	sort(t->launches, t->n_launches, sizeof(*t->launches), by_time);
	for (size_t i = 0; i < t->n_launches && r == 0; i++) {
		const struct trace_launch *l = &t->launches[i];
		double begin = ceil(l->place.begin);
		int64_t us = fabs(begin) < 9e18 ? (int64_t)begin : 0;

		counts->together += begin == last;
		last = begin;
		last_us = us > last_us ? us : last_us + 1;
		if (counts->ranges != MERGE_LEAVES_RANGES) {
			r = l->in_op ? 0 : insert_op(m, l);
			r = r ? r : insert_range(m, l, i, last_us);
			counts->bare += !l->in_op;
		}
	}
	return r;
}

int merge_finish(struct merge *m, struct merge_counts *ret)
{
	struct trace *t = m->trace;
	int r;

	*ret = (struct merge_counts){ .joined = m->n_values,
				      .trace_alone = t->n - m->n_values,
				      .capture_alone = m->alone,
				      .ranges = t->n_ranges == 0 ? MERGE_WRITES_RANGES
						: t->n_ranges == t->n_launches
							? MERGE_FILLS_RANGES
							: MERGE_LEAVES_RANGES };
	for (size_t i = 1; i <= m->n_values; i++) {
		ret->valued += has_value(m, i);
	}
	find_kernels(m, ret);
	find_ops(t);
	r = insert_values(m);
	r = r ? r : insert_ranges(m, ret);
	ret->crowded = m->lanes.crowded;
	sort(m->insertions, m->n_insertions, sizeof(*m->insertions), insertions_by_offset);
	return r;
}

/* --- what is put in -------------------------------------------------------------------------- */

/* As members: of a kernel's arguments with a prefix and with errors, of a range's, of which HTA
 * makes columns, the values alone. */
static void add_values(const struct merge *m, size_t values, bool of_range, struct json *to)
{
	size_t n = m->plan->n_columns;
	const double *of = values > 0 ? &m->values[2 * (values - 1) * n] : NULL;

	if (of) {
		chrome_add_values(to, of_range ? "" : "gpuctr::", m->plan, of,
				  of_range ? NULL : of + n);
	}
}

/* An operator's event comes before its launch, so that it is the outer one of two events with the
 * same times. */
static void add_op(const struct trace_launch *launch, struct buf *b)
{
	struct json to = { b };

	json_begin(&to, NULL, '{');
	json_word(&to, "ph", "X");
	json_word(&to, "cat", "cpu_op");
	json_key(&to, NULL);
	buf_text(b, launch->place.thread);
	json_double(&to, "ts", launch->place.begin);
	json_double(&to, "dur", launch->us);
	json_word(&to, "name", "(no operator)");
	json_end(&to, '}');
	buf_text(b, ",\n");
}

static void add_range(const struct merge *m, const struct insertion *i, struct buf *b)
{
	const struct trace_kernel *k = i->launch->kernel;
	struct json to = { b };

	buf_text(b, ",\n");
	chrome_begin_span(&to, "cuda_profiler_range", k ? k->device : 0,
			  i->lane > 0 ? LANES_TID + i->lane : 0, i->us, i->length_us);
	json_text(&to, "name", k ? k->text : TEXT_UNKNOWN);
	json_begin(&to, "args", '{');
	add_values(m, i->values, true, &to);
	json_end(&to, '}');
	json_end(&to, '}');
}

bool merge_next(const struct merge *m, uint64_t *ret_at)
{
	bool more = m->next < m->n_insertions;

	*ret_at = more ? m->insertions[m->next].at : UINT64_MAX;
	return more;
}

void merge_put(struct merge *m, struct buf *b)
{
	const struct insertion *i = &m->insertions[m->next++];

	switch (i->what) {
	case INSERT_VALUES:
		add_values(m, i->values, false, &(struct json){ b, !i->first });
		break;
	case INSERT_PLAIN:
		add_values(m, i->values, true, &(struct json){ b, !i->first });
		break;
	case INSERT_OP:
		add_op(i->launch, b);
		break;
	case INSERT_RANGE:
		add_range(m, i, b);
		break;
	}
}
