/* SPDX-License-Identifier: Apache-2.0 */

/* The shift of the clocks is the one at which samples fit kernels best. A rough search over some
 * milliseconds gives each sample to the kernel that runs in its middle, and measures how samples
 * differ within positions. This is cheap, and shows clocks that are much further apart than
 * allowed. Then least squares are solved at allowed shifts. A kernel's rate at its beginning and
 * end is not its mean, which moves the best fit by some us: profile_fit.c corrects that.
 *
 * Each metric has a shift of its own: written data lingers in the L2 cache and reaches memory later
 * than read data leaves it. */

#include "client/attribution/shift.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES_ROUGH 8192
#define SAMPLES_FINE 32768
#define ROUGH_NS 3000000
#define FAR_STEPS 10
/* Cost in operations of effort.h: of a sample or a group in the rough search. */
#define ROUGH_COST 4
#define FINER 8 /* the last search has steps that are shorter by this factor */
#define WIDER 4 /* the error comes from points so many of these steps apart */
#define BLOCKS 16
/* CLEAR: the best shift counts only if its residual is less than this part of the worst shift's.
 * APART: the clocks count as too far apart only if a shift beyond the limit has a residual of less
 * than this part of the best shift's within the limit. */
#define CLEAR 0.9
#define APART 0.6
/* Both clocks are Unix time: the minimum nearest to no shift counts, unless another one's residual
 * is less than this part of it. A burst of traffic after each pause may fit two kernels nearly as
 * well: with tiny kernels behind a long one the residual was 0.0439 at -16 us and 0.0503 at 0, on
 * an H200. */
#define ELSEWHERE 0.6
#define APART_SAMPLES 1024
#define APART_KERNELS 512
#define KNOWN_SAMPLES 2048
#define APART_TIMES 3 /* samples for each unknown */
/* Samples that are longer than this times the largest shift allowed hold so many kernels that the
 * one in the middle says little: least squares alone find their shift. */
#define LONG 4
#define SETTLED_LEAST 1024 /* samples */
/* Most multiplications of one factorisation, a second's work; each metric needs some dozens of
 * factorisations. If one needs more, no shift is found. */
#define WORK_MOST 3e9
/* Part of the remaining effort that one factorisation may use, so that some is left. */
#define PART 5e-3

struct look {
	const struct window *w;
	uint32_t positions, metric;
	size_t from, to;
	size_t first; /* first kernel that may run in these samples, at a shift of up to ROUGH_NS */
};

/* The last kernel that begins more than ROUGH_NS before a sample. */
static size_t find_first(const struct window *w, size_t sample)
{
	size_t low = 0, high = sample < w->samples_used ? w->kernels_used : 0;

	while (low + 1 < high) {
		size_t middle = low + (high - low) / 2;
		int is_before =
			w->kernels[middle].k.start_ns + ROUGH_NS < w->samples[sample].start_ns;

		*(is_before ? &low : &high) = middle;
	}
	return low;
}

/* Takes samples from the middle of the time in which kernels ran, `most` at most. */
static void look_init(struct look *l, const struct window *w, uint32_t positions, uint32_t metric,
		      size_t most)
{
	size_t from = 0, to = w->samples_used;

	while (from < to && w->kernels_used > 0 &&
	       w->samples[from].end_ns < w->kernels[0].k.start_ns) {
		from++;
	}
	while (to > from && w->kernels_used > 0 &&
	       w->samples[to - 1].start_ns > w->kernels[w->kernels_used - 1].k.end_ns) {
		to--;
	}
	if (to - from > most) {
		from += (to - from - most) / 2;
		to = from + most;
	}
	*l = (struct look){ w, positions, metric, from, to, find_first(w, from) };
}

struct group {
	double count, sum;
};

/* The part of the sum of squares that the positions do not explain. */
static double rough_left(const struct look *l, struct group *groups, uint32_t count,
			 int64_t shift_ns)
{
	const struct window *w = l->w;
	double squares = 0, between = 0;
	size_t k = l->first;

	if (effort_spend(w->effort, ROUGH_COST * (double)(l->to - l->from + count))) {
		return 0;
	}
	memset(groups, 0, count * sizeof(*groups));
	for (size_t i = l->from; i < l->to; i++) {
		int64_t length = w->samples[i].end_ns - w->samples[i].start_ns;
		int64_t middle = w->samples[i].start_ns + length / 2 + shift_ns;
		double rate = w->values[i * w->metrics + l->metric] / (double)length;
		struct group *g = &groups[count - 1];

		while (k + 1 < w->kernels_used && w->kernels[k + 1].k.start_ns <= middle) {
			k++;
		}
		if (w->kernels[k].k.start_ns <= middle && w->kernels[k].k.end_ns > middle) {
			g = &groups[w->kernels[k].unknown];
		}
		g->count++;
		g->sum += rate;
		squares += rate * rate;
	}
	for (uint32_t i = 0; i < count; i++) {
		between +=
			groups[i].count > 0 ? groups[i].sum * groups[i].sum / groups[i].count : 0;
	}
	return squares > 0 ? (squares - between) / squares : 0;
}

/* Least squares at one shift. */
struct trial {
	const struct look *l;
	struct normal normal;
	double *solution;
	double *blocks; /* squared residuals of each block of samples; NULL: not wanted */
};

static int is_usable(const struct window *w, const struct window_cell *cell)
{
	uint32_t local = 0;

	for (uint32_t i = 0; i < cell->count && i < WINDOW_CROWD; i++) {
		local += w->kernels[cell->kernels[i]].local;
	}
	return cell->count <= WINDOW_CROWD && !cell->lost && (local == 0 || local == cell->count);
}

static int on_fit(void *user, const struct window_cell *cell)
{
	struct trial *t = user;
	const struct window *w = t->l->w;
	uint32_t unknowns[WINDOW_CROWD], count;
	double coefficients[WINDOW_CROWD];

	if (!is_usable(w, cell)) {
		return 0;
	}
	count = window_equation(w, cell, cell->part, unknowns, coefficients);
	return normal_add(&t->normal, unknowns, coefficients, count,
			  w->values[cell->sample * w->metrics + t->l->metric]);
}

static int on_left(void *user, const struct window_cell *cell)
{
	struct trial *t = user;
	const struct look *l = t->l;
	double left = l->w->values[cell->sample * l->w->metrics + l->metric];

	if (!is_usable(l->w, cell)) {
		return 0;
	}
	for (uint32_t i = 0; i < cell->count; i++) {
		left -= cell->part[i] * t->solution[l->w->kernels[cell->kernels[i]].unknown];
	}
	t->blocks[(cell->sample - l->from) * BLOCKS / (l->to - l->from)] += left * left;
	return 0;
}

/* blocks: BLOCKS numbers, or NULL. */
static int try_shift(const struct look *l, uint32_t unknowns, int64_t shift_ns, double *ret_left,
		     double *blocks)
{
	struct trial t = { .l = l, .normal = { .effort = l->w->effort }, .blocks = blocks };
	int r;

	t.solution = calloc((size_t)unknowns + 1, sizeof(*t.solution));
	t.normal.work_most = fmin(WORK_MOST, PART * effort_left(l->w->effort));
	r = t.solution ? normal_grow(&t.normal, unknowns) : -ENOMEM;

	r = r == 0 ? window_sweep(l->w, l->from, l->to, shift_ns, NULL, on_fit, &t) : r;
	r = r == 0 ? normal_solve(&t.normal, t.solution, NULL) : r;
	*ret_left = r == 0 && t.normal.squares > 0
			    ? normal_left(&t.normal, t.solution) / t.normal.squares
			    : 0;
	if (r == 0 && blocks) {
		r = window_sweep(l->w, l->from, l->to, shift_ns, NULL, on_left, &t);
	}
	normal_deinit(&t.normal);
	free(t.solution);
	return r;
}

/* The minimum of a parabola through three equidistant points, in steps from the middle one. */
static double vertex(double before, double middle, double after)
{
	double bend = before - 2 * middle + after;

	return bend > 0 ? 0.5 * (before - after) / bend : 0;
}

static int64_t length_of(const struct look *l)
{
	const struct window_sample *first = &l->w->samples[l->from];

	return first->end_ns - first->start_ns;
}

/* The standard error of the shift, in steps: that of the mean of the shifts that fit each block of
 * samples best (batch means). Single samples are not independent, because other work has similar
 * effects on neighbouring samples. blocks: squared residuals of each block at three shifts. */
static double error_of(double blocks[3][BLOCKS])
{
	double bend = 0, mean = 0, squares = 0;

	for (int b = 0; b < BLOCKS; b++) {
		bend += blocks[0][b] - 2 * blocks[1][b] + blocks[2][b];
		mean += (blocks[0][b] - blocks[2][b]) / 2 / BLOCKS;
	}
	for (int b = 0; b < BLOCKS; b++) {
		double off = (blocks[0][b] - blocks[2][b]) / 2 - mean;

		squares += off * off;
	}
	return bend > 0 ? fmin(1, sqrt(squares * BLOCKS / (BLOCKS - 1)) / bend) : 1;
}

/* Refines the shift with a parabola through close points, because one through points that are far
 * apart has its minimum only near the best shift. Where other work leaves large residuals, one
 * through close points may have no minimum, so the error comes from points further apart. */
static int finer(const struct look *l, uint32_t unknowns, double step, struct shift *ret)
{
	static const int at[] = { -WIDER, -1, 0, 1, WIDER };
	double left[5], blocks[5][BLOCKS] = { 0 };

	ret->error_ns = WIDER * step;
	for (int i = 0; i < 5; i++) {
		int r = try_shift(l, unknowns, ret->ns + (int64_t)(at[i] * step), &left[i],
				  blocks[i]);

		if (r != 0) {
			return r < 0 ? r : 0;
		}
	}
	memcpy(blocks[1], blocks[0], sizeof(blocks[0]));
	memcpy(blocks[3], blocks[4], sizeof(blocks[0]));
	ret->ns += (int64_t)(fmax(-1, fmin(1, vertex(left[1], left[2], left[3]))) * step);
	ret->error_ns *= error_of(blocks + 1);
	return 0;
}

/* Is there enough to say that the clocks are too far apart? With few kernels and samples, one of
 * hundreds of shifts fits better by chance, because kernels meet samples of unrecorded work. */
static int is_enough(const struct look *l, uint32_t unknowns)
{
	const struct window *w = l->w;
	int64_t from = w->samples[l->from].start_ns, to = w->samples[l->to - 1].end_ns;
	size_t kernels = 0, samples = l->to - l->from;

	for (size_t i = 0; i < w->kernels_used && kernels < APART_KERNELS; i++) {
		kernels += w->kernels[i].k.end_ns > from && w->kernels[i].k.start_ns < to;
	}
	return samples >= APART_SAMPLES && samples >= APART_TIMES * (size_t)unknowns &&
	       kernels >= APART_KERNELS;
}

/* Returns the index of the best shift. left: residual at each shift. */
static int find_minimum(const double left[2 * FAR_STEPS + 1])
{
	int nearest = FAR_STEPS, best = 0;
	int side = left[FAR_STEPS - 1] < left[FAR_STEPS + 1] ? -1 : 1;

	while (nearest + side >= 0 && nearest + side <= 2 * FAR_STEPS &&
	       left[nearest + side] < left[nearest]) {
		nearest += side;
	}
	for (int i = 1; i <= 2 * FAR_STEPS; i++) {
		best = left[i] < left[best] ? i : best;
	}
	return left[best] < ELSEWHERE * left[nearest] ? best : nearest;
}

static int fine(const struct look *l, uint32_t unknowns, int64_t most_ns, struct shift *ret)
{
	double left[2 * FAR_STEPS + 1];
	double step = (double)most_ns / FAR_STEPS, worst = 0;
	int best;

	for (int i = 0; i <= 2 * FAR_STEPS; i++) {
		int r = try_shift(l, unknowns, (int64_t)((i - FAR_STEPS) * step), &left[i], NULL);

		if (r != 0) {
			return r < 0 ? r : 0;
		}
		worst = left[i] > worst ? left[i] : worst;
	}
	best = find_minimum(left);
	if (best == 0 || best == 2 * FAR_STEPS || !(left[best] < CLEAR * worst)) {
		ret->apart = is_enough(l, unknowns) && left[best] < APART * left[FAR_STEPS];
		ret->ns = ret->apart ? (int64_t)((best - FAR_STEPS) * step) : 0;
		return 0;
	}
	if (l->to - l->from < KNOWN_SAMPLES && l->to - l->from < APART_TIMES * (size_t)unknowns) {
		return 0;
	}
	ret->known = 1;
	ret->ns =
		(int64_t)((best - FAR_STEPS + vertex(left[best - 1], left[best], left[best + 1])) *
			  step);
	return finer(l, unknowns, step / FINER, ret);
}

/* Numbers the unknowns in the order of their kernels' starts, so that neighbours in time are also
 * neighbours in the equations. All kernels outside this time share the last number. */
static int number(const struct look *l, uint32_t *ret)
{
	const struct window *w = l->w;
	int64_t from = w->samples[l->from].start_ns - ROUGH_NS;
	int64_t to = w->samples[l->to - 1].end_ns + ROUGH_NS;
	uint32_t *of_position = calloc((size_t)l->positions + 1, sizeof(*of_position));
	uint32_t unknowns = 0;

	if (!of_position) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < w->kernels_used; i++) {
		struct window_kernel *k = &w->kernels[i];

		if (k->k.end_ns <= from || k->k.start_ns >= to) {
			k->unknown = UINT32_MAX;
		} else if (k->local) {
			k->unknown = unknowns++;
		} else {
			if (of_position[k->position] == 0) {
				of_position[k->position] = ++unknowns;
			}
			k->unknown = of_position[k->position] - 1;
		}
	}
	for (size_t i = 0; i < w->kernels_used; i++) {
		struct window_kernel *k = &w->kernels[i];

		k->unknown = k->unknown == UINT32_MAX ? unknowns : k->unknown;
	}
	free(of_position);
	*ret = unknowns + 1;
	return 0;
}

static int rough_apart(const struct look *l, uint32_t unknowns, int64_t most_ns, struct shift *ret)
{
	struct group *groups = calloc((size_t)unknowns + 1, sizeof(*groups));
	int64_t length = length_of(l), far_ns = 0;
	double near = 1, far = 1;

	if (!groups) {
		return -ENOMEM;
	}
	length = length < ROUGH_NS / 600 ? ROUGH_NS / 600 : length;
	for (int64_t at = -ROUGH_NS; at <= ROUGH_NS;) {
		int is_near = at >= -2 * most_ns && at <= 2 * most_ns;
		double left = rough_left(l, groups, unknowns + 1, at);
		double *side = is_near ? &near : &far;

		far_ns = !is_near && left < far ? at : far_ns;
		*side = left < *side ? left : *side;
		at += is_near ? length / 4 : length;
	}
	ret->apart = !effort_spend(l->w->effort, 0) && is_enough(l, unknowns) && far < APART * near;
	ret->ns = ret->apart ? far_ns : 0;
	free(groups);
	return 0;
}

static int coarse_apart(const struct look *l, uint32_t unknowns, struct shift *ret)
{
	int64_t length = length_of(l), most = ROUGH_NS / length > 0 ? ROUGH_NS / length : 1;
	int64_t far_ns = 0;
	double near = 1, far = 1, left;

	for (int64_t i = -2 * most; i <= 2 * most; i++) {
		int is_near = i >= -1 && i <= 1;
		double *side = is_near ? &near : &far;
		int r = try_shift(l, unknowns, i * length / 2, &left, NULL);

		if (r != 0) {
			return r < 0 ? r : 0;
		}
		far_ns = !is_near && left < far ? i * length / 2 : far_ns;
		*side = left < *side ? left : *side;
	}
	ret->apart = is_enough(l, unknowns) && far < APART * near;
	ret->ns = ret->apart ? far_ns : 0;
	return 0;
}

int shift_estimate(const struct window *w, uint32_t positions, uint32_t metric, int64_t most_ns,
		   struct shift *ret)
{
	struct look l;
	uint32_t unknowns;
	int r;

	memset(ret, 0, sizeof(*ret));
	look_init(&l, w, positions, metric, SAMPLES_ROUGH);
	if (w->kernels_used == 0 || l.to - l.from < 16) {
		return 0;
	}
	r = number(&l, &unknowns);
	if (r == 0 && length_of(&l) > LONG * most_ns) {
		r = coarse_apart(&l, unknowns, ret);
		ret->settled = r == 0 && l.to - l.from >= SETTLED_LEAST;
	} else if (r == 0) {
		r = rough_apart(&l, unknowns, most_ns, ret);
	}
	if (r != 0 || ret->apart) {
		return r;
	}
	look_init(&l, w, positions, metric, SAMPLES_FINE);
	r = number(&l, &unknowns);
	return r == 0 ? fine(&l, unknowns, most_ns, ret) : r;
}
