/* SPDX-License-Identifier: Apache-2.0 */

/* CUPTI's host functions report no breakdown (13.0), but libnvperf_host.so, which CUPTI has loaded,
 * does: its evaluator lists for each throughput its counters and the throughputs that are part of
 * it. */

#include "proto/nvidia/breakdown.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <nvperf_cuda_host.h>
#include <nvperf_host.h>

enum { DEPTH = 8 };

#define FUNCTIONS(X)                                        \
	X(InitializeHost)                                   \
	X(CUDA_MetricsEvaluator_CalculateScratchBufferSize) \
	X(CUDA_MetricsEvaluator_Initialize)                 \
	X(MetricsEvaluator_Destroy)                         \
	X(MetricsEvaluator_GetMetricNames)                  \
	X(MetricsEvaluator_GetMetricTypeAndIndex)           \
	X(MetricsEvaluator_GetThroughputMetricProperties)

#define MEMBER(name) __typeof__(&NVPW_##name) name;
#define PARAMS(call, name, ...) \
	NVPW_##call##_Params name = { .structSize = NVPW_##call##_Params_STRUCT_SIZE, __VA_ARGS__ }

struct breakdown {
	FUNCTIONS(MEMBER)
	uint8_t *scratch; /* memory of the evaluator */
	struct NVPW_MetricsEvaluator *evaluator;
};

struct counters {
	const char **v;
	size_t n, max;
};

static bool resolve(struct breakdown *b)
{
	void *library = dlopen("libnvperf_host.so", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	bool whole = library != NULL;

#define RESOLVE(name)                                                      \
	*(void **)&b->name = whole ? dlsym(library, "NVPW_" #name) : NULL; \
	whole = whole && b->name;
	FUNCTIONS(RESOLVE)
#undef RESOLVE
	return whole;
}

static bool init(struct breakdown *b, const char *chip)
{
	PARAMS(InitializeHost, host);
	PARAMS(CUDA_MetricsEvaluator_CalculateScratchBufferSize, size, .pChipName = chip);
	PARAMS(CUDA_MetricsEvaluator_Initialize, p, .pChipName = chip);

	if (b->InitializeHost(&host) != NVPA_STATUS_SUCCESS ||
	    b->CUDA_MetricsEvaluator_CalculateScratchBufferSize(&size) != NVPA_STATUS_SUCCESS) {
		return false;
	}
	b->scratch = malloc(size.scratchBufferSize);
	p.pScratchBuffer = b->scratch;
	p.scratchBufferSize = size.scratchBufferSize;
	if (!b->scratch || b->CUDA_MetricsEvaluator_Initialize(&p) != NVPA_STATUS_SUCCESS) {
		return false;
	}
	b->evaluator = p.pMetricsEvaluator;
	return true;
}

struct breakdown *breakdown_new(const char *chip)
{
	struct breakdown *b = calloc(1, sizeof(*b));

	return b && resolve(b) && init(b, chip) ? b : breakdown_free(b);
}

struct breakdown *breakdown_free(struct breakdown *b)
{
	if (b && b->evaluator) {
		PARAMS(MetricsEvaluator_Destroy, p, .pMetricsEvaluator = b->evaluator);

		b->MetricsEvaluator_Destroy(&p);
	}
	if (b) {
		free(b->scratch);
		free(b);
	}
	return NULL;
}

/* The metric's name; NULL: there are no metrics of this type. */
static const char *name_of(const struct breakdown *b, NVPW_MetricType type, size_t index)
{
	PARAMS(MetricsEvaluator_GetMetricNames, p, .pMetricsEvaluator = b->evaluator,
	       .metricType = (uint8_t)type);

	return b->MetricsEvaluator_GetMetricNames(&p) == NVPA_STATUS_SUCCESS && index < p.numMetrics
		       ? p.pMetricNames + p.pMetricNameBeginIndices[index]
		       : NULL;
}

static void add(struct counters *c, const char *name)
{
	for (size_t i = 0; i < c->n; i++) {
		if (strcmp(c->v[i], name) == 0) {
			return;
		}
	}
	if (c->n < c->max) {
		c->v[c->n++] = name;
	}
}

static void collect(const struct breakdown *b, size_t throughput, struct counters *c, int depth)
{
	PARAMS(MetricsEvaluator_GetThroughputMetricProperties, p, .pMetricsEvaluator = b->evaluator,
	       .throughputMetricIndex = throughput);

	if (depth == DEPTH ||
	    b->MetricsEvaluator_GetThroughputMetricProperties(&p) != NVPA_STATUS_SUCCESS) {
		return;
	}
	for (size_t i = 0; i < p.numCounters; i++) {
		const char *name = name_of(b, NVPW_METRIC_TYPE_COUNTER, p.pCounterIndices[i]);

		if (name) {
			add(c, name);
		}
	}
	for (size_t i = 0; i < p.numSubThroughputs; i++) {
		collect(b, p.pSubThroughputIndices[i], c, depth + 1);
	}
}

size_t breakdown_counters(const struct breakdown *b, const char *throughput, const char **ret,
			  size_t max)
{
	struct counters c = { .v = ret, .max = max };
	PARAMS(MetricsEvaluator_GetMetricTypeAndIndex, p, .pMetricName = throughput);

	if (!b) {
		return 0;
	}
	p.pMetricsEvaluator = b->evaluator;
	if (b->MetricsEvaluator_GetMetricTypeAndIndex(&p) == NVPA_STATUS_SUCCESS &&
	    p.metricType == NVPW_METRIC_TYPE_THROUGHPUT) {
		collect(b, p.metricIndex, &c, 0);
	}
	return c.n;
}
