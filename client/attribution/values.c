/* SPDX-License-Identifier: Apache-2.0 */

/* Attributes a window's samples, metric by metric. First it solves the equations of positions, from
 * samples with no other kernels. Then those of kernels without a position, from samples less what
 * positions did in them. At last it divides each sample among its kernels in proportion to what the
 * solutions expect. A kernel's value is the sum of its shares. So the samples' sum is kept, however
 * a kernel's rate varies over its time, and only samples at its borders depend on the solutions. */

#include "client/attribution/attribution.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/attribution/internal.h"

/* A sample shows what flows without a kernel only if no kernel runs for so long before and after
 * it. */
#define IDLE_NS 50000
/* Less idle time does not show what is counted without kernels: unrecorded work may have run. */
#define IDLE_LEAST_NS 10000000
/* At least this part of a kernel's time must be in samples. */
#define COVERED_LEAST 0.99
/* If a smaller part of samples with positions holds no other kernels, all become local. */
#define CLEAN_LEAST 0.5
/* The factor of the squared difference of least squares and division, in the variance. */
#define MISFIT 0.5
/* The factor of the squared uncertainty at beginnings and ends, in the variance. */
#define EDGE 0.25
#define FREEDOM 10
/* Factor of the shift's error: a shift moves one end of a kernel into its neighbour, not both. */
#define SHIFT M_SQRT1_2
/* Limit of the correlation of successive kernels' deviations: few kernels cannot show more. */
#define KEPT_MOST 0.95
/* BEND: factor, in the variance, of the squared change of a value by profiles. RAMP: time at a
 * kernel's ends that profiles do not resolve: 2 % of a sample up to RAMP_NS, and at least 1 %. */
#define BEND 1
#define RAMP_SHORT 0.02
#define RAMP_NS 2000
#define RAMP_LONG 0.01
/* Least error of a known shift of the clocks. */
#define SHIFT_NS 100
/* Rates of neighbours that differ by less than this part do not show where one of them ends. */
#define STEP_LEAST 0.1
/* Kernels that are closer than this follow each other directly. */
#define EDGE_GAP_NS 5000

static int grow(void *list, size_t had, size_t want, size_t size)
{
	char **at = list, *now = realloc(*at, want * size);

	if (!now) {
		return -ENOMEM;
	}
	memset(now + had * size, 0, (want - had) * size);
	*at = now;
	return 0;
}

static int grow_metric(struct metric *m, size_t had, size_t want)
{
	double **columns[] = { &m->solution, &m->inverse, &m->even, &m->even_inverse };
	int r = grow(&m->tallies, had, want, sizeof(*m->tallies));

	for (size_t i = 0; r == 0 && i < sizeof(columns) / sizeof(columns[0]); i++) {
		r = grow(columns[i], had, want, sizeof(double));
	}
	return r;
}

int values_grow(struct attribution *a, uint32_t positions)
{
	size_t had = a->room, want = positions + positions / 2 + 64;
	int r = positions > had ? grow(&a->placed, had, want, sizeof(*a->placed)) : 0;

	a->counts.positions = positions;
	for (uint32_t i = 0; r == 0 && i < a->options.metrics; i++) {
		struct metric *m = &a->metrics[i];

		m->positions.effort = m->evens.effort = m->locals.effort = &a->effort;
		r = normal_grow(&m->positions, positions);
		r = r == 0 && positions > had ? grow_metric(m, had, want) : r;
	}
	a->room = r == 0 && positions > had ? (uint32_t)want : a->room;
	return r;
}

static void locals_deinit(struct metric *m)
{
	free(m->local_solution);
	free(m->local_inverse);
	free(m->local_residual);
	m->local_solution = m->local_inverse = m->local_residual = NULL;
}

void values_deinit(struct attribution *a)
{
	for (uint32_t i = 0; i < a->options.metrics; i++) {
		struct metric *m = &a->metrics[i];

		normal_deinit(&m->positions);
		normal_deinit(&m->locals);
		free(m->solution);
		free(m->inverse);
		free(m->tallies);
		normal_deinit(&m->evens);
		free(m->even);
		free(m->even_inverse);
		free(m->profiles);
		locals_deinit(m);
	}
	free(a->shapes.v);
	free(a->placed);
}

struct pass {
	struct attribution *a;
	struct metric *metric;
	uint32_t index;	       /* number of the metric */
	uint64_t clean, mixed; /* samples that hold only kernels with positions, and samples that
				  hold both kinds */
	int64_t last_end_ns;   /* latest end of the kernels so far */
	size_t next;	       /* the next kernel to begin */
};

static uint32_t count_locals(const struct window *w, const struct window_cell *cell)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < cell->count; i++) {
		n += w->kernels[cell->kernels[i]].local;
	}
	return n;
}

/* A sample's value without the background. */
static double read_value(const struct pass *p, size_t sample)
{
	const struct window *w = &p->a->window;
	double ns = (double)(w->samples[sample].end_ns - w->samples[sample].start_ns);
	double value = w->values[sample * w->metrics + p->index] - ns * p->metric->idle_per_ns;

	return value > 0 ? value : 0;
}

static double solution_of(const struct metric *m, const struct window_kernel *k)
{
	return k->local ? m->local_solution[k->unknown] : m->solution[k->position];
}

static double rate_of(const struct metric *m, const struct window_kernel *k)
{
	return solution_of(m, k) / (double)(k->k.end_ns - k->k.start_ns);
}

/* Counts samples by the kinds of their kernels, and marks kernels of crowded samples. */
static int on_count(void *user, const struct window_cell *cell)
{
	struct pass *p = user;
	struct window *w = &p->a->window;
	uint32_t locals;

	if (cell->count > WINDOW_CROWD) {
		for (size_t i = 0; i < cell->n_all; i++) {
			w->kernels[cell->all[i]].crowded = 1;
		}
		return 0;
	}
	locals = count_locals(w, cell);
	p->clean += cell->count > 0 && locals == 0;
	p->mixed += locals > 0 && locals < cell->count;
	return 0;
}

/* Adds up samples far from kernels, not before the first or after the last: other work may run. */
static int on_idle(void *user, const struct window_cell *cell)
{
	struct pass *p = user;
	struct window *w = &p->a->window;
	int64_t start_ns = w->samples[cell->sample].start_ns + p->metric->shift_ns;
	int64_t end_ns = w->samples[cell->sample].end_ns + p->metric->shift_ns;

	for (; p->next < w->kernels_used && w->kernels[p->next].k.start_ns < end_ns + IDLE_NS;
	     p->next++) {
		int64_t end = w->kernels[p->next].k.end_ns;

		p->last_end_ns = end > p->last_end_ns ? end : p->last_end_ns;
	}
	if (!cell->lost && p->last_end_ns != INT64_MIN && p->next < w->kernels_used &&
	    p->last_end_ns < start_ns - IDLE_NS) {
		p->metric->idle_ns += (double)(end_ns - start_ns);
		p->metric->idle += w->values[cell->sample * w->metrics + p->index];
	}
	return 0;
}

/* Adds the equation of a cell as if every kernel spread its value evenly over its time. */
static int add_even(struct pass *p, const struct window_cell *cell)
{
	uint32_t unknowns[WINDOW_CROWD], count;
	double parts[WINDOW_CROWD], coefficients[WINDOW_CROWD];

	for (uint32_t i = 0; i < cell->count; i++) {
		parts[i] = cell->to[i] - cell->from[i];
	}
	count = window_equation(&p->a->window, cell, parts, unknowns, coefficients);
	return normal_add(&p->metric->evens, unknowns, coefficients, count,
			  read_value(p, cell->sample));
}

static int on_positions(void *user, const struct window_cell *cell)
{
	struct pass *p = user;
	const struct window *w = &p->a->window;
	uint32_t unknowns[WINDOW_CROWD], count;
	double coefficients[WINDOW_CROWD];
	int r;

	if (cell->count == 0 || cell->count > WINDOW_CROWD || cell->lost ||
	    count_locals(w, cell) > 0) {
		return 0;
	}
	count = window_equation(w, cell, cell->part, unknowns, coefficients);
	r = normal_add(&p->metric->positions, unknowns, coefficients, count,
		       read_value(p, cell->sample));
	return r == 0 && p->metric->profiles ? add_even(p, cell) : r;
}

/* Does a sample hold both kinds of kernels, of which one is not solved? Its kernels would be given
 * nothing, and those of the other kind the whole sample. */
static int is_half_solved(const struct metric *m, const struct window *w,
			  const struct window_cell *cell)
{
	uint32_t locals;

	if (!m->unsolved && !m->local_unsolved) {
		return 0;
	}
	locals = count_locals(w, cell);
	return locals > 0 && locals < cell->count;
}

/* Adds the equation of a sample's local kernels, from its value less the part of positions. */
static int on_locals(void *user, const struct window_cell *cell)
{
	struct pass *p = user;
	const struct window *w = &p->a->window;
	struct window_cell own = { .sample = cell->sample };
	uint32_t unknowns[WINDOW_CROWD], count;
	double coefficients[WINDOW_CROWD], value;

	if (cell->count > WINDOW_CROWD || cell->lost || count_locals(w, cell) == 0 ||
	    is_half_solved(p->metric, w, cell)) {
		return 0;
	}
	value = read_value(p, cell->sample);
	for (uint32_t i = 0; i < cell->count; i++) {
		const struct window_kernel *k = &w->kernels[cell->kernels[i]];

		if (k->local) {
			own.kernels[own.count] = cell->kernels[i];
			own.part[own.count++] = cell->part[i];
		} else {
			value -= solution_of(p->metric, k) * cell->part[i];
		}
	}
	count = window_equation(w, &own, own.part, unknowns, coefficients);
	return normal_add(&p->metric->locals, unknowns, coefficients, count, value);
}

/* If the rate changes between a sample's kernels, its residual (left) shows how wrong the times of
 * their ends are. If not, the residual has other causes and would look like a large error. */
static void note_edges(struct metric *m, const struct window *w, const struct window_cell *cell,
		       double left)
{
	double steps = 0, rates = 0;

	for (uint32_t i = 1; i < cell->count; i++) {
		const struct window_kernel *before = &w->kernels[cell->kernels[i - 1]];
		const struct window_kernel *k = &w->kernels[cell->kernels[i]];
		double from = rate_of(m, before), to = rate_of(m, k);

		/* In a gap between two kernels the rate falls to 0 and rises again. */
		steps += before->k.end_ns + EDGE_GAP_NS > k->k.start_ns ? (to - from) * (to - from)
									: from * from + to * to;
		rates += (from * from + to * to) / 2;
	}
	if (steps > STEP_LEAST * STEP_LEAST * rates) {
		m->edge_steps += steps;
		m->edge_left += left * left;
	}
}

static int on_divide(void *user, const struct window_cell *cell)
{
	struct pass *p = user;
	struct window *w = &p->a->window;
	double values[WINDOW_CROWD], parts[WINDOW_CROWD], value, left;

	if (cell->count == 0 || cell->count > WINDOW_CROWD || cell->lost ||
	    is_half_solved(p->metric, w, cell)) {
		return 0;
	}
	value = read_value(p, cell->sample);
	for (uint32_t i = 0; i < cell->count; i++) {
		values[i] = solution_of(p->metric, &w->kernels[cell->kernels[i]]);
	}
	left = value - window_divide(cell, value, values, parts);
	note_edges(p->metric, w, cell, left);
	for (uint32_t i = 0; i < cell->count; i++) {
		const struct window_kernel *k = &w->kernels[cell->kernels[i]];
		double part = left * cell->part[i];
		double share = value > 0 ? parts[i] / value : 0;
		double *given = w->parts + ((size_t)cell->kernels[i] * w->metrics + p->index) * 2;

		p->metric->moved += parts[i];
		p->metric->moved_ns += cell->overlap_ns[i];
		given[0] += parts[i];
		given[1] += cell->overlap_ns[i];
		if (k->local) {
			p->metric->local_residual[k->unknown] += part * part;
		} else {
			p->metric->tallies[k->position].residual += part * part;
			p->metric->tallies[k->position].shared += left * left * share * (1 - share);
		}
	}
	return 0;
}

/* Positions are not used for this window if most samples also hold kernels without a position. */
static int number_locals(struct attribution *a, size_t samples)
{
	struct window *w = &a->window;
	struct pass p = { .a = a };
	int r = window_sweep(w, 0, samples, a->metrics[0].shift_ns, NULL, on_count, &p);

	a->local_count = 0;
	for (size_t i = 0; i < w->kernels_used; i++) {
		struct window_kernel *k = &w->kernels[i];

		k->local |=
			p.mixed > 0 && (double)p.clean < CLEAN_LEAST * (double)(p.clean + p.mixed);
		k->unknown = k->local ? a->local_count++ : k->position;
	}
	return r;
}

/* r: result of normal_solve(). */
static enum attribution_state why_unsolved(const struct attribution *a, int r)
{
	return r <= 0		   ? ATTRIBUTION_MEASURED
	       : a->effort.is_over ? ATTRIBUTION_COSTLY
				   : ATTRIBUTION_CROWDED;
}

/* Solves for even rates. Positions that only profiles tell apart get an infinite inverse too. */
static int solve_evens(struct metric *m)
{
	int r = normal_solve(&m->evens, m->even, m->even_inverse);

	m->even_known = r == 0;
	for (uint32_t i = 0; r == 0 && i < m->evens.unknowns; i++) {
		m->inverse[i] = isinf(m->even_inverse[i]) ? INFINITY : m->inverse[i];
	}
	return r;
}

static int solve_positions(struct pass *p, size_t samples)
{
	struct metric *m = p->metric;
	int r = m->profiles ? normal_grow(&m->evens, m->positions.unknowns) : 0;

	if (r == 0) {
		r = window_sweep(&p->a->window, 0, samples, m->shift_ns, m->profiles, on_positions,
				 p);
	}
	if (r == 0 && m->positions.unknowns > 0) {
		r = normal_solve(&m->positions, m->solution, m->inverse);
		m->unsolved = why_unsolved(p->a, r);
	}
	if (r == 0 && m->evens.unknowns > 0) {
		r = solve_evens(m);
		m->unsolved = r > 0 && p->a->effort.is_over ? ATTRIBUTION_COSTLY : m->unsolved;
	}
	return r < 0 ? r : 0;
}

static int solve_locals(struct pass *p, size_t samples)
{
	struct metric *m = p->metric;
	size_t n = p->a->local_count;
	int r;

	locals_deinit(m);
	m->local_solution = calloc(n + 1, sizeof(double));
	m->local_residual = calloc(n + 1, sizeof(double));
	m->local_inverse = calloc(n + 1, sizeof(double));
	if (!m->local_solution || !m->local_residual || !m->local_inverse) {
		return -ENOMEM;
	}
	m->local_unsolved = ATTRIBUTION_MEASURED;
	normal_clear(&m->locals);
	r = normal_grow(&m->locals, (uint32_t)n);
	if (r == 0 && n > 0) {
		r = window_sweep(&p->a->window, 0, samples, m->shift_ns, m->profiles, on_locals, p);
	}
	if (r == 0) {
		r = normal_solve(&m->locals, m->local_solution, m->local_inverse);
	}
	m->local_unsolved = why_unsolved(p->a, r);
	normal_release(&m->locals);
	return r < 0 ? r : 0;
}

int values_attribute(struct attribution *a, size_t samples)
{
	int r = number_locals(a, samples);

	for (uint32_t i = 0; r == 0 && i < a->options.metrics; i++) {
		struct metric *m = &a->metrics[i];
		struct pass p = { .a = a, .metric = m, .index = i, .last_end_ns = INT64_MIN };

		r = window_sweep(&a->window, 0, samples, m->shift_ns, m->profiles, on_idle, &p);
		m->idle_per_ns = m->idle_ns >= IDLE_LEAST_NS ? m->idle / m->idle_ns : 0;
		a->counts.idle_per_s[i] = m->idle_per_ns * 1e9;
		r = r == 0 ? solve_positions(&p, samples) : r;
		r = r == 0 ? solve_locals(&p, samples) : r;
		r = r == 0 ? window_sweep(&a->window, 0, samples, m->shift_ns, m->profiles,
					  on_divide, &p)
			   : r;
	}
	return r;
}

/* The time at a kernel's ends that profiles do not resolve, in ns. */
static double ramp_of(const struct attribution *a)
{
	double sample = a->shapes.sample_ns;

	return fmax(fmin(RAMP_SHORT * sample, RAMP_NS), RAMP_LONG * sample);
}

/* By how much the rate changes where a kernel begins and where it ends. */
struct steps_beside {
	double begin, end;
	int is_beside; /* another kernel runs directly before or after */
};

static struct steps_beside steps_beside(const struct attribution *a, const struct metric *m,
					size_t kernel)
{
	const struct window *w = &a->window;
	const struct window_kernel *k = &w->kernels[kernel];
	int follows = kernel > 0 && k[-1].k.end_ns + EDGE_GAP_NS > k->k.start_ns;
	int is_followed =
		kernel + 1 < w->kernels_used && k->k.end_ns + EDGE_GAP_NS > k[1].k.start_ns;

	return (struct steps_beside){
		.begin = rate_of(m, k) - (follows ? rate_of(m, k - 1) : 0),
		.end = (is_followed ? rate_of(m, k + 1) : 0) - rate_of(m, k),
		.is_beside = follows || is_followed,
	};
}

/* By how much a kernel's value changes if its beginning and end are as wrong as the residuals of
 * samples with several kernels suggest: this does not average out over steps. A direct neighbour
 * may also have been given what the kernel did at its ends. */
static double edge_of(const struct attribution *a, const struct metric *m, size_t kernel,
		      const struct steps_beside *s)
{
	const struct window_kernel *k = &a->window.kernels[kernel];
	double ns = (double)(k->k.end_ns - k->k.start_ns);
	double off = hypot(s->begin, s->end) *
		     hypot(SHIFT_NS, m->edge_steps > 0 ? sqrt(m->edge_left / m->edge_steps) : 0);

	return s->is_beside ? hypot(off, rate_of(m, k) * fmin(ns, ramp_of(a)) / sqrt(EDGE)) : off;
}

/* What is known of a kernel, or of the kernels of a position. */
struct finding {
	double given, solved;	   /* by division of samples, and by least squares */
	double residual, diagonal; /* of its equations */
	double inverse, edge, ns;
	double steps, shift_part; /* of the rate at both ends; as in struct tally */
	double drift;		  /* variance of the mean, drift_of() */
	double bend;		  /* change of the value by profiles */
	enum attribution_state unsolved;
};

/* Sets value, error and state. A kernel is too short if its error is more than half of its value,
 * and more than a tenth of what kernels move on average in its time. */
static void judge(const struct metric *m, const struct finding *f, struct attribution_value *v)
{
	double misfit = f->given - f->solved;
	double variance = fmax(f->residual / f->diagonal * f->inverse, f->drift);
	double usual = m->moved_ns > 0 ? m->moved / m->moved_ns * f->ns : 0;
	double shift = SHIFT * m->shift_error_ns * f->steps;
	double error = sqrt(variance + MISFIT * misfit * misfit + EDGE * f->edge * f->edge +
			    BEND * f->bend * f->bend + shift * shift);
	double more = SHIFT * m->shift_error_ns * fmax(f->steps, f->shift_part);

	*v = (struct attribution_value){ ATTRIBUTION_MEASURED, f->given,
					 sqrt(error * error + more * more - shift * shift), 0 };
	if (f->unsolved) {
		*v = (struct attribution_value){ .state = f->unsolved };
	} else if (isinf(f->inverse)) {
		*v = (struct attribution_value){ .state = ATTRIBUTION_TOGETHER };
	} else if (!(f->diagonal > 0)) {
		*v = (struct attribution_value){ .state = ATTRIBUTION_TOO_SHORT };
	} else if (!(error <= fmax(f->given / 2, usual / 10))) {
		v->state = ATTRIBUTION_TOO_SHORT;
	}
}

static int is_away(const struct attribution *a, const struct window_kernel *k)
{
	return window_overlaps(&a->window.away, k->k.start_ns - a->shift_most_ns,
			       k->k.end_ns - a->shift_least_ns);
}

static enum attribution_state state_of(const struct attribution *a, size_t kernel)
{
	const struct window *w = &a->window;
	const struct window_kernel *k = &w->kernels[kernel];

	if (a->apart) {
		return ATTRIBUTION_CLOCKS;
	}
	if (k->costly || k->crowded) {
		return k->costly ? ATTRIBUTION_COSTLY : ATTRIBUTION_CROWDED;
	}
	for (uint32_t i = 0; i < w->metrics; i++) {
		if (w->parts[(kernel * w->metrics + i) * 2 + 1] <
		    COVERED_LEAST * (double)(k->k.end_ns - k->k.start_ns)) {
			return is_away(a, k) ? ATTRIBUTION_AWAY : ATTRIBUTION_LOST;
		}
	}
	return ATTRIBUTION_MEASURED;
}

/* Samples of a metric that fit kernels only beyond the limit cannot be divided among kernels. */
static enum attribution_state unsolved_of(const struct metric *m, enum attribution_state unsolved)
{
	return m->apart_ns ? ATTRIBUTION_TOGETHER : unsolved;
}

static void note_given(struct tally *t, const struct window_kernel *k, double given,
		       const struct steps_beside *s, double edge)
{
	double off = given - t->given;

	t->products += off * t->off;
	t->off = off;
	t->given += off / ++t->count;
	t->given_m2 += off * (given - t->given);
	t->ns += (double)(k->k.end_ns - k->k.start_ns);
	t->edge += edge;
	t->begin += s->begin;
	t->end += s->end;
}

void values_tell_state(struct attribution *a, const struct window_kernel *k,
		       enum attribution_state state, const struct attribution_value *values)
{
	int placed = !k->local && (state == ATTRIBUTION_MEASURED || state == ATTRIBUTION_AWAY);
	struct attribution_result result = {
		.id = k->k.id,
		.position = placed ? k->position : ATTRIBUTION_NO_POSITION,
		.state = state,
		.values = values,
	};

	if (a->options.on_kernel) {
		a->options.on_kernel(a->options.user, &result);
	}
}

void values_tell(struct attribution *a, size_t kernel)
{
	struct window *w = &a->window;
	struct window_kernel *k = &w->kernels[kernel];
	struct attribution_value values[ATTRIBUTION_METRICS_MAX];
	enum attribution_state state = state_of(a, kernel);

	for (uint32_t i = 0; state == ATTRIBUTION_MEASURED && i < w->metrics; i++) {
		struct metric *m = &a->metrics[i];
		struct steps_beside s = steps_beside(a, m, kernel);
		double given = w->parts[(kernel * w->metrics + i) * 2];

		if (k->local) {
			double diagonal = m->locals.diagonal[k->unknown];
			double ns = (double)(k->k.end_ns - k->k.start_ns);
			struct finding f = {
				.given = given,
				.solved = m->local_solution[k->unknown],
				/* Few samples of a kernel make its residual too small. */
				.residual =
					m->local_residual[k->unknown] * (1 + FREEDOM * diagonal),
				.diagonal = diagonal,
				.inverse = m->local_inverse[k->unknown],
				.edge = edge_of(a, m, kernel, &s),
				.ns = ns,
				.steps = hypot(s.begin, s.end),
				.unsolved = unsolved_of(m, m->local_unsolved),
			};

			judge(m, &f, &values[i]);
			continue;
		}
		note_given(&m->tallies[k->position], k, given, &s, edge_of(a, m, kernel, &s));
	}
	values_tell_state(a, k, state, state == ATTRIBUTION_MEASURED && k->local ? values : NULL);
}

static int compare_shapes(const void *x, const void *y, void *user)
{
	const struct attribution *a = user;
	uint32_t p = a->placed[*(const uint32_t *)x].shape;
	uint32_t q = a->placed[*(const uint32_t *)y].shape;

	return p < q ? -1 : p > q;
}

/* Sets shift_part of the positions order[0] to order[n - 1], which are all of one shape. */
static void share_shift(struct tally *tallies, const uint32_t *order, uint32_t n)
{
	double begin = 0, end = 0, squares = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct tally *t = &tallies[order[i]];

		begin += t->begin;
		end += t->end;
		squares += t->count * t->count;
	}
	for (uint32_t i = 0; i < n && squares > 0; i++) {
		tallies[order[i]].shift_part = hypot(begin, end) / sqrt(squares);
	}
}

int values_share_shift(struct attribution *a)
{
	uint32_t n = a->counts.positions, *order = malloc(((size_t)n + 1) * sizeof(*order));

	if (!order) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < n; i++) {
		order[i] = i;
	}
	qsort_r(order, n, sizeof(*order), compare_shapes, a);
	for (uint32_t from = 0, to; from < n; from = to) {
		for (to = from + 1; to < n && compare_shapes(&order[from], &order[to], a) == 0;) {
			to++;
		}
		for (uint32_t i = 0; i < a->options.metrics; i++) {
			share_shift(a->metrics[i].tallies, order + from, to - from);
		}
	}
	free(order);
	return 0;
}

/* The standard deviation of the values of a position's kernels. The residual of a sample may belong
 * to any of its kernels: t->shared, the variance from that, is subtracted. */
static double spread_of(const struct tally *t)
{
	double variance = t->count > 1 ? t->given_m2 / (t->count - 1) - t->shared / t->count : 0;

	return variance > 0 ? sqrt(variance) : 0;
}

/* The variance of the mean of what a position's kernels were given, where each kernel repeats a
 * part of the deviation of the one before it (autoregression of the first order). */
static double drift_of(const struct tally *t)
{
	double kept = t->given_m2 > 0 ? fmax(0, fmin(t->products / t->given_m2, KEPT_MOST)) : 0;

	return t->count > 1 ? t->given_m2 / (t->count - 1) / t->count * (1 + kept) / (1 - kept) : 0;
}

uint64_t attribution_position(const struct attribution *a, uint32_t position,
			      struct attribution_value *values)
{
	for (uint32_t i = 0; i < a->options.metrics; i++) {
		const struct metric *m = &a->metrics[i];
		const struct tally *t = position < a->room ? &m->tallies[position] : NULL;

		values[i] = (struct attribution_value){ .state = ATTRIBUTION_LOST };
		if (t && t->count > 0) {
			struct finding f = {
				.given = t->given,
				.solved = m->solution[position],
				.residual = t->residual,
				.diagonal = m->positions.diagonal[position],
				.inverse = m->inverse[position],
				.edge = t->edge / t->count,
				.ns = t->ns / t->count,
				.steps = hypot(t->begin, t->end) / t->count,
				.shift_part = t->shift_part,
				.drift = drift_of(t),
				.bend = m->even_known ? m->even[position] - m->solution[position]
						      : 0,
				.unsolved = unsolved_of(m, m->unsolved),
			};

			judge(m, &f, &values[i]);
			values[i].spread = spread_of(t);
		}
	}
	return position < a->room ? (uint64_t)a->metrics[0].tallies[position].count : 0;
}
