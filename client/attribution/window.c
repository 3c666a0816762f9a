/* SPDX-License-Identifier: Apache-2.0 */

/* Both lists are sorted by their start when they are attributed, so one pass over them finds all
 * that overlap: kernels enter when they have begun before the sample's end, and leave when they
 * ended before its start. Times were checked when they came: the arithmetic cannot overflow. */

#include "client/attribution/window.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TIMES_MOST 1024
/* Kernels at once: each is looked at for each sample. */
#define RUNNING_MOST 1024
/* Operations of effort.h: of a sample, of one that runs, and of one whose part is calculated. */
#define SAMPLE_COST 20
#define RUNNING_COST 1
#define PART_COST 8

void window_deinit(struct window *w)
{
	free(w->kernels);
	free(w->parts);
	free(w->samples);
	free(w->values);
	free(w->lost.v);
	free(w->away.v);
	memset(w, 0, sizeof(*w));
}

static int grow(void *list, size_t *entry_room, size_t want, size_t size)
{
	void **at = list;
	void *now = realloc(*at, want * size);

	if (!now) {
		return -ENOMEM;
	}
	*at = now;
	*entry_room = want;
	return 0;
}

int window_add_kernel(struct window *w, const struct attribution_kernel *kernel)
{
	size_t room = w->kernels_room ? w->kernels_room * 2 : 1024, ignored;

	if (w->kernels_used == w->kernels_room) {
		if (grow(&w->parts, &ignored, room, 2 * w->metrics * sizeof(double)) < 0 ||
		    grow(&w->kernels, &w->kernels_room, room, sizeof(*w->kernels)) < 0) {
			return -ENOMEM;
		}
	}
	w->kernels[w->kernels_used] =
		(struct window_kernel){ .k = *kernel, .profile = PROFILE_NONE };
	memset(w->parts + w->kernels_used * 2 * w->metrics, 0, 2 * w->metrics * sizeof(double));
	w->kernels_used++;
	return 0;
}

int window_add_sample(struct window *w, int64_t start_ns, int64_t end_ns, const double *values)
{
	size_t room = w->samples_room ? w->samples_room * 2 : 4096, ignored;

	if (w->samples_used == w->samples_room) {
		if (grow(&w->values, &ignored, room, w->metrics * sizeof(double)) < 0 ||
		    grow(&w->samples, &w->samples_room, room, sizeof(*w->samples)) < 0) {
			return -ENOMEM;
		}
	}
	w->samples[w->samples_used] = (struct window_sample){ start_ns, end_ns };
	memcpy(w->values + w->samples_used * w->metrics, values, w->metrics * sizeof(double));
	w->samples_used++;
	return 0;
}

static int compare_times(const void *a, const void *b)
{
	const struct window_time *x = a, *y = b;

	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

/* Those that overlap or touch become one. */
static void sort_times(struct window_times *t)
{
	size_t kept = 0, sorted = 1;

	while (sorted < t->used && t->v[sorted - 1].start_ns <= t->v[sorted].start_ns) {
		sorted++;
	}
	if (sorted < t->used) {
		qsort(t->v, t->used, sizeof(*t->v), compare_times);
	}
	for (size_t i = 0; i < t->used; i++) {
		struct window_time *last = kept > 0 ? &t->v[kept - 1] : NULL;

		if (last && t->v[i].start_ns <= last->end_ns) {
			last->end_ns =
				t->v[i].end_ns > last->end_ns ? t->v[i].end_ns : last->end_ns;
		} else {
			t->v[kept++] = t->v[i];
		}
	}
	t->used = kept;
}

/* Above the limit the last one is extended: more is left out than need be, but nothing is
 * invented. */
static int add_time(struct window_times *t, int64_t start_ns, int64_t end_ns)
{
	size_t room = t->room ? t->room * 2 : 16;

	if (t->used == TIMES_MOST) {
		sort_times(t);
	}
	if (t->used == TIMES_MOST) {
		struct window_time *last = &t->v[TIMES_MOST - 1];

		last->start_ns = start_ns < last->start_ns ? start_ns : last->start_ns;
		last->end_ns = end_ns > last->end_ns ? end_ns : last->end_ns;
		return 0;
	}
	if (t->used == t->room && grow(&t->v, &t->room, room, sizeof(*t->v)) < 0) {
		return -ENOMEM;
	}
	t->v[t->used++] = (struct window_time){ start_ns, end_ns };
	return 0;
}

int window_add_lost(struct window *w, int64_t start_ns, int64_t end_ns)
{
	return add_time(&w->lost, start_ns, end_ns);
}

int window_add_away(struct window *w, int64_t start_ns, int64_t end_ns)
{
	return add_time(&w->away, start_ns, end_ns);
}

int window_overlaps(const struct window_times *times, int64_t start_ns, int64_t end_ns)
{
	size_t low = 0, high = times->used;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (times->v[middle].end_ns > start_ns) {
			high = middle;
		} else {
			low = middle + 1;
		}
	}
	return low < times->used && times->v[low].start_ns < end_ns;
}

static void forget(struct window_times *t, int64_t before_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->used; i++) {
		if (t->v[i].end_ns > before_ns) {
			t->v[kept++] = t->v[i];
		}
	}
	t->used = kept;
}

void window_forget_times(struct window *w, int64_t before_ns)
{
	forget(&w->lost, before_ns);
	forget(&w->away, before_ns);
}

static int compare_kernels(const void *a, const void *b)
{
	const struct window_kernel *x = a, *y = b;

	if (x->k.start_ns != y->k.start_ns) {
		return x->k.start_ns < y->k.start_ns ? -1 : 1;
	}
	return x->k.end_ns < y->k.end_ns ? -1 : x->k.end_ns > y->k.end_ns;
}

static int compare_starts(const void *a, const void *b)
{
	const struct window_sample *x = a, *y = b;

	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

/* Parts go with their kernels. */
static int sort_kernels(struct window *w)
{
	struct {
		struct window_kernel kernel;
		size_t was;
	} * list;
	double *parts;
	size_t i;

	for (i = 1; i < w->kernels_used && compare_kernels(&w->kernels[i - 1], &w->kernels[i]) <= 0;
	     i++) {
	}
	if (i >= w->kernels_used) {
		return 0;
	}
	list = malloc(w->kernels_used * sizeof(*list));
	parts = malloc(w->kernels_room * 2 * w->metrics * sizeof(double));
	if (!list || !parts) {
		free(list);
		free(parts);
		return -ENOMEM;
	}
	for (i = 0; i < w->kernels_used; i++) {
		list[i].kernel = w->kernels[i];
		list[i].was = i;
	}
	qsort(list, w->kernels_used, sizeof(*list), compare_kernels);
	for (i = 0; i < w->kernels_used; i++) {
		w->kernels[i] = list[i].kernel;
		memcpy(parts + i * 2 * w->metrics, w->parts + list[i].was * 2 * w->metrics,
		       2 * w->metrics * sizeof(double));
	}
	free(list);
	free(w->parts);
	w->parts = parts;
	return 0;
}

static int sort_samples(struct window *w)
{
	size_t size = sizeof(struct window_sample) + w->metrics * sizeof(double), i;
	char *list;

	for (i = 1; i < w->samples_used && w->samples[i - 1].start_ns <= w->samples[i].start_ns;
	     i++) {
	}
	if (i >= w->samples_used) {
		return 0;
	}
	list = malloc(w->samples_used * size);
	if (!list) {
		return -ENOMEM;
	}
	for (i = 0; i < w->samples_used; i++) {
		memcpy(list + i * size, &w->samples[i], sizeof(*w->samples));
		memcpy(list + i * size + sizeof(*w->samples), w->values + i * w->metrics,
		       w->metrics * sizeof(double));
	}
	/* A sample begins with its start. */
	qsort(list, w->samples_used, size, compare_starts);
	for (i = 0; i < w->samples_used; i++) {
		memcpy(&w->samples[i], list + i * size, sizeof(*w->samples));
		memcpy(w->values + i * w->metrics, list + i * size + sizeof(*w->samples),
		       w->metrics * sizeof(double));
	}
	free(list);
	return 0;
}

int window_sort(struct window *w, uint64_t *overlapping)
{
	size_t kept = 0;

	if (sort_kernels(w) < 0 || sort_samples(w) < 0) {
		return -ENOMEM;
	}
	sort_times(&w->lost);
	sort_times(&w->away);
	for (size_t i = 0; i < w->samples_used; i++) {
		if (kept > 0 && w->samples[i].start_ns < w->samples[kept - 1].end_ns) {
			++*overlapping;
			continue;
		}
		if (kept < i) {
			w->samples[kept] = w->samples[i];
			memcpy(w->values + kept * w->metrics, w->values + i * w->metrics,
			       w->metrics * sizeof(double));
		}
		kept++;
	}
	w->samples_used = kept;
	return 0;
}

/* Those that run at some time of the sweep. */
struct running {
	uint32_t *kernels;
	size_t used, room, next;
	int64_t crowded_until_ns; /* the end of those there was no room for */
};

static int running_update(struct running *r, const struct window *w, int64_t start_ns,
			  int64_t end_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->used; i++) {
		if (w->kernels[r->kernels[i]].k.end_ns > start_ns) {
			r->kernels[kept++] = r->kernels[i];
		}
	}
	r->used = kept;
	for (; r->next < w->kernels_used && w->kernels[r->next].k.start_ns < end_ns; r->next++) {
		if (w->kernels[r->next].k.end_ns <= start_ns) {
			continue;
		}
		if (r->used == RUNNING_MOST) {
			int64_t end = w->kernels[r->next].k.end_ns;

			r->crowded_until_ns = end > r->crowded_until_ns ? end : r->crowded_until_ns;
			continue;
		}
		if (r->used == r->room && grow(&r->kernels, &r->room, r->room ? r->room * 2 : 64,
					       sizeof(*r->kernels)) < 0) {
			return -ENOMEM;
		}
		r->kernels[r->used++] = (uint32_t)r->next;
	}
	return 0;
}

static void cell_fill(struct window_cell *cell, const struct running *r, const struct window *w,
		      const struct profile *profiles, int64_t start_ns, int64_t end_ns)
{
	cell->count = start_ns < r->crowded_until_ns ? RUNNING_MOST + 1 : (uint32_t)r->used;
	cell->all = r->kernels;
	cell->n_all = r->used;
	for (size_t i = 0; i < r->used && i < WINDOW_CROWD; i++) {
		const struct window_kernel *own = &w->kernels[r->kernels[i]];
		const struct attribution_kernel *k = &own->k;
		int64_t from = k->start_ns > start_ns ? k->start_ns : start_ns;
		int64_t to = k->end_ns < end_ns ? k->end_ns : end_ns;
		double ns = (double)(k->end_ns - k->start_ns);

		cell->kernels[i] = r->kernels[i];
		cell->overlap_ns[i] = (double)(to - from);
		cell->from[i] = (double)(from - k->start_ns) / ns;
		cell->to[i] = (double)(to - k->start_ns) / ns;
		cell->part[i] =
			profiles && own->profile != PROFILE_NONE
				? profile_part(&profiles[own->profile], cell->from[i], cell->to[i])
				: cell->to[i] - cell->from[i];
	}
}

static double cost_of(const struct running *r)
{
	size_t parts = r->used < WINDOW_CROWD ? r->used : WINDOW_CROWD;

	return SAMPLE_COST + RUNNING_COST * (double)r->used + PART_COST * (double)parts;
}

int window_sweep(const struct window *w, size_t from, size_t to, int64_t shift_ns,
		 const struct profile *profiles, window_on_cell *on_cell, void *user)
{
	struct running running = { .crowded_until_ns = INT64_MIN };
	struct window_cell cell;
	int r = 0;

	for (size_t i = from; r == 0 && i < to; i++) {
		int64_t start_ns = w->samples[i].start_ns + shift_ns;
		int64_t end_ns = w->samples[i].end_ns + shift_ns;

		r = running_update(&running, w, start_ns, end_ns);
		r = r ? r : effort_spend(w->effort, cost_of(&running));
		if (r == 0) {
			cell.sample = i;
			cell.lost = window_overlaps(&w->lost, start_ns, end_ns);
			cell_fill(&cell, &running, w, profiles, start_ns, end_ns);
			r = on_cell(user, &cell);
		}
	}
	free(running.kernels);
	return r;
}

uint32_t window_equation(const struct window *w, const struct window_cell *cell,
			 const double *parts, uint32_t *unknowns, double *coefficients)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < cell->count; i++) {
		const struct window_kernel *k = &w->kernels[cell->kernels[i]];
		uint32_t at = 0;

		while (at < count && unknowns[at] != k->unknown) {
			at++;
		}
		if (at == count) {
			unknowns[count] = k->unknown;
			coefficients[count++] = 0;
		}
		coefficients[at] += parts[i];
	}
	return count;
}

double window_divide(const struct window_cell *cell, double value, const double *values,
		     double *parts)
{
	double expected = 0, ns = 0;

	for (uint32_t i = 0; i < cell->count; i++) {
		parts[i] = values[i] * cell->part[i];
		expected += parts[i];
		ns += cell->overlap_ns[i];
	}
	for (uint32_t i = 0; i < cell->count; i++) {
		parts[i] = value * (expected > 0 ? parts[i] / expected : cell->overlap_ns[i] / ns);
	}
	return expected;
}
