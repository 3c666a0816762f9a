/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/limits.h"

/* CUPTI evaluates hardware metrics range by range; columns are weighted sums of metrics. The name
 * of a range, the launch's index in the batch, links it to its launch, because CUPTI does not
 * promise the order of ranges in an image.
 *
 * A launch without a time of its own gets the length of its range, if the plan measures that. */

/* CUPTI's header says that the caller frees the name. Its newer twin,
 * cuptiRangeProfilerCounterDataGetRangeInfo(), leaks 32 bytes a range (13.0). */
static size_t range_launch(const struct batch *b, size_t range, size_t fallback)
{
	CUpti_Profiler_Host_GetRangeName_Params p = {
		.structSize = CUpti_Profiler_Host_GetRangeName_Params_STRUCT_SIZE,
		.pCounterDataImage = b->image,
		.counterDataImageSize = b->image_size,
		.rangeIndex = range,
		.delimiter = "/",
	};
	char *end;
	unsigned long n;
	size_t launch = fallback;

	if (b->host->v->cuptiProfilerHostGetRangeName(&p) != CUPTI_SUCCESS || !p.pRangeName) {
		return fallback;
	}
	n = strtoul(p.pRangeName, &end, 10);
	if (end != p.pRangeName && *end == '\0') {
		launch = n;
	}
	free((char *)(uintptr_t)p.pRangeName);
	return launch;
}

static void combine(const struct wire_plan *plan, const double *metrics, double *columns)
{
	for (size_t i = 0; i < plan->columns.n; i++) {
		const struct wire_column *c = &plan->columns.v[i];

		columns[i] = c->metric.n ? 0 : NAN;
		for (size_t k = 0; k < c->metric.n; k++) {
			columns[i] += c->weight.v[k] * metrics[c->metric.v[k]];
		}
	}
}

/* Index of the metric that is the length of the range; metrics.n: none. */
static size_t find_duration(const struct wire_plan *plan)
{
	size_t i = 0;

	while (i < plan->metrics.n && strcmp(plan->metrics.v[i], "gpu__time_duration.sum") != 0) {
		i++;
	}
	return i;
}

static void take_duration(struct launch *l, double ns)
{
	if (l->clock == GPUCTR_CLOCK_NONE && ns >= 0 && ns < (double)INT64_MAX) {
		l->clock = GPUCTR_CLOCK_RANGE;
		l->duration_ns = (uint64_t)ns;
	}
}

int evaluate_batch(const struct wire_plan *plan, const struct batch *b, double *values,
		   bool *measured)
{
	size_t n_ranges = host_count_ranges(b->host, b->image, b->image_size);
	size_t duration = find_duration(plan);
	double metrics[LIMIT_PLAN_METRICS];
	CUptiResult first_failure = CUPTI_SUCCESS;

	for (size_t i = 0; i < b->n; i++) {
		measured[i] = false;
	}
	for (size_t i = 0; i < b->n * plan->columns.n; i++) {
		values[i] = NAN;
	}
	for (size_t r = 0; r < n_ranges; r++) {
		size_t i = range_launch(b, r, r);
		CUptiResult result;

		if (i >= b->n) {
			continue;
		}
		result = host_evaluate(b->host, b->image, b->image_size, r, plan->metrics.v,
				       plan->metrics.n, metrics);
		if (result != CUPTI_SUCCESS) {
			first_failure = first_failure == CUPTI_SUCCESS ? result : first_failure;
			continue;
		}
		combine(plan, metrics, values + i * plan->columns.n);
		if (duration < plan->metrics.n && b->launches) {
			take_duration(&b->launches[i], metrics[duration]);
		}
		measured[i] = true;
	}
	return (int)first_failure;
}

int evaluate_nothing(const struct batch *b, size_t n_columns, double *values, bool *measured)
{
	for (size_t i = 0; i < b->n; i++) {
		measured[i] = true;
	}
	for (size_t i = 0; i < b->n * n_columns; i++) {
		values[i] = NAN;
	}
	return CUPTI_SUCCESS;
}
