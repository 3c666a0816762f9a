/* SPDX-License-Identifier: Apache-2.0 */

/* The trace's kernels sorted by name and order are a queue for each name, from which each record
 * takes the next. Values are kept for those that were taken. */

#include "client/report/merge.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"

struct queue {
	uint64_t name;
	size_t next, end; /* in the sorted kernels */
};

struct merge {
	struct trace *trace;
	struct queue *queues; /* by name */
	size_t n_queues;
	struct buf *keys; /* "gpuctr::name": for each column */
	size_t n_columns;
	double *values; /* of the joined, one after the other */
	size_t n_values, max_values;
	uint64_t alone;
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

static int by_place(const void *a, const void *b)
{
	const struct trace_kernel *x = a, *y = b;

	return compare(x->at, y->at);
}

static int by_name(const void *a, const void *b)
{
	const struct queue *x = a, *y = b;

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
				(struct queue){ .name = t->kernels[i].name, .next = i };
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
	m->keys = calloc(plan->n_columns + 1, sizeof(*m->keys));
	if (trace->n > 0) {
		qsort(trace->kernels, trace->n, sizeof(*trace->kernels), by_launch);
	}
	if (!m->keys || make_queues(m)) {
		return merge_free(m);
	}
	m->n_columns = plan->n_columns;
	for (size_t i = 0; i < m->n_columns; i++) {
		buf_text(&m->keys[i], "\"gpuctr::");
		text_json_body(&m->keys[i], plan->columns[i].name);
		buf_text(&m->keys[i], "\":");
	}
	return m;
}

struct merge *merge_free(struct merge *m)
{
	if (!m) {
		return NULL;
	}
	for (size_t i = 0; i < m->n_columns; i++) {
		buf_deinit(&m->keys[i]);
	}
	free(m->keys);
	free(m->queues);
	free(m->values);
	free(m);
	return NULL;
}

/* --- records --------------------------------------------------------------------------------- */

static struct queue *find_queue(struct merge *m, const char *name)
{
	const struct queue key = { .name = trace_hash(name, strlen(name)) };

	return bsearch(&key, m->queues, m->n_queues, sizeof(*m->queues), by_name);
}

static int keep_values(struct merge *m, const double *values)
{
	if (m->n_values == m->max_values) {
		size_t max = m->max_values ? m->max_values * 2 : 4096;
		double *more = realloc(m->values, max * (m->n_columns + 1) * sizeof(double));

		if (!more) {
			return -ENOMEM;
		}
		m->values = more;
		m->max_values = max;
	}
	memcpy(&m->values[m->n_values * m->n_columns], values, m->n_columns * sizeof(double));
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
	if (keep_values(m, record->values)) {
		return -ENOMEM;
	}
	m->trace->kernels[q->next++].values = m->n_values;
	return 0;
}

void merge_finish(struct merge *m, struct merge_counts *ret)
{
	struct trace *t = m->trace;

	*ret = (struct merge_counts){ .joined = m->n_values,
				      .trace_alone = t->n - m->n_values,
				      .capture_alone = m->alone };
	if (t->n > 0) {
		qsort(t->kernels, t->n, sizeof(*t->kernels), by_place);
	}
}

void merge_add_values(const struct merge *m, const struct trace_kernel *kernel, struct buf *b)
{
	const char *separator = kernel->empty ? "" : ",";

	for (size_t i = 0; kernel->values > 0 && i < m->n_columns; i++) {
		double value = m->values[(kernel->values - 1) * m->n_columns + i];

		if (isfinite(value)) {
			buf_text(b, separator);
			separator = ",";
			buf_add(b, m->keys[i].data, m->keys[i].n);
			buf_double(b, value);
		}
	}
}
