/* SPDX-License-Identifier: Apache-2.0 */

/* Items are stack frames, each behind its parent. A walk from the last item to the first adds sums
 * to parents; a walk from the first to the last decides which are kept. The weight of a stack frame
 * is its largest share of any value, so that one with many bytes and little time is kept. The
 * heaviest stack frames are kept if their parents are kept. */

#include "client/report/flame.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/report/names.h"

struct item {
	const struct stack_frame *frame;
	size_t parent; /* an index; SIZE_MAX: this is the root */
	uint64_t launches;
	double *sums;
	double weight;
	size_t left;   /* number of children that are left out */
	size_t number; /* number in the JSON; SIZE_MAX: left out */
	size_t name;   /* index of its name in names */
};

struct flame {
	const struct stack_frames *frames;
	const struct flame_values *values;
	struct item *items;
	size_t n;
	double *sums;
	const struct item **by_weight;
	const char **names,
		**kernels; /* names of all kept stack frames, and of kept kernels; sorted */
	size_t n_names, n_kernels;
};

/* --- all stack frames ------------------------------------------------------------------------ */

static void add_item(struct flame *f, const struct stack_frame *frame, size_t parent)
{
	struct item *item = &f->items[f->n];
	const struct flame_values *values = f->values;

	*item = (struct item){ .frame = frame,
			       .parent = parent,
			       .launches = frame->row ? frame->row->calls : 0,
			       .sums = f->sums + f->n * values->n };
	for (size_t v = 0; frame->row && v < values->n; v++) {
		double sum = frame->row->own[values->measures[v]].sum;

		item->sums[v] = values->are_rounded ? round(sum) : sum;
	}
	f->n++;
}

/* Adds all stack frames level by level. */
static void number_all(struct flame *f)
{
	add_item(f, &f->frames->root, SIZE_MAX);
	for (size_t i = 0; i < f->n; i++) {
		for (const struct stack_frame *c = f->items[i].frame->children; c; c = c->next) {
			add_item(f, c, i);
		}
	}
}

static void add_up(struct flame *f)
{
	for (size_t i = f->n - 1; i > 0; i--) {
		struct item *parent = &f->items[f->items[i].parent];

		parent->launches += f->items[i].launches;
		for (size_t v = 0; v < f->values->n; v++) {
			parent->sums[v] += f->items[i].sums[v];
		}
	}
}

/* --- kept stack frames ----------------------------------------------------------------------- */

static double weigh(const struct flame *f, const struct item *item)
{
	double weight = 0;

	for (size_t v = 0; v < f->values->n; v++) {
		double part = item->sums[v] / f->items[0].sums[v];

		weight = isfinite(part) && part > weight ? part : weight;
	}
	return weight;
}

static int compare_weights(const void *a, const void *b)
{
	const struct item *x = *(const struct item *const *)a, *y = *(const struct item *const *)b;

	return x->weight != y->weight ? (x->weight < y->weight ? 1 : -1) : (x > y) - (x < y);
}

static void choose(struct flame *f, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++) {
		f->items[i].weight = i == 0 ? INFINITY : weigh(f, &f->items[i]);
		f->by_weight[i] = &f->items[i];
	}
	qsort(f->by_weight, f->n, sizeof(*f->by_weight), compare_weights);
	for (size_t i = 0; i < f->n; i++) {
		f->items[f->by_weight[i] - f->items].number = i < max ? 0 : SIZE_MAX;
	}
	for (size_t i = 0; i < f->n; i++) {
		struct item *item = &f->items[i];
		struct item *parent = i > 0 ? &f->items[item->parent] : NULL;

		if (item->number == SIZE_MAX || (parent && parent->number == SIZE_MAX)) {
			item->number = SIZE_MAX;
			parent->left += parent->number != SIZE_MAX;
		} else {
			item->number = n++;
		}
	}
}

/* --- names ----------------------------------------------------------------------------------- */

static const char *name_of(const struct item *item)
{
	return item->parent == SIZE_MAX ? "all" : item->frame->name;
}

static void gather_names(struct flame *f)
{
	for (size_t i = 0; i < f->n; i++) {
		const struct item *item = &f->items[i];

		if (item->number == SIZE_MAX) {
			continue;
		}
		f->names[f->n_names++] = name_of(item);
		if (item->frame->is_kernel) {
			f->kernels[f->n_kernels++] = name_of(item);
		}
	}
	f->n_names = names_sort_once(f->names, f->n_names);
	f->n_kernels = names_sort_once(f->kernels, f->n_kernels);
	for (size_t i = 0; i < f->n; i++) {
		const char *name = name_of(&f->items[i]);
		const char **found;

		if (f->items[i].number != SIZE_MAX) {
			found = bsearch(&name, f->names, f->n_names, sizeof(*f->names),
					names_compare);
			f->items[i].name = (size_t)(found - f->names);
		}
	}
}

/* --- JSON ------------------------------------------------------------------------------------ */

static int add_names(const struct flame *f, size_t width, struct json *j)
{
	char **shown = names_shorten(f->kernels, f->n_kernels, width, true);

	if (!shown) {
		return -ENOMEM;
	}
	json_texts(j, "names", f->names, f->n_names);
	json_begin(j, "short", '[');
	for (size_t i = 0; i < f->n_names; i++) {
		const char **found = bsearch(&f->names[i], f->kernels, f->n_kernels,
					     sizeof(*f->kernels), names_compare);
		const char *name = found ? shown[found - f->kernels] : NULL;

		json_text_or_null(j, NULL, name && strcmp(*found, name) != 0 ? name : NULL);
	}
	json_end(j, ']');
	names_free(shown, f->n_kernels);
	return 0;
}

static void add_frame(const struct flame *f, const struct item *item, struct json *j)
{
	json_begin(j, NULL, '[');
	json_i64(j, NULL, item->parent == SIZE_MAX ? -1 : (int64_t)f->items[item->parent].number);
	json_u64(j, NULL, item->name);
	json_u64(j, NULL, item->frame->is_kernel);
	json_u64(j, NULL, item->left);
	json_u64(j, NULL, item->launches);
	for (size_t v = 0; v < f->values->n; v++) {
		json_double(j, NULL, item->sums[v]);
	}
	json_end(j, ']');
}

static int add_members(struct flame *f, size_t max, size_t width, struct json *j)
{
	int r;

	number_all(f);
	add_up(f);
	choose(f, max);
	gather_names(f);
	r = add_names(f, width, j);
	json_begin(j, "frames", '[');
	for (size_t i = 0; i < f->n; i++) {
		if (f->items[i].number != SIZE_MAX) {
			add_frame(f, &f->items[i], j);
		}
	}
	json_end(j, ']');
	return r;
}

int flame_json(const struct stack_frames *frames, const struct flame_values *values, size_t max,
	       size_t name_width, struct json *j)
{
	size_t n = frames->known.n + 1;
	struct flame f = { .frames = frames, .values = values };
	int r = -ENOMEM;

	f.items = calloc(n, sizeof(*f.items));
	f.sums = calloc(n * values->n + 1, sizeof(*f.sums));
	f.by_weight = calloc(n, sizeof(*f.by_weight));
	f.names = calloc(n, sizeof(*f.names));
	f.kernels = calloc(n, sizeof(*f.kernels));
	json_begin(j, "flame", '{');
	if (f.items && f.sums && f.by_weight && f.names && f.kernels) {
		r = add_members(&f, max, name_width, j);
	}
	json_end(j, '}');
	free(f.items);
	free(f.sums);
	free(f.by_weight);
	free(f.names);
	free(f.kernels);
	return r;
}
