/* SPDX-License-Identifier: Apache-2.0 */

/* Kernels and samples come in the order of their starts, so one pass finds the kernels of each
 * sample: a kernel enters the running ones when it began before a sample's end, and leaves when it
 * ended before a sample's start. attribution.c has checked times, so no difference overflows. */

#include "client/attribution/window.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TIMES_MOST 1024
/* Most kernels that run at once, because each is looked at for each sample. */
#define RUNNING_MOST 1024
/* Costs in operations of effort.h: of a sample, a running kernel, and a kernel's part. */
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

/* Times that overlap or touch become one. Beyond the limit, or by a time out of order, the last one
 * is extended: more samples are left out than necessary, but no value becomes wrong. */
static int add_time(struct window_times *t, int64_t start_ns, int64_t end_ns)
{
	size_t room = t->room ? t->room * 2 : 16;

	while (t->used > 0 && (start_ns <= t->v[t->used - 1].end_ns || t->used == TIMES_MOST)) {
		const struct window_time *last = &t->v[--t->used];

		start_ns = last->start_ns < start_ns ? last->start_ns : start_ns;
		end_ns = last->end_ns > end_ns ? last->end_ns : end_ns;
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

/* The kernels that run in the present sample of the sweep. */
struct running {
	uint32_t *kernels;
	size_t used, room, next;
	int64_t crowded_until_ns; /* latest end of the kernels for which there was no room */
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
