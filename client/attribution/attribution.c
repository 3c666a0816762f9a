/* SPDX-License-Identifier: Apache-2.0 */

/* Kernels and samples wait in a window. When it is full, or at the end, its complete samples are
 * attributed: kernels get their positions (nodes.c, steps.c), the clocks' shift is estimated once
 * (shift.c), samples become equations (window.c), which are solved (normal.c), and each sample is
 * divided among its kernels in proportion to what the solution expects of each (values.c). A window
 * leaves behind a matrix with the equations of positions, and sums of what their kernels were
 * given, so memory does not grow with time. */

#include "client/attribution/attribution.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/attribution/internal.h"

#define WINDOW_SAMPLES ((size_t)1 << 20)
#define WINDOW_KERNELS ((size_t)1 << 18)
#define SHIFT_MOST_NS 20000
/* Lost and away times are kept for so many ns, for kernels that ran then and end later. */
#define LONG_NS 100000000
/* Bounds of times, so that no difference overflows: 146 years around 1970. */
#define TIME_MOST (INT64_MAX / 2)
#define POSITIONS_MOST 65536
/* Kernels that a position needs before they share one unknown; until then each has its own. */
#define OCCURRENCES_LEAST 3

struct attribution *attribution_new(const struct attribution_options *options)
{
	struct attribution *a = calloc(1, sizeof(*a));

	if (!a || options->metrics == 0 || options->metrics > ATTRIBUTION_METRICS_MAX) {
		free(a);
		return NULL;
	}
	a->options = *options;
	if (a->options.shift_most_ns <= 0) {
		a->options.shift_most_ns = SHIFT_MOST_NS;
	}
	if (a->options.window_samples == 0) {
		a->options.window_samples = WINDOW_SAMPLES;
	}
	a->window.metrics = options->metrics;
	a->done_ns = a->last_kernel_ns = a->last_sample_ns = INT64_MIN;
	for (uint32_t i = 0; i < options->metrics; i++) {
		a->metrics[i].shift_ns = SHIFT_USUAL_NS;
	}
	a->effort.on_pause = options->on_pause;
	a->effort.user = options->user;
	a->window.effort = &a->effort;
	a->steps = steps_new(POSITIONS_MOST, &a->effort);
	a->nodes = nodes_new();
	return a->steps && a->nodes ? a : attribution_free(a);
}

struct attribution *attribution_free(struct attribution *a)
{
	if (!a) {
		return NULL;
	}
	steps_free(a->steps);
	nodes_free(a->nodes);
	window_deinit(&a->window);
	values_deinit(a);
	free(a);
	return NULL;
}

const struct attribution_counts *attribution_counts(const struct attribution *a)
{
	return &a->counts;
}

static int compare_sequences(const void *a, const void *b, void *user)
{
	const struct window *w = user;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	if (w->kernels[x].k.sequence != w->kernels[y].k.sequence) {
		return w->kernels[x].k.sequence < w->kernels[y].k.sequence ? -1 : 1;
	}
	return x < y ? -1 : x > y;
}

struct placing {
	uint32_t *order, *shapes, *positions;
	unsigned char *marks;
};

/* Gives positions to the kernels order[from] to order[to - 1], which are one sequence. */
static int place_sequence(struct attribution *a, struct placing *p, size_t from, size_t to, int end)
{
	struct window_kernel *kernels = a->window.kernels;
	unsigned char *marks = NULL;
	size_t done;
	int r;

	for (size_t i = from; i < to; i++) {
		const struct attribution_kernel *k = &kernels[p->order[i]].k;

		p->shapes[i] = k->shape;
		p->marks[i] = i > from && k->step != kernels[p->order[i - 1]].k.step;
		marks = p->marks[i] ? p->marks + from : marks;
	}
	r = steps_place(a->steps, kernels[p->order[from]].k.sequence, p->shapes + from, marks,
			to - from, end, p->positions + from, &done);
	for (size_t i = from; r == 0 && i < from + done; i++) {
		kernels[p->order[i]].position = p->positions[i];
		kernels[p->order[i]].placed = 1;
	}
	return r;
}

/* Gives positions to kernels of graphs' nodes. All present kernels are counted first, so that the
 * first ones of a node get its position too. */
static int place_known(struct attribution *a)
{
	struct window *w = &a->window;
	int r = 0;

	for (size_t i = 0; r == 0 && i < w->kernels_used; i++) {
		struct window_kernel *k = &w->kernels[i];

		if (k->k.place != 0 && !k->seen) {
			r = nodes_see(a->nodes, k->k.place);
			k->seen = 1;
		}
	}
	for (size_t i = 0; r == 0 && i < w->kernels_used; i++) {
		struct window_kernel *k = &w->kernels[i];

		if (k->k.place != 0 && !k->placed) {
			k->position = nodes_position(a->nodes, k->k.place, a->steps);
			k->placed = k->position != STEPS_NONE;
		}
	}
	return r;
}

/* Gives positions to kernels that have none yet. Lowers *until_ns to the start of the first kernel
 * that is not settled. */
static int place(struct attribution *a, int end, int64_t *until_ns)
{
	struct window *w = &a->window;
	size_t n = 0, from = 0;
	struct placing p = {
		malloc((w->kernels_used + 1) * sizeof(uint32_t)),
		malloc((w->kernels_used + 1) * sizeof(uint32_t)),
		malloc((w->kernels_used + 1) * sizeof(uint32_t)),
		malloc(w->kernels_used + 1),
	};
	int r = p.order && p.shapes && p.positions && p.marks ? place_known(a) : -ENOMEM;

	for (size_t i = 0; r == 0 && i < w->kernels_used; i++) {
		if (!w->kernels[i].placed) {
			p.order[n++] = (uint32_t)i;
		}
	}
	if (r == 0) {
		qsort_r(p.order, n, sizeof(*p.order), compare_sequences, w);
	}
	for (size_t i = 1; r == 0 && i <= n; i++) {
		if (i == n ||
		    w->kernels[p.order[i]].k.sequence != w->kernels[p.order[from]].k.sequence) {
			r = place_sequence(a, &p, from, i, end);
			from = i;
		}
	}
	for (size_t i = 0; r == 0 && i < w->kernels_used; i++) {
		if (!w->kernels[i].placed) {
			*until_ns = w->kernels[i].k.start_ns < *until_ns ? w->kernels[i].k.start_ns
									 : *until_ns;
			break;
		}
	}
	free(p.order);
	free(p.shapes);
	free(p.positions);
	free(p.marks);
	return r;
}

/* Gives kernels an unknown of their own (local) if they have no position, or one that is rare. */
static int decide_locals(struct attribution *a)
{
	struct window *w = &a->window;
	int r = values_grow(a, steps_positions(a->steps));

	for (size_t i = 0; r == 0 && i < w->kernels_used; i++) {
		struct window_kernel *k = &w->kernels[i];

		if (k->placed == 1 && k->position != STEPS_NONE) {
			a->placed[k->position].kernels++;
			a->placed[k->position].shape = k->k.shape;
		}
	}
	for (size_t i = 0; r == 0 && i < w->kernels_used; i++) {
		struct window_kernel *k = &w->kernels[i];

		if (k->placed != 2) {
			k->local = !k->placed || k->position == STEPS_NONE ||
				   a->placed[k->position].kernels < OCCURRENCES_LEAST;
		}
		k->placed = k->placed ? 2 : 0;
	}
	return r;
}

/* The number of complete samples: no kernel that starts at until_ns or later ran in them. */
static size_t find_complete(const struct attribution *a, int64_t until_ns)
{
	const struct window *w = &a->window;
	size_t to = w->samples_used;

	while (to > 0 && w->samples[to - 1].end_ns + a->shift_most_ns > until_ns) {
		to--;
	}
	return to;
}

/* Reports kernels that have ended, and forgets them and their samples. */
static void forget(struct attribution *a, size_t samples, int end)
{
	struct window *w = &a->window;
	size_t kept = 0;

	if (samples > 0) {
		a->done_ns = w->samples[samples - 1].end_ns;
	}
	for (size_t i = 0; i < w->kernels_used; i++) {
		struct window_kernel *k = &w->kernels[i];

		if (end || (k->placed && a->done_ns != INT64_MIN &&
			    k->k.end_ns <= a->done_ns + a->shift_least_ns)) {
			values_tell(a, i);
			continue;
		}
		if (kept < i) {
			w->kernels[kept] = *k;
			memcpy(w->parts + kept * 2 * w->metrics, w->parts + i * 2 * w->metrics,
			       2 * w->metrics * sizeof(double));
		}
		kept++;
	}
	w->kernels_used = kept;
	w->samples_used -= samples;
	if (samples > 0) {
		memmove(w->samples, w->samples + samples, w->samples_used * sizeof(*w->samples));
		memmove(w->values, w->values + samples * w->metrics,
			w->samples_used * w->metrics * sizeof(double));
	}
	if (a->done_ns != INT64_MIN) {
		window_forget_times(w, a->done_ns - LONG_NS);
	}
}

/* The clocks are too far apart only if no metric fits within the limit: data that kernels write may
 * leave the L2 cache later than that, behind kernels of a microsecond. */
static int estimate_shifts(struct attribution *a)
{
	int64_t apart_ns = 0;
	uint32_t known = 0;
	int r = 0;

	for (uint32_t i = 0; r >= 0 && i < a->options.metrics; i++) {
		struct metric *m = &a->metrics[i];
		struct shift shift;

		if (!m->shift_known && !m->shift_settled && !a->apart) {
			r = shift_estimate(&a->window, steps_positions(a->steps), i,
					   a->options.shift_most_ns, &shift);
			m->shift_known = shift.known;
			m->shift_error_ns = shift.known ? shift.error_ns : SHIFT_USUAL_ERROR_NS;
			m->shift_settled = shift.settled;
			m->shift_ns = shift.known ? shift.ns : m->shift_ns;
			m->apart_ns = shift.apart ? shift.ns : 0;
		}
		apart_ns = apart_ns ? apart_ns : m->apart_ns;
		known += m->shift_known != 0;
	}
	a->apart = apart_ns != 0 && known == 0;
	a->counts.apart_ns = a->apart ? apart_ns : 0;
	a->counts.shift_known = known == a->options.metrics;
	return r;
}

static void note_shifts(struct attribution *a)
{
	int64_t least = INT64_MAX, most = INT64_MIN;

	for (uint32_t i = 0; i < a->options.metrics; i++) {
		int64_t ns = a->metrics[i].shift_ns;

		least = ns < least ? ns : least;
		most = ns > most ? ns : most;
		a->counts.shift_ns[i] = ns;
	}
	a->shift_least_ns = least;
	a->shift_most_ns = most;
}

static void number_shapes(struct attribution *a)
{
	struct window *w = &a->window;

	for (size_t i = 0; a->shapes.n > 0 && i < w->kernels_used; i++) {
		w->kernels[i].profile = profile_number(&a->shapes, w->kernels[i].k.shape);
	}
}

/* Fits profiles once, to the first window that has positions, because all equations of a position
 * have to use the same profile. Shapes that come later have none. */
static int fit_profiles(struct attribution *a)
{
	struct window *w = &a->window;
	uint32_t positions = steps_positions(a->steps);
	int r = 0;

	if (a->profiles_known || a->apart || positions == 0 || w->samples_used == 0) {
		number_shapes(a);
		return 0;
	}
	a->profiles_known = 1;
	r = profile_choose(&a->shapes, w);
	number_shapes(a);
	for (uint32_t i = 0; r == 0 && i < a->options.metrics; i++) {
		struct metric *m = &a->metrics[i];

		r = profile_fit(&a->shapes, w, positions, i, &m->shift_ns, &m->profiles);
	}
	return r;
}

/* The calculation exceeds the effort: marks the kernels of these samples as costly. */
static void give_up(struct attribution *a, size_t samples)
{
	struct window *w = &a->window;
	int64_t until_ns =
		samples > 0 ? w->samples[samples - 1].end_ns + a->shift_most_ns : INT64_MIN;

	for (size_t i = 0; i < w->kernels_used; i++) {
		w->kernels[i].costly |=
			samples == w->samples_used || w->kernels[i].k.start_ns < until_ns;
	}
}

/* force: attributes all steps and samples, even if more kernels may belong to them. */
static int attribute(struct attribution *a, int force, int end)
{
	int64_t until_ns = INT64_MAX;
	size_t samples;
	int r;

	effort_renew(&a->effort);
	r = place(a, end || force, &until_ns);
	if (r == 0) {
		r = decide_locals(a);
	}
	if (r == 0) {
		r = estimate_shifts(a);
	}
	if (r >= 0) {
		r = fit_profiles(a);
		note_shifts(a);
	}
	if (r < 0) {
		return r;
	}
	/* All kernels that began before the end of the last sample have come. */
	if (!end && !force && a->last_sample_ns < until_ns) {
		until_ns = a->last_sample_ns;
	}
	samples = find_complete(a, until_ns);
	r = samples > 0 ? values_attribute(a, samples) : 0;
	if (r > 0 || a->effort.is_over) {
		give_up(a, samples);
	}
	if (r >= 0) {
		forget(a, samples, end);
	}
	return r < 0 ? r : 0;
}

/* Gives up the oldest kernels, for which no samples have come: neither they nor kernels that ran
 * beside them can get a value. */
static int drop_kernels(struct attribution *a, size_t n)
{
	struct window *w = &a->window;
	int64_t end_ns = INT64_MIN;
	size_t parts = 2 * w->metrics;
	int r;

	for (size_t i = 0; i < n; i++) {
		end_ns = w->kernels[i].k.end_ns > end_ns ? w->kernels[i].k.end_ns : end_ns;
		values_tell_state(a, &w->kernels[i], ATTRIBUTION_LOST, NULL);
	}
	r = window_add_lost(w, w->kernels[0].k.start_ns, end_ns);
	w->kernels_used -= n;
	memmove(w->kernels, w->kernels + n, w->kernels_used * sizeof(*w->kernels));
	memmove(w->parts, w->parts + n * parts, w->kernels_used * parts * sizeof(double));
	return r;
}

/* If the window is full, attributes its complete samples, and at twice its size also the others. */
static int attribute_full(struct attribution *a)
{
	const struct window *w = &a->window;
	size_t samples = a->options.window_samples, kernels = WINDOW_KERNELS;
	int r;

	if (w->samples_used < a->next_samples && w->kernels_used < a->next_kernels) {
		return 0;
	}
	r = attribute(a, w->samples_used >= 2 * samples || w->kernels_used >= 2 * kernels, 0);
	if (r == 0 && w->kernels_used >= 2 * kernels) {
		r = drop_kernels(a, w->kernels_used - kernels);
	}
	a->next_samples =
		w->samples_used + samples / 4 > samples ? w->samples_used + samples / 4 : samples;
	a->next_kernels =
		w->kernels_used + kernels / 4 > kernels ? w->kernels_used + kernels / 4 : kernels;
	return r;
}

static int time_is_good(int64_t start_ns, int64_t end_ns)
{
	return start_ns > -TIME_MOST / 2 && end_ns < TIME_MOST / 2 && start_ns <= end_ns;
}

int attribution_kernel(struct attribution *a, const struct attribution_kernel *kernel)
{
	struct attribution_kernel k = *kernel;
	struct window_kernel told = { .k = k, .local = 1 };
	int r;

	int64_t after_ns = a->last_kernel_ns;

	effort_earn(&a->effort, a->options.metrics);
	if (!time_is_good(k.start_ns, k.end_ns)) {
		a->counts.bad_kernels++;
		values_tell_state(a, &told, ATTRIBUTION_LOST, NULL);
		return 0;
	}
	k.end_ns += k.end_ns == k.start_ns;
	if (k.start_ns < after_ns ||
	    (a->done_ns != INT64_MIN && k.start_ns < a->done_ns + a->shift_most_ns)) {
		a->counts.late_kernels++;
		values_tell_state(a, &told, ATTRIBUTION_LOST, NULL);
		return 0;
	}
	a->last_kernel_ns = k.start_ns;
	r = window_add_kernel(&a->window, &k);
	return r == 0 ? attribute_full(a) : r;
}

int attribution_sample(struct attribution *a, int64_t start_ns, int64_t end_ns,
		       const double *values)
{
	int good = time_is_good(start_ns, end_ns) && start_ns < end_ns, r;

	a->counts.samples++;
	effort_earn(&a->effort, a->options.metrics);
	for (uint32_t m = 0; m < a->options.metrics; m++) {
		good = good && values[m] >= 0 && values[m] < 1e30;
	}
	if (!good) {
		a->counts.bad_samples++;
		return 0;
	}
	if (start_ns < a->last_sample_ns) {
		a->counts.late_samples++;
		return 0;
	}
	a->last_sample_ns = end_ns;
	r = window_add_sample(&a->window, start_ns, end_ns, values);
	return r == 0 ? attribute_full(a) : r;
}

int attribution_lost(struct attribution *a, int64_t start_ns, int64_t end_ns)
{
	return time_is_good(start_ns, end_ns) ? window_add_lost(&a->window, start_ns, end_ns) : 0;
}

int attribution_away(struct attribution *a, int64_t start_ns, int64_t end_ns)
{
	return time_is_good(start_ns, end_ns) ? window_add_away(&a->window, start_ns, end_ns) : 0;
}

int attribution_finish(struct attribution *a)
{
	int r = attribute(a, 1, 1);

	return r == 0 ? values_share_shift(a) : r;
}
