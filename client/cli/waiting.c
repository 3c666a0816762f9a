/* SPDX-License-Identifier: Apache-2.0 */

/* A kernel's record comes when it has ended, up to some seconds late, and a sample within a tenth
 * of a second. Attribution wants both in the order of time, and forgets samples in its turn.
 *
 * What waits is bounded, whatever times a sampler or an agent tells: beyond the most, some of it is
 * given sooner, and kernels that then come too late have no value. Nor have those that ran beside
 * them: they were given what the late ones did. */

#include "client/cli/waiting.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/array.h"

enum {
	SAMPLES_BYTES = 256 << 20,
	KERNELS_MOST = 1 << 20,
	LATE_MOST = 1024,
	LATE_APART_NS = 10000000,
};

int waiting_init(struct waiting *w, const struct attribution_options *options,
		 const struct waiting_handler *handler)
{
	*w = (struct waiting){ .attribution = attribution_new(options),
			       .n_metrics = options->metrics,
			       .handler = handler,
			       .user = options->user };
	return w->attribution ? 0 : -ENOMEM;
}

void waiting_deinit(struct waiting *w)
{
	attribution_free(w->attribution);
	free(w->kernels);
	free(w->samples);
	free(w->values);
	free(w->late);
}

int64_t waiting_first_sample(const struct waiting *w)
{
	return w->n_samples > 0 ? w->samples[0].start_ns : 0;
}

int64_t waiting_last_sample(const struct waiting *w)
{
	return w->n_samples > 0 ? w->samples[w->n_samples - 1].end_ns : 0;
}

bool waiting_is_full(const struct waiting *w)
{
	size_t one = sizeof(*w->samples) + w->n_metrics * sizeof(*w->values);

	return w->n_samples >= SAMPLES_BYTES / one * (w->scale ? w->scale : 1);
}

int64_t waiting_middle_sample(const struct waiting *w)
{
	return w->n_samples > 0 ? w->samples[w->n_samples / 2].end_ns : 0;
}

int waiting_lost(struct waiting *w, int64_t start_ns, int64_t end_ns)
{
	return start_ns < end_ns ? attribution_lost(w->attribution, start_ns, end_ns) : 0;
}

int waiting_away(struct waiting *w, int64_t start_ns, int64_t end_ns)
{
	return start_ns < end_ns ? attribution_away(w->attribution, start_ns, end_ns) : 0;
}

/* --- late ------------------------------------------------------------------------------------ */

bool waiting_is_beside_late(const struct waiting *w, int64_t start_ns, int64_t end_ns)
{
	for (size_t i = 0; i < w->n_late; i++) {
		if (start_ns < w->late[i].end_ns && end_ns > w->late[i].start_ns) {
			return true;
		}
	}
	return false;
}

/* Late ones come in their order, so most of them make the last span longer; beyond the most all do.
 */
static int note_late(struct waiting *w, const struct attribution_kernel *k)
{
	struct waiting_span *last = w->n_late > 0 ? &w->late[w->n_late - 1] : NULL;

	w->handler->on_late(w->user, k->id);
	if (last && (w->n_late == LATE_MOST || (k->start_ns >= last->start_ns &&
						k->start_ns <= last->end_ns + LATE_APART_NS))) {
		last->start_ns = k->start_ns < last->start_ns ? k->start_ns : last->start_ns;
		last->end_ns = k->end_ns > last->end_ns ? k->end_ns : last->end_ns;
	} else if (array_make_room(&w->late, sizeof(*w->late), w->n_late, &w->max_late)) {
		w->late[w->n_late++] = (struct waiting_span){ k->start_ns, k->end_ns };
	} else {
		return -ENOMEM;
	}
	return waiting_lost(w, k->start_ns, k->end_ns);
}

/* --- giving ---------------------------------------------------------------------------------- */

/* Values depend on the order, so the order does not depend on which record came first. */
static int compare_starts(const void *a, const void *b)
{
	const struct attribution_kernel *x = a, *y = b;

#define ORDER(member)                                  \
	if (x->member != y->member) {                  \
		return x->member < y->member ? -1 : 1; \
	}
	ORDER(start_ns)
	ORDER(end_ns)
	ORDER(sequence)
	ORDER(shape)
#undef ORDER
	return 0;
}

static void sort_kernels(struct waiting *w)
{
	size_t i = 1;

	while (i < w->n_kernels && compare_starts(&w->kernels[i - 1], &w->kernels[i]) <= 0) {
		i++;
	}
	if (i < w->n_kernels) {
		qsort(w->kernels, w->n_kernels, sizeof(*w->kernels), compare_starts);
	}
}

static int give_kernel(struct waiting *w, const struct attribution_kernel *kernel)
{
	const struct attribution_counts *c = attribution_counts(w->attribution);
	uint64_t late = c->late_kernels;
	int r = attribution_kernel(w->attribution, kernel);

	return r == 0 && c->late_kernels > late ? note_late(w, kernel) : r;
}

static void remove_kernels(struct waiting *w, size_t n)
{
	w->n_kernels -= n;
	if (n > 0 && w->n_kernels > 0) {
		memmove(w->kernels, w->kernels + n, w->n_kernels * sizeof(*w->kernels));
	}
}

static void remove_samples(struct waiting *w, size_t n)
{
	size_t one = w->n_metrics;

	w->n_samples -= n;
	if (n > 0 && w->n_samples > 0) {
		memmove(w->samples, w->samples + n, w->n_samples * sizeof(*w->samples));
		memmove(w->values, w->values + n * one, w->n_samples * one * sizeof(*w->values));
	}
}

/* Attributes the first n kernels, whether their samples have come or not. */
static int give_kernels(struct waiting *w, size_t n)
{
	int r = 0;

	sort_kernels(w);
	for (size_t i = 0; r == 0 && i < n; i++) {
		r = give_kernel(w, &w->kernels[i]);
	}
	remove_kernels(w, n);
	return r;
}

static int give_sample(struct waiting *w, size_t i)
{
	const struct waiting_span *s = &w->samples[i];
	const double *values = w->values + i * w->n_metrics;

	w->handler->on_sample(w->user, s->start_ns, s->end_ns, values);
	return attribution_sample(w->attribution, s->start_ns, s->end_ns, values);
}

/* Samples that end by this time, and kernels that begin before they end. */
static int give(struct waiting *w, int64_t until_ns)
{
	size_t k = 0, i = 0;
	int r = 0;

	sort_kernels(w);
	for (; r == 0 && i < w->n_samples && w->samples[i].end_ns <= until_ns; i++) {
		for (; r == 0 && k < w->n_kernels && w->kernels[k].start_ns < w->samples[i].end_ns;
		     k++) {
			r = give_kernel(w, &w->kernels[k]);
		}
		r = r ? r : give_sample(w, i);
	}
	remove_kernels(w, k);
	remove_samples(w, i);
	return r;
}

/* Launches are on their way, and nothing has come for long: their program is stopped, or held up.
 * Which samples are of these launches will not be known in time. */
static int note_held_up(struct waiting *w, int64_t until_ns)
{
	return w->last_ns != 0 ? waiting_lost(w, w->last_ns, until_ns) : 0;
}

int waiting_advance(struct waiting *w, int64_t until_ns, bool held_up)
{
	int r = held_up ? note_held_up(w, until_ns) : 0;

	return r ? r : give(w, until_ns);
}

int waiting_finish(struct waiting *w)
{
	int r = give(w, INT64_MAX);

	r = r ? r : give_kernels(w, w->n_kernels); /* behind the last sample */
	return r ? r : attribution_finish(w->attribution);
}

/* --- what comes ------------------------------------------------------------------------------ */

int waiting_kernel(struct waiting *w, const struct attribution_kernel *kernel)
{
	size_t most = KERNELS_MOST * (w->scale ? w->scale : 1);
	int r = w->n_kernels >= most ? give_kernels(w, most / 2) : 0;

	if (r == 0 &&
	    !array_make_room(&w->kernels, sizeof(*w->kernels), w->n_kernels, &w->max_kernels)) {
		r = -ENOMEM;
	}
	if (r == 0) {
		w->last_ns = kernel->end_ns > w->last_ns ? kernel->end_ns : w->last_ns;
		w->kernels[w->n_kernels++] = *kernel;
	}
	return r;
}

static int make_room(struct waiting *w)
{
	size_t had = w->max_samples;
	double *more;

	if (!array_make_room(&w->samples, sizeof(*w->samples), w->n_samples, &w->max_samples)) {
		return -ENOMEM;
	}
	more = w->max_samples == had
		       ? w->values
		       : realloc(w->values, w->max_samples * w->n_metrics * sizeof(*more));
	if (!more) {
		w->max_samples = had;
		return -ENOMEM;
	}
	w->values = more;
	return 0;
}

void waiting_discard(struct waiting *w, int64_t since_ns)
{
	w->until_ns = w->until_ns != 0 && w->until_ns < since_ns ? w->until_ns : since_ns;
	while (w->n_samples > 0 && w->samples[w->n_samples - 1].end_ns > w->until_ns) {
		w->n_samples--;
	}
}

int waiting_sample(struct waiting *w, int64_t start_ns, int64_t end_ns, const double *values)
{
	size_t one = w->n_metrics * sizeof(*values);
	int r = 0;

	if (w->until_ns != 0 && end_ns > w->until_ns) {
		return 0;
	}
	if (waiting_is_full(w)) {
		r = give(w, waiting_middle_sample(w));
	}
	r = r ? r : make_room(w);
	if (r == 0) {
		w->samples[w->n_samples] = (struct waiting_span){ start_ns, end_ns };
		memcpy(w->values + w->n_samples * w->n_metrics, values, one);
		w->n_samples++;
	}
	return r;
}
