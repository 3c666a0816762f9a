/* SPDX-License-Identifier: Apache-2.0 */

/* Records of a process come to the attribution in the order of their index, as live: what is
 * missing in a stream lies between the records before and behind it. They are a little early at
 * most, because what waits for its samples is bounded. */

#include "client/cli/sampled_values.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/report/attribution.h"
#include "proto/base/array.h"

#define EARLY_NS INT64_C(200000000)

enum { FEED_SAMPLES = 1 << 10 };

int sampled_values_init(struct sampled_values *v, const struct gpuctr_plan *plan,
			const uint8_t *sets)
{
	v->n_columns = plan->n_columns;
	v->sampled = sampled_new(plan, sets);
	v->steps = attributor_new();
	if (v->sampled) {
		sampled_expect_files(v->sampled);
	}
	return v->sampled && v->steps ? 0 : -ENOMEM;
}

void sampled_values_deinit(struct sampled_values *v)
{
	sampled_free(v->sampled);
	attributor_free(v->steps);
	free(v->values);
	free(v->records);
	free(v->items);
	free(v->runs);
	map_deinit(&v->kernels);
	texts_deinit(&v->texts);
	*v = (struct sampled_values){ 0 };
}

/* --- what is given --------------------------------------------------------------------------- */

static struct sampled_item *add_item(struct sampled_values *v, unsigned process, unsigned device)
{
	struct sampled_item *item;

	if (!array_make_room(&v->items, sizeof(*v->items), v->n_items, &v->max_items)) {
		return NULL;
	}
	item = &v->items[v->n_items++];
	*item = (struct sampled_item){ .gpu = sampled_find_gpu(v->sampled, process, device) };
	return item;
}

static bool is_kernel(const void *item, const void *key)
{
	return ((const struct gpuctr_kernel *)item)->mangled == key;
}

/* As far as the attribution looks at it. NULL: out of memory. */
static const struct gpuctr_kernel *keep_kernel(struct sampled_values *v, const char *mangled)
{
	const char *text = texts_add_string(&v->texts, mangled);
	uint64_t hash = map_mix(0, (uintptr_t)text);
	struct gpuctr_kernel *k = text ? map_find(&v->kernels, hash, is_kernel, text) : NULL;

	if (k || !text) {
		return k;
	}
	k = texts_take(&v->texts, sizeof(*k));
	if (!k || map_add(&v->kernels, hash, k) < 0) {
		return NULL;
	}
	*k = (struct gpuctr_kernel){ .name = text, .mangled = text };
	return k;
}

int sampled_values_record(struct sampled_values *v, const struct gpuctr_record *record)
{
	struct attribution what = { .step = "" };
	int r = attributor_take(v->steps, record, &what);
	struct sampled_item *item = r ? NULL : add_item(v, record->process, record->device);

	if (!item || !array_make_room(&v->records, sizeof(*v->records), v->n, &v->max_records) ||
	    !array_make_room(&v->values, 2 * v->n_columns * sizeof(*v->values), v->n,
			     &v->max_values)) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < 2 * v->n_columns; i++) {
		v->values[2 * v->n * v->n_columns + i] = NAN;
	}
	v->records[v->n] = (struct sampled_value){ 0, sampled_reason_name(SAMPLED_TOO_MANY) };
	/* Texts of steps are one pointer each. */
	item->step = *what.step ? (uint64_t)(uintptr_t)what.step : 0;
	item->record = *record;
	item->record.index = v->n++;
	item->record.kernel = record->kernel ? keep_kernel(v, record->kernel->mangled) : NULL;
	item->record.range = NULL;
	item->record.active = NULL;
	item->record.n_active = 0;
	return record->kernel && !item->record.kernel ? -ENOMEM : 0;
}

int sampled_values_copy(struct sampled_values *v, const struct gpuctr_copy *copy)
{
	struct sampled_item *item = add_item(v, copy->process, copy->device);

	if (!item) {
		return -ENOMEM;
	}
	item->is_copy = true;
	item->copy = *copy;
	return 0;
}

/* --- to the attribution ---------------------------------------------------------------------- */

#define ORDER(a, b) ((a) < (b) ? -1 : (a) > (b))

static int by_run(const void *a, const void *b)
{
	const struct sampled_item *x = a, *y = b;
	int order = ORDER(x->gpu, y->gpu);

	order = order ? order : ORDER(x->is_copy, y->is_copy);
	if (order || x->is_copy) {
		return order ? order : ORDER(x->copy.start_ns, y->copy.start_ns);
	}
	order = ORDER(x->record.process, y->record.process);
	return order ? order : ORDER(x->record.index, y->record.index);
}

static bool is_same_run(const struct sampled_item *x, const struct sampled_item *y)
{
	return x->gpu == y->gpu && x->is_copy == y->is_copy &&
	       (x->is_copy || x->record.process == y->record.process);
}

static int sort(struct sampled_values *v)
{
	v->sorted = true;
	if (v->n_items > 0) {
		qsort(v->items, v->n_items, sizeof(*v->items), by_run);
	}
	for (size_t i = 0; i < v->n_items; i++) {
		if (i > 0 && is_same_run(&v->items[i - 1], &v->items[i])) {
			v->runs[v->n_runs - 1].end++;
			continue;
		}
		if (!array_make_room(&v->runs, sizeof(*v->runs), v->n_runs, &v->max_runs)) {
			return -ENOMEM;
		}
		v->runs[v->n_runs++] = (struct sampled_run){ i, i + 1, v->items[i].gpu };
	}
	return 0;
}

/* One may be told before all are: when too many are kept. */
static void on_record(void *user, const struct gpuctr_record *record)
{
	struct sampled_values *v = user;
	double *to = v->values + 2 * record->index * v->n_columns;

	memcpy(to, record->values, v->n_columns * sizeof(*to));
	memcpy(to + v->n_columns, record->errors, v->n_columns * sizeof(*to));
	v->records[record->index] =
		(struct sampled_value){ record->alike, sampled_told_why(v->sampled) };
}

/* What began by this time, or everything. */
static void feed(struct sampled_values *v, struct sampled_run *run, int64_t until_ns)
{
	for (; run->next < run->end; run->next++) {
		const struct sampled_item *item = &v->items[run->next];

		if ((item->is_copy ? item->copy.start_ns : item->record.start_ns) > until_ns) {
			return;
		}
		if (item->is_copy) {
			sampled_copy(v->sampled, &item->copy);
		} else {
			sampled_record(v->sampled, &item->record, item->step, on_record, v);
		}
	}
}

int sampled_values_sample(struct sampled_values *v, int gpu, int64_t start_ns, int64_t end_ns,
			  const double *values)
{
	int r = v->sorted ? 0 : sort(v);

	if (r == 0 && v->samples++ % FEED_SAMPLES == 0) {
		for (size_t i = 0; i < v->n_runs; i++) {
			if (v->runs[i].gpu == gpu) {
				feed(v, &v->runs[i], end_ns + EARLY_NS);
			}
		}
		sampled_advance(v->sampled);
	}
	if (r == 0) {
		sampled_sample(v->sampled, gpu, start_ns, end_ns, values);
	}
	return r;
}

int sampled_values_finish(struct sampled_values *v)
{
	int r = v->sorted ? 0 : sort(v);

	for (size_t i = 0; r == 0 && i < v->n_runs; i++) {
		feed(v, &v->runs[i], INT64_MAX);
	}
	if (r == 0) {
		sampled_finish(v->sampled, on_record, v);
	}
	return r;
}

const char *sampled_values_apply(const struct sampled_values *v, size_t i,
				 struct gpuctr_record *record)
{
	record->values = v->values + 2 * i * v->n_columns;
	record->errors = record->values + v->n_columns;
	record->alike = v->records[i].alike;
	return v->records[i].why;
}
