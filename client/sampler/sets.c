/* SPDX-License-Identifier: Apache-2.0 */
#include "client/sampler/sets.h"

#include <math.h>
#include <string.h>

void sampler_sets_init(struct sampler_sets *s, size_t n_metrics)
{
	*s = (struct sampler_sets){ .n_metrics = n_metrics, .n = n_metrics };
	for (size_t i = 0; i < n_metrics && i < SAMPLER_METRICS_MAX; i++) {
		s->of[i] = (uint8_t)i;
	}
	if (n_metrics > SAMPLER_METRICS_MAX) {
		*s = (struct sampler_sets){ .n = 1 };
	}
}

static void join(struct sampler_sets *s, uint8_t a, uint8_t b)
{
	for (size_t i = 0; i < s->n_metrics; i++) {
		s->of[i] = s->of[i] == b ? a : s->of[i];
	}
	s->n--;
}

void sampler_sets_add(struct sampler_sets *s, const double *values)
{
	size_t first = s->n_metrics;

	for (size_t i = 0; s->n > 1 && i < s->n_metrics; i++) {
		if (isnan(values[i])) {
			continue;
		}
		first = first == s->n_metrics ? i : first;
		if (s->of[first] != s->of[i]) {
			join(s, s->of[first], s->of[i]);
		}
	}
}

void sampler_sets_finish(struct sampler_sets *s)
{
	uint8_t numbers[SAMPLER_METRICS_MAX];
	size_t n = 0;

	memset(numbers, UINT8_MAX, sizeof(numbers));
	if (s->n > SAMPLER_SETS_MAX) {
		memset(s->of, 0, sizeof(s->of));
	}
	for (size_t i = 0; i < s->n_metrics; i++) {
		uint8_t *number = &numbers[s->of[i]];

		*number = *number == UINT8_MAX ? (uint8_t)n++ : *number;
		s->of[i] = *number;
	}
	s->n = n > 0 ? n : 1;
}
