/* SPDX-License-Identifier: Apache-2.0 */

/* The trace's kernels sorted by name and order are a queue for each name, from which each record
 * takes the next. Values are kept for those that were taken. */

#include "client/report/merge_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/chrome.h"
#include "proto/base/array.h"

struct merge_queue {
	uint64_t name;
	size_t next, end; /* in the sorted kernels */
};

/* --- order ----------------------------------------------------------------------------------- */

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int by_launch(const void *a, const void *b)
{
	const struct trace_kernel *x = a, *y = b;
	int order = compare(x->name, y->name);

	order = order ? order : compare(x->correlation, y->correlation);
	return order ? order : compare(x->at, y->at);
}

static int by_offset(const void *a, const void *b)
{
	const struct trace_kernel *x = a, *y = b;

	return compare(x->at, y->at);
}

static int by_name(const void *a, const void *b)
{
	const struct merge_queue *x = a, *y = b;

	return compare(x->name, y->name);
}

static int make_queues(struct merge *m)
{
	const struct trace *t = m->trace;
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++) {
		n += i == 0 || t->kernels[i].name != t->kernels[i - 1].name;
	}
	m->queues = calloc(n + 1, sizeof(*m->queues));
	for (size_t i = 0; m->queues && i < t->n; i++) {
		if (i == 0 || t->kernels[i].name != t->kernels[i - 1].name) {
			m->queues[m->n_queues++] =
				(struct merge_queue){ .name = t->kernels[i].name, .next = i };
		}
		m->queues[m->n_queues - 1].end = i + 1;
	}
	return m->queues ? 0 : -ENOMEM;
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
	if (trace->n > 0) {
		qsort(trace->kernels, trace->n, sizeof(*trace->kernels), by_launch);
	}
	if (make_queues(m)) {
		return merge_free(m);
	}
	return m;
}

struct merge *merge_free(struct merge *m)
{
	if (!m) {
		return NULL;
	}
	free(m->queues);
	free(m->values);
	free(m->unsampled);
	free(m->bare);
	free(m);
	return NULL;
}

/* --- records --------------------------------------------------------------------------------- */

static struct merge_queue *find_queue(struct merge *m, const char *name)
{
	const struct merge_queue key = { .name = trace_hash(name, strlen(name)) };

	return bsearch(&key, m->queues, m->n_queues, sizeof(*m->queues), by_name);
}

static int keep_values(struct merge *m, const struct gpuctr_record *record, const char *unsampled)
{
	size_t n = m->plan->n_columns;
	double *to;

	if (!array_make_room(&m->values, (2 * n + 1) * sizeof(double), m->n_values,
			     &m->max_values) ||
	    !array_make_room(&m->unsampled, sizeof(*m->unsampled), m->n_values,
			     &m->max_unsampled)) {
		return -ENOMEM;
	}
	to = &m->values[2 * m->n_values * n];
	for (size_t i = 0; i < n; i++) {
		to[i] = record->values[i];
		to[n + i] = record->errors ? record->errors[i] : NAN;
	}
	m->unsampled[m->n_values++] = unsampled;
	return 0;
}

int merge_record(struct merge *m, const struct gpuctr_record *record, const char *unsampled)
{
	struct merge_queue *q = record->kernel ? find_queue(m, record->kernel->name) : NULL;

	q = q || !record->kernel ? q : find_queue(m, record->kernel->mangled);
	if (!q || q->next == q->end) {
		m->alone++;
		return 0;
	}
	if (keep_values(m, record, unsampled)) {
		return -ENOMEM;
	}
	m->trace->kernels[q->next++].values = m->n_values;
	return 0;
}

int merge_finish(struct merge *m, struct merge_counts *ret)
{
	struct trace *t = m->trace;
	int r;

	*ret = (struct merge_counts){ .joined = m->n_values,
				      .trace_alone = t->n - m->n_values,
				      .capture_alone = m->alone };
	for (size_t i = 1; i <= m->n_values; i++) {
		ret->valued += merge_has_value(m, i);
	}
	r = merge_ranges_prepare(m, ret);
	if (t->n > 0) {
		qsort(t->kernels, t->n, sizeof(*t->kernels), by_offset);
	}
	m->ranges = ret->ranges;
	return r;
}

/* --- what is put in -------------------------------------------------------------------------- */

static void add_value(struct json *to, const char *prefix, const char *name, const char *what,
		      double value)
{
	if (isfinite(value)) {
		json_key(to, NULL);
		buf_printf(to->b, "\"%s", prefix);
		json_string_body(to->b, name);
		buf_printf(to->b, "%s\":", what);
		json_value(to, value);
	}
}

/* The values of a joined kernel, as members; plain: by the names of their metrics alone, and
 * nothing but values. */
static void add_values(const struct merge *m, size_t values, bool plain, struct json *to)
{
	size_t n = m->plan->n_columns;
	const double *of = values > 0 ? &m->values[2 * (values - 1) * n] : NULL;

	for (size_t i = 0; of && i < n; i++) {
		const char *name = m->plan->columns[i].name;

		add_value(to, plain ? "" : "gpuctr::", name, "", of[i]);
		if (!plain) {
			add_value(to, "gpuctr::", name, " error", of[n + i]);
		}
	}
	if (of && !plain && m->unsampled[values - 1]) {
		json_text(to, "gpuctr::no value", m->unsampled[values - 1]);
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
	buf_text(b, launch->thread);
	json_double(&to, "ts", launch->begin);
	json_double(&to, "dur", launch->us);
	json_word(&to, "name", "(no operator)");
	json_end(&to, '}');
	buf_text(b, ",\n");
}

static void add_range(const struct merge *m, const struct trace_launch *launch, struct buf *b)
{
	double us = fmin(floor(launch->kernel_us), 1e15);
	struct json to = { b };

	buf_text(b, ",\n");
	chrome_begin_span(&to, "cuda_profiler_range", launch->device, 0, launch->range_us,
			  us >= 1 ? (int64_t)us : 1);
	json_text(&to, "name", launch->text ? launch->text : TEXT_UNKNOWN);
	json_begin(&to, "args", '{');
	add_values(m, launch->values, true, &to);
	json_end(&to, '}');
	json_end(&to, '}');
}

enum insertion { AT_KERNEL, AT_BARE, AT_RANGE, AT_END, AT_NONE };

/* The next insertion into the text, and where. */
static enum insertion find_insertion(const struct merge *m, uint64_t *ret_at)
{
	const struct trace *t = m->trace;
	enum insertion insertion = AT_NONE;

	*ret_at = UINT64_MAX;
	if (m->next_kernel < t->n) {
		*ret_at = t->kernels[m->next_kernel].at;
		insertion = AT_KERNEL;
	}
	if (m->next_bare < m->n_bare && m->bare[m->next_bare].at < *ret_at) {
		*ret_at = m->bare[m->next_bare].at;
		insertion = AT_BARE;
	}
	if (m->ranges == MERGE_FILLS_RANGES && m->next_range < t->n_ranges &&
	    t->ranges[m->next_range].at < *ret_at) {
		*ret_at = t->ranges[m->next_range].at;
		insertion = AT_RANGE;
	}
	if (m->ranges == MERGE_WRITES_RANGES && m->next_launch < t->n_launches &&
	    t->end < *ret_at) {
		*ret_at = t->end;
		insertion = AT_END;
	}
	return insertion;
}

bool merge_next(const struct merge *m, uint64_t *ret_at)
{
	return find_insertion(m, ret_at) != AT_NONE;
}

void merge_put(struct merge *m, struct buf *b)
{
	const struct trace *t = m->trace;
	const struct trace_kernel *k;
	const struct trace_range *range;
	uint64_t at;

	switch (find_insertion(m, &at)) {
	case AT_KERNEL:
		k = &t->kernels[m->next_kernel++];
		add_values(m, k->values, false, &(struct json){ b, !k->empty });
		break;
	case AT_BARE:
		add_op(&m->bare[m->next_bare++], b);
		break;
	case AT_RANGE:
		range = &t->ranges[m->next_range++];
		add_values(m, range->values, true, &(struct json){ b, !range->empty });
		break;
	case AT_END:
		add_range(m, &t->launches[m->next_launch++], b);
		break;
	case AT_NONE:
		break;
	}
}
