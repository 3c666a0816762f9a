/* SPDX-License-Identifier: Apache-2.0 */

/* Samples that the attribution has got are told. Those of several sets in the order of time, once
 * all sets were given theirs up to some time. */

#include "client/cli/sampled_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/array.h"

/* Metrics of other sets are NAN. */
static void hear(const struct sampled_part *part, const struct waiting_span *span,
		 const double *values)
{
	const struct sampled *s = part->gpu->owner;
	const struct sampled_set *set = &s->sets[part->set];
	double all[SAMPLER_METRICS_MAX];

	for (size_t i = 0; i < SAMPLER_METRICS_MAX; i++) {
		all[i] = NAN;
	}
	for (size_t i = 0; i < set->n; i++) {
		all[set->metrics[i]] = values[i];
	}
	s->on_sample(s->on_sample_user, (int)(part->gpu - s->gpus), span->start_ns, span->end_ns,
		     all);
}

/* False: out of memory. */
static bool keep(struct sampled_given *g, const struct waiting_span *span, const double *values,
		 size_t n)
{
	if (!array_make_room(&g->spans, sizeof(*g->spans), g->n, &g->max_spans) ||
	    !array_make_room(&g->values, n * sizeof(*g->values), g->n, &g->max_values)) {
		return false;
	}
	g->spans[g->n] = *span;
	memcpy(g->values + g->n * n, values, n * sizeof(*values));
	g->n++;
	return true;
}

void sampled_given(void *user, int64_t start_ns, int64_t end_ns, const double *values)
{
	struct sampled_part *part = user;
	struct sampled *s = part->gpu->owner;
	const struct waiting_span span = { start_ns, end_ns };

	if (!s->on_sample) {
		return;
	}
	if (s->n_sets == 1) {
		hear(part, &span, values);
	} else {
		s->failed |= !keep(&part->given, &span, values, s->sets[part->set].n);
	}
}

/* The set whose next sample begins first; NULL: all are told. */
static const struct sampled_part *find_next(const struct sampled_gpu *gpu, const size_t *told)
{
	const struct sampled_part *next = NULL;
	int64_t next_ns = INT64_MAX;

	for (size_t i = 0; i < gpu->owner->n_sets; i++) {
		const struct sampled_given *g = &gpu->parts[i].given;

		if (told[i] < g->n && (!next || g->spans[told[i]].start_ns < next_ns)) {
			next = &gpu->parts[i];
			next_ns = g->spans[told[i]].start_ns;
		}
	}
	return next;
}

void sampled_tell_given(struct sampled_gpu *gpu)
{
	const struct sampled *s = gpu->owner;
	const struct sampled_part *next;
	size_t told[SAMPLER_SETS_MAX] = { 0 };

	while ((next = find_next(gpu, told))) {
		size_t i = told[next->set]++;

		hear(next, &next->given.spans[i], next->given.values + i * s->sets[next->set].n);
	}
	for (size_t i = 0; i < s->n_sets; i++) {
		gpu->parts[i].given.n = 0;
	}
}

void sampled_given_deinit(struct sampled_given *given)
{
	free(given->spans);
	free(given->values);
}
