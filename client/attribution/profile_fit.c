/* SPDX-License-Identifier: Apache-2.0 */

/* Least squares take a kernel's rate as even over its time, but its beginning is slow, and in its
 * last wave of blocks half of the SMs are idle. In samples of 200 us that looks as if its neighbour
 * did less: on an H200 the values of kernels of 100 us and more were off by 1.3 to 2.8 % in the
 * median, three times their error. So were kernels of a few us in samples of 10 us.
 *
 * Kernels of one shape spread their values alike over their time, wherever they are in a step. So a
 * kernel's time is cut into a few pieces, and two least squares alternate. The first finds the
 * positions' values, with the profiles so far. The second finds the pieces' rates with these
 * values, and the error of the clocks' shift, which even rates had moved by 1 to 2 us. A piece of
 * which samples say little keeps the mean rate: an equation asks for it, with the weight of
 * RATE_DEVIATION. */

#include "client/attribution/profile_fit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/attribution/window.h"

/* Shapes that last less than 1 / SHORT_PART of a sample have no profile. */
#define SHORT_PART 8
#define SHAPES_MOST 256
#define SAMPLES_LEAST 256
#define SAMPLES_MOST 65536
/* A sample with more kernels says little about any of them. */
#define CROWD 8
#define ROUNDS 3
#define RATE_DEVIATION 0.3
#define SHIFT_DEVIATION_NS 2000.0
/* Unknowns cannot be negative, so the last one is the change of the shift plus this. */
#define SHIFT_MOST_NS 5000.0

static int compare_shapes(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

uint32_t profile_number(const struct profile_shapes *s, uint32_t shape)
{
	const uint32_t *found =
		s->n ? bsearch(&shape, s->v, s->n, sizeof(*s->v), compare_shapes) : NULL;

	return found ? (uint32_t)(found - s->v) : PROFILE_NONE;
}

/* --- which shapes --- */

struct candidate {
	uint32_t shape, count;
	double ns;
};

static int by_shape(const void *a, const void *b)
{
	return compare_shapes(&((const struct candidate *)a)->shape,
			      &((const struct candidate *)b)->shape);
}

static int by_time(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->ns > y->ns ? -1 : x->ns < y->ns;
}

/* Merges candidates of the same shape, and sorts them by time. Returns how many are left. */
static size_t add_up(struct candidate *c, size_t n)
{
	size_t used = 0;

	qsort(c, n, sizeof(*c), by_shape);
	for (size_t i = 0; i < n; i++) {
		if (used > 0 && c[used - 1].shape == c[i].shape) {
			c[used - 1].ns += c[i].ns;
			c[used - 1].count++;
		} else {
			c[used++] = c[i];
		}
	}
	qsort(c, used, sizeof(*c), by_time);
	return used;
}

int profile_choose(struct profile_shapes *s, const struct window *w)
{
	double length = (double)(w->samples[w->samples_used / 2].end_ns -
				 w->samples[w->samples_used / 2].start_ns);
	struct candidate *c;
	size_t n;

	s->sample_ns = length;
	c = malloc((w->kernels_used + 1) * sizeof(*c));
	s->v = malloc(SHAPES_MOST * sizeof(*s->v));
	if (!c || !s->v) {
		free(c);
		return -ENOMEM;
	}
	for (size_t i = 0; i < w->kernels_used; i++) {
		const struct attribution_kernel *k = &w->kernels[i].k;

		c[i] = (struct candidate){ k->shape, 1, (double)(k->end_ns - k->start_ns) };
	}
	n = add_up(c, w->kernels_used);
	for (size_t i = 0; i < n && s->n < SHAPES_MOST; i++) {
		if (c[i].ns / c[i].count >= length / SHORT_PART) {
			s->v[s->n++] = c[i].shape;
		}
	}
	free(c);
	qsort(s->v, s->n, sizeof(*s->v), compare_shapes);
	return 0;
}

/* --- fitting --- */

struct fit {
	const struct profile_shapes *shapes;
	struct window *w;
	uint32_t positions, metric;
	int64_t shift_ns;
	size_t from, to; /* range of samples */
	uint64_t cells;
	struct profile *profiles;
	struct normal normal;
	double *values; /* one for each position */
	double *rates;	/* of pieces, relative to kernels' means; last: the shift's change */
};

static int is_usable(const struct fit *f, const struct window_cell *cell)
{
	if (cell->count == 0 || cell->count > CROWD || cell->lost) {
		return 0;
	}
	for (uint32_t i = 0; i < cell->count; i++) {
		if (f->w->kernels[cell->kernels[i]].local) {
			return 0;
		}
	}
	return 1;
}

static double value_of(const struct fit *f, const struct window_cell *cell)
{
	return f->w->values[cell->sample * f->w->metrics + f->metric];
}

static int on_positions(void *user, const struct window_cell *cell)
{
	struct fit *f = user;
	uint32_t unknowns[WINDOW_CROWD], count;
	double coefficients[WINDOW_CROWD];

	if (!is_usable(f, cell)) {
		return 0;
	}
	f->cells++;
	count = window_equation(f->w, cell, cell->part, unknowns, coefficients);
	return normal_add(&f->normal, unknowns, coefficients, count, value_of(f, cell));
}

/* Adds a coefficient to an equation in which its unknown may be already. */
static uint32_t add_entry(uint32_t *unknowns, double *coefficients, uint32_t count,
			  uint32_t unknown, double coefficient)
{
	uint32_t at = 0;

	while (at < count && unknowns[at] != unknown) {
		at++;
	}
	if (at == count) {
		unknowns[count] = unknown;
		coefficients[count++] = 0;
	}
	coefficients[at] += coefficient;
	return count;
}

/* The rate of a kernel at a fraction of its time, as the part of its value per ns. */
static double rate_at(const struct fit *f, const struct window_kernel *k, double at)
{
	double ns = (double)(k->k.end_ns - k->k.start_ns);

	return k->profile == PROFILE_NONE ? 1 / ns
					  : profile_rate(&f->profiles[k->profile], at) / ns;
}

/* By how much a sample's expected value grows when the sample is shifted by 1 ns. */
static double slope_of(const struct fit *f, const struct window_cell *cell)
{
	double slope = 0;

	for (uint32_t i = 0; i < cell->count; i++) {
		const struct window_kernel *k = &f->w->kernels[cell->kernels[i]];

		slope += cell->to[i] < 1 ? f->values[k->position] * rate_at(f, k, cell->to[i]) : 0;
		slope -= cell->from[i] > 0 ? f->values[k->position] * rate_at(f, k, cell->from[i])
					   : 0;
	}
	return slope;
}

static int on_pieces(void *user, const struct window_cell *cell)
{
	struct fit *f = user;
	uint32_t unknowns[CROWD * PROFILE_PIECES + 1], count = 0;
	double coefficients[CROWD * PROFILE_PIECES + 1], value, slope;

	if (!is_usable(f, cell)) {
		return 0;
	}
	value = value_of(f, cell);
	for (uint32_t i = 0; i < cell->count; i++) {
		const struct window_kernel *k = &f->w->kernels[cell->kernels[i]];
		double whole = f->values[k->position];

		if (k->profile == PROFILE_NONE) {
			value -= whole * cell->part[i];
			continue;
		}
		for (uint32_t p = 0; p < PROFILE_PIECES; p++) {
			double part = profile_overlap(cell->from[i], cell->to[i], (int)p);

			if (part > 0) {
				count = add_entry(unknowns, coefficients, count,
						  k->profile * PROFILE_PIECES + p, whole * part);
			}
		}
	}
	slope = slope_of(f, cell);
	count = add_entry(unknowns, coefficients, count, f->shapes->n * PROFILE_PIECES, slope);
	return normal_add(&f->normal, unknowns, coefficients, count, value + SHIFT_MOST_NS * slope);
}

static int sweep(struct fit *f, uint32_t unknowns, window_on_cell *on_cell)
{
	int r;

	normal_clear(&f->normal);
	r = normal_grow(&f->normal, unknowns);
	f->cells = 0;
	return r == 0 ? window_sweep(f->w, f->from, f->to, f->shift_ns, f->profiles, on_cell, f)
		      : r;
}

/* *left: mean squared residual. */
static int solve_positions(struct fit *f, double *left)
{
	int r = sweep(f, f->positions, on_positions);

	r = r == 0 && f->cells < SAMPLES_LEAST ? 1 : r;
	r = r == 0 ? normal_solve(&f->normal, f->values, NULL) : r;
	*left = r == 0 ? normal_left(&f->normal, f->values) / (double)f->cells : 0;
	return r;
}

static int solve_pieces(struct fit *f, double left)
{
	uint32_t n = f->shapes->n * PROFILE_PIECES;
	double weight = sqrt(left) / RATE_DEVIATION, shift = sqrt(left) / SHIFT_DEVIATION_NS;
	int r = sweep(f, n + 1, on_pieces);

	for (uint32_t i = 0; r == 0 && i < n; i++) {
		r = normal_add(&f->normal, &i, &weight, 1, weight);
	}
	r = r == 0 ? normal_add(&f->normal, &n, &shift, 1, shift * SHIFT_MOST_NS) : r;
	r = r == 0 ? normal_solve(&f->normal, f->rates, NULL) : r;
	if (r == 0) {
		f->shift_ns += (int64_t)(fmin(f->rates[n], 2 * SHIFT_MOST_NS) - SHIFT_MOST_NS);
	}
	return r;
}

static void set_profiles(struct fit *f)
{
	for (uint32_t s = 0; s < f->shapes->n; s++) {
		const double *rates = f->rates + s * PROFILE_PIECES;
		double mean = 0;

		for (int p = 0; p < PROFILE_PIECES; p++) {
			mean += rates[p] * (profile_bounds[p + 1] - profile_bounds[p]);
		}
		for (int p = 0; p < PROFILE_PIECES; p++) {
			f->profiles[s].rates[p] = mean > 0 ? rates[p] / mean : 1;
		}
	}
}

static int fit(struct fit *f)
{
	double left;
	int r = 0;

	for (int round = 0; r == 0 && round < ROUNDS; round++) {
		r = solve_positions(f, &left);
		r = r == 0 && !(left > 0) ? 1 : r;
		r = r == 0 ? solve_pieces(f, left) : r;
		if (r == 0) {
			set_profiles(f);
		}
	}
	return r;
}

int profile_fit(const struct profile_shapes *s, struct window *w, uint32_t positions,
		uint32_t metric, int64_t *shift_ns, struct profile **ret)
{
	size_t n = w->samples_used, middle = n > SAMPLES_MOST ? (n - SAMPLES_MOST) / 2 : 0;
	struct fit f = { .shapes = s,
			 .w = w,
			 .positions = positions,
			 .metric = metric,
			 .shift_ns = *shift_ns,
			 .from = middle,
			 .to = n - middle,
			 .normal = { .effort = w->effort } };
	int r = -ENOMEM;

	*ret = NULL;
	if (s->n == 0) {
		return 0;
	}
	for (size_t i = 0; i < w->kernels_used; i++) {
		w->kernels[i].unknown = w->kernels[i].position;
	}
	f.profiles = malloc(s->n * sizeof(*f.profiles));
	f.values = calloc((size_t)positions + 1, sizeof(double));
	f.rates = calloc((size_t)s->n * PROFILE_PIECES + 1, sizeof(double));
	if (f.profiles && f.values && f.rates) {
		set_profiles(&f); /* all rates are 0, which makes even profiles */
		r = fit(&f);
	}
	if (r == 0) {
		*ret = f.profiles;
		*shift_ns = f.shift_ns;
		f.profiles = NULL;
	}
	normal_deinit(&f.normal);
	free(f.profiles);
	free(f.values);
	free(f.rates);
	return r < 0 ? r : 0;
}
