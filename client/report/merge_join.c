/* SPDX-License-Identifier: Apache-2.0 */

/* Events lie in arrays of small structs, and are sorted by pointers to them: a million kernels with
 * their launches and operators take 100 MB. Kernels sorted by name and order form a queue for each
 * name, from which each record takes the next kernel. */

#include "client/report/merge_join.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/array.h"
#include "proto/base/clean.h"

/* An operator that does not lie within the operator before it in its thread. */
struct merge_op {
	double begin, end;
};

void merge_join_deinit(struct merge_join *j)
{
	for (size_t i = 0; i < j->names.n_slots; i++) {
		const struct merge_name *name = j->names.slots[i].item;

		free(name ? name->ops : NULL);
	}
	map_deinit_items(&j->names);
	for (size_t i = 0; i < ARRAY_SIZE(j->lists); i++) {
		free(j->lists[i].items);
	}
	free(j->by_order);
	free(j->by_id);
	free(j->by_time);
}

/* --- order ----------------------------------------------------------------------------------- */

#define COMPARE(a, b) ((a) < (b) ? -1 : (a) > (b))

static int by_id(const void *a, const void *b)
{
	const struct merge_event *x = *(struct merge_event *const *)a,
				 *y = *(struct merge_event *const *)b;
	int order = COMPARE(x->correlation, y->correlation);

	return order ? order : COMPARE(x->at, y->at);
}

/* Kernels by plain name and launch order, which is the order of correlation ids. */
static int by_order(const void *a, const void *b)
{
	const struct merge_event *x = *(struct merge_event *const *)a,
				 *y = *(struct merge_event *const *)b;
	int order = COMPARE((uintptr_t)x->name->plain, (uintptr_t)y->name->plain);

	return order ? order : by_id(a, b);
}

static int by_time(const void *a, const void *b)
{
	const struct merge_event *x = *(struct merge_event *const *)a,
				 *y = *(struct merge_event *const *)b;
	int order = COMPARE(x->begin, y->begin);

	return order ? order : COMPARE(x->at, y->at);
}

static int ops_by_time(const void *a, const void *b)
{
	const struct merge_op *x = a, *y = b;

	return COMPARE(x->begin, y->begin);
}

/* Returns sorted pointers to the events, which the caller frees. NULL: out of memory. */
static struct merge_event **sort(const struct merge_list *l, int (*by)(const void *, const void *))
{
	struct merge_event **sorted = calloc(l->n + 1, sizeof(*sorted));

	for (size_t i = 0; sorted && i < l->n; i++) {
		sorted[i] = &l->items[i];
	}
	if (sorted) {
		qsort(sorted, l->n, sizeof(*sorted), by);
	}
	return sorted;
}

/* --- events ---------------------------------------------------------------------------------- */

static bool is_named(const void *item, const void *text)
{
	return strcmp(((const struct merge_name *)item)->text, text) == 0;
}

/* NULL: out of memory. */
static struct merge_name *add_name(struct merge_join *j, const char *text)
{
	size_t n = strlen(text), n_plain = 0;
	uint64_t hash = map_hash(text, n);
	struct merge_name *name = map_find(&j->names, hash, is_named, text);
	CLEAN_FREE char *plain = NULL;

	if (name) {
		return name->plain ? name : NULL;
	}
	name = calloc(1, sizeof(*name) + n + 1);
	plain = calloc(1, n + 1);
	if (!name || !plain || map_add(&j->names, hash, name)) {
		free(name);
		return NULL;
	}
	name->until = -INFINITY;
	memcpy(name->text, text, n);
	for (size_t i = 0; i < n; i++) {
		plain[n_plain] = text[i];
		n_plain += text[i] != ' ';
	}
	plain[n_plain] = '\0';
	name->plain = n_plain == n ? name : add_name(j, plain);
	return name->plain ? name : NULL;
}

/* Adds an operator of a thread, unless it lies within the one before, as most do. */
static int add_op(struct merge_name *thread, const struct trace_event *e)
{
	size_t n = thread->n_ops;
	const struct merge_op *last = n > 0 ? &thread->ops[n - 1] : NULL;

	if (last && e->begin >= last->begin && e->begin + e->us <= last->end) {
		return 0;
	}
	if (!array_make_room(&thread->ops, sizeof(*last), n, &thread->max_ops)) {
		return -ENOMEM;
	}
	thread->ops[thread->n_ops++] = (struct merge_op){ e->begin, e->begin + e->us };
	return 0;
}

int merge_join_event(const struct trace_event *e, void *join)
{
	struct merge_join *j = join;
	bool is_kernel = e->category == TRACE_KERNEL, is_launch = e->category == TRACE_LAUNCH;
	struct merge_name *name = add_name(j, is_kernel ? e->name : e->thread);
	struct merge_list *l = &j->lists[e->category];

	if (e->category == TRACE_END) {
		j->end = e->at;
		return 0;
	}
	if (name && e->category == TRACE_OP) {
		return add_op(name, e);
	}
	if (!name || !array_make_room(&l->items, sizeof(*l->items), l->n, &l->max)) {
		return -ENOMEM;
	}
	l->items[l->n] = (struct merge_event){ .at = is_launch ? e->at : e->args_at,
					       .empty = e->empty,
					       .correlation = e->correlation,
					       .begin = e->begin,
					       .us = e->us,
					       .name = name };
	if (is_kernel) {
		l->items[l->n].device = e->device;
	}
	l->n++;
	return 0;
}

/* --- joins ----------------------------------------------------------------------------------- */

static void make_queues(struct merge_join *j)
{
	for (size_t i = 0; i < j->lists[TRACE_KERNEL].n; i++) {
		struct merge_name *name = j->by_order[i]->name->plain;

		name->next = name->end > 0 ? name->next : i;
		name->end = i + 1;
	}
}

/* Finds the launches that lie within no operator. Operators of a thread nest or do not overlap, so
 * a launch lies within an operator if the latest end of the operators begun so far is after it. */
static void find_ops(struct merge_join *j)
{
	for (size_t i = 0; i < j->lists[TRACE_LAUNCH].n; i++) {
		struct merge_event *l = j->by_time[i];
		struct merge_name *t = l->name;

		if (t->begun == 0 && t->n_ops > 0) {
			qsort(t->ops, t->n_ops, sizeof(*t->ops), ops_by_time);
		}
		for (; t->begun < t->n_ops && t->ops[t->begun].begin <= l->begin; t->begun++) {
			t->until = fmax(t->until, t->ops[t->begun].end);
		}
		l->put = !(t->until >= l->begin + l->us);
	}
}

int merge_join_begin(struct merge_join *j)
{
	j->by_order = sort(&j->lists[TRACE_KERNEL], by_order);
	j->by_time = sort(&j->lists[TRACE_LAUNCH], by_time);
	if (!j->by_order || !j->by_time) {
		return -ENOMEM;
	}
	make_queues(j);
	find_ops(j);
	return 0;
}

int merge_join_record(struct merge_join *j, const struct gpuctr_kernel *kernel,
		      struct merge_event **ret)
{
	struct merge_name *name = add_name(j, kernel->name), *queue;

	if (name && name->plain->end == 0) {
		name = add_name(j, kernel->mangled);
	}
	queue = name ? name->plain : NULL;
	*ret = queue && queue->next < queue->end ? j->by_order[queue->next++] : NULL;
	return name ? 0 : -ENOMEM;
}

/* If there are as many ranges as launches, the i-th range belongs to the i-th launch. */
int merge_join_finish(struct merge_join *j)
{
	const struct merge_list *l = &j->lists[TRACE_RANGE];
	CLEAN_FREE struct merge_event **ranges = sort(l, by_time);

	free(j->by_order);
	j->by_order = NULL;
	j->by_id = sort(&j->lists[TRACE_KERNEL], by_id);
	for (size_t i = 0; ranges && l->n == j->lists[TRACE_LAUNCH].n && i < l->n; i++) {
		ranges[i]->correlation = j->by_time[i]->correlation;
		ranges[i]->put = true;
	}
	return ranges && j->by_id ? 0 : -ENOMEM;
}

const struct merge_event *merge_join_find(const struct merge_join *j, uint64_t correlation)
{
	size_t n = j->lists[TRACE_KERNEL].n, low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		bool before = j->by_id[middle]->correlation < correlation;

		low = before ? middle + 1 : low;
		high = before ? high : middle;
	}
	return low < n && j->by_id[low]->correlation == correlation ? j->by_id[low] : NULL;
}
