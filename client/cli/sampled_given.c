/* SPDX-License-Identifier: Apache-2.0 */

/* Samples that the attribution has got are told. Those of several sets in the order of time, once
 * all sets were given theirs. */

#include "client/cli/sampled_internal.h"

#include <math.h>
#include <stdlib.h>

#include "proto/base/array.h"

static void hear(const struct sampled_gpu *gpu, const struct sampled_given *given)
{
	const struct sampled *s = gpu->owner;

	s->on_sample(s->on_sample_user, (int)(gpu - s->gpus), given->start_ns, given->end_ns,
		     given->values);
}

void sampled_given(void *user, int64_t start_ns, int64_t end_ns, const double *values)
{
	const struct sampled_part *part = user;
	struct sampled_gpu *gpu = (struct sampled_gpu *)(uintptr_t)part->gpu;
	struct sampled *s = gpu->owner;
	const struct sampled_set *set = &s->sets[part->set];
	struct sampled_given given = { .start_ns = start_ns, .end_ns = end_ns };

	if (!s->on_sample) {
		return;
	}
	for (size_t i = 0; i < SAMPLER_METRICS_MAX; i++) {
		given.values[i] = NAN;
	}
	for (size_t i = 0; i < set->n; i++) {
		given.values[set->metrics[i]] = values[i];
	}
	if (s->n_sets == 1) {
		hear(gpu, &given);
	} else if (array_make_room(&gpu->given, sizeof(*gpu->given), gpu->n_given,
				   &gpu->max_given)) {
		gpu->given[gpu->n_given++] = given;
	} else {
		s->failed = true;
	}
}

static int compare_given(const void *a, const void *b)
{
	const struct sampled_given *x = a, *y = b;

	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

void sampled_tell_given(struct sampled_gpu *gpu)
{
	if (gpu->n_given > 1) {
		qsort(gpu->given, gpu->n_given, sizeof(*gpu->given), compare_given);
	}
	for (size_t i = 0; i < gpu->n_given; i++) {
		hear(gpu, &gpu->given[i]);
	}
	gpu->n_given = 0;
}
