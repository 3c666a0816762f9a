/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/gpu/catalogue.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/clean.h"
#include "proto/base/near.h"

/* CUPTI lists base names ("dram__bytes_read"); a full name appends a submetric (".sum",
 * ".avg.pct_of_peak_sustained_elapsed"). A chip has about 150,000 full names, so they are never
 * stored: a full name is split at the first dot behind its base, and CUPTI is asked for the
 * submetrics of that base. Some base names contain dots themselves
 * ("CTC.TriageCompute.ctc__rx_bytes"). */

static int compare_bases(const void *a, const void *b)
{
	return strcmp(((const struct catalogue_base *)a)->name,
		      ((const struct catalogue_base *)b)->name);
}

static int add_kind(struct catalogue *c, CUpti_MetricType type, enum wire_metric_kind kind)
{
	CUpti_Profiler_Host_GetBaseMetrics_Params p = {
		.structSize = CUpti_Profiler_Host_GetBaseMetrics_Params_STRUCT_SIZE,
		.pHostObject = c->host.object,
		.metricType = type,
	};
	struct catalogue_base *bases;

	if (c->host.v->cuptiProfilerHostGetBaseMetrics(&p) != CUPTI_SUCCESS) {
		return 0; /* a chip without metrics of this type */
	}
	bases = realloc(c->bases, (c->n_bases + p.numMetrics + 1) * sizeof(*bases));
	if (!bases) {
		return GPUCTR_E_INTERNAL;
	}
	c->bases = bases;
	for (size_t i = 0; i < p.numMetrics; i++) {
		char *name = strdup(p.ppMetricNames[i]);

		if (!name) {
			return GPUCTR_E_INTERNAL;
		}
		c->bases[c->n_bases++] = (struct catalogue_base){ name, kind };
	}
	return 0;
}

int catalogue_init(struct catalogue *c, const struct vendor_host *v, const char *chip,
		   struct refusal *r)
{
	int code;

	*c = (struct catalogue){ 0 };
	code = host_init(&c->host, v, chip, r);
	if (code != 0) {
		return code;
	}
	code = add_kind(c, CUPTI_METRIC_TYPE_COUNTER, WIRE_METRIC_COUNTER);
	if (code == 0) {
		code = add_kind(c, CUPTI_METRIC_TYPE_RATIO, WIRE_METRIC_RATIO);
	}
	if (code == 0) {
		code = add_kind(c, CUPTI_METRIC_TYPE_THROUGHPUT, WIRE_METRIC_THROUGHPUT);
	}
	if (code != 0) {
		refusal_set(r, code, "", "out of memory for the metrics of %s", chip);
		catalogue_deinit(c);
		return code;
	}
	qsort(c->bases, c->n_bases, sizeof(*c->bases), compare_bases);
	return 0;
}

void catalogue_deinit(struct catalogue *c)
{
	for (size_t i = 0; i < c->n_bases; i++) {
		free((char *)(uintptr_t)c->bases[i].name);
	}
	free(c->bases);
	host_deinit(&c->host);
	*c = (struct catalogue){ 0 };
}

const struct catalogue_base *catalogue_find_base(const struct catalogue *c, const char *name,
						 size_t length)
{
	size_t low = 0, high = c->n_bases;

	while (low < high) {
		size_t middle = (low + high) / 2;
		int order = strncmp(c->bases[middle].name, name, length);

		if (order == 0 && c->bases[middle].name[length] != '\0') {
			order = 1;
		}
		if (order == 0) {
			return &c->bases[middle];
		}
		if (order < 0) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return NULL;
}

static CUpti_MetricType vendor_kind(enum wire_metric_kind kind)
{
	return kind == WIRE_METRIC_RATIO	? CUPTI_METRIC_TYPE_RATIO
	       : kind == WIRE_METRIC_THROUGHPUT ? CUPTI_METRIC_TYPE_THROUGHPUT
						: CUPTI_METRIC_TYPE_COUNTER;
}

size_t catalogue_submetrics(const struct catalogue *c, const struct catalogue_base *base,
			    const char ***ret)
{
	CUpti_Profiler_Host_GetSubMetrics_Params p = {
		.structSize = CUpti_Profiler_Host_GetSubMetrics_Params_STRUCT_SIZE,
		.pHostObject = c->host.object,
		.metricType = vendor_kind(base->kind),
		.pMetricName = base->name,
	};

	if (c->host.v->cuptiProfilerHostGetSubMetrics(&p) != CUPTI_SUCCESS) {
		return 0;
	}
	*ret = p.ppSubMetrics;
	return p.numOfSubmetrics;
}

bool catalogue_has(const struct catalogue *c, const char *full)
{
	for (const char *dot = strchr(full, '.'); dot; dot = strchr(dot + 1, '.')) {
		const struct catalogue_base *base =
			catalogue_find_base(c, full, (size_t)(dot - full));
		const char **submetrics = NULL;
		size_t n = base ? catalogue_submetrics(c, base, &submetrics) : 0;

		for (size_t i = 0; i < n; i++) {
			if (strcmp(submetrics[i], dot) == 0) {
				return true;
			}
		}
	}
	return false;
}

bool catalogue_describe(const struct catalogue *c, const char *name, const char **ret_unit,
			const char **ret_hardware_unit, const char **ret_description)
{
	CUpti_Profiler_Host_GetMetricProperties_Params p = {
		.structSize = CUpti_Profiler_Host_GetMetricProperties_Params_STRUCT_SIZE,
		.pHostObject = c->host.object,
		.pMetricName = name,
	};

	if (c->host.v->cuptiProfilerHostGetMetricProperties(&p) != CUPTI_SUCCESS) {
		return false;
	}
	*ret_unit = p.pDimUnit ? p.pDimUnit : "";
	*ret_hardware_unit = p.pHwUnit ? p.pHwUnit : "";
	*ret_description = p.pDescription ? p.pDescription : "";
	return true;
}

/* --- near matches --- */

/* A full name of base that CUPTI has: with the rollup that was typed, else with the one that says
 * most. */
static const char *full_name(const struct catalogue *c, struct arena *a,
			     const struct catalogue_base *base, const char *wish)
{
	const char *const endings[] = { wish, ".sum", ".avg.pct_of_peak_sustained_elapsed" };
	const char **submetrics = NULL;
	size_t n;

	for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
		char *full = arena_printf(a, "%s%s", base->name, endings[i]);

		if (full && catalogue_has(c, full)) {
			return full;
		}
	}
	n = catalogue_submetrics(c, base, &submetrics);
	return arena_printf(a, "%s%s", base->name, n > 0 ? submetrics[0] : "");
}

const char *catalogue_example(const struct catalogue *c, struct arena *a, const char *name,
			      const char *wish)
{
	const struct catalogue_base *base = catalogue_find_base(c, name, strlen(name));

	return base ? full_name(c, a, base, wish) : name;
}

const char *catalogue_near(const struct catalogue *c, struct arena *a, const char *wrong)
{
	const char *dot = strchr(wrong, '.'), *text = "";
	struct near near;

	near_init(&near, wrong, dot ? (size_t)(dot - wrong) : strlen(wrong));
	for (size_t i = 0; i < c->n_bases; i++) {
		near_offer(&near, c->bases[i].name);
	}
	for (const struct catalogue_named *n = catalogue_named_at(0); n && n->name; n++) {
		near_offer(&near, n->name);
	}
	for (size_t i = 0; i < NEAR_MAX && near.found[i].name[0] != '\0' && text; i++) {
		const char *full = catalogue_example(c, a, near.found[i].name, dot ? dot : ".sum");

		text = full ? arena_printf(a, "%s%s%s", text, full, near_separator(&near, i))
			    : text;
	}
	return text ? text : "";
}

bool catalogue_term_is_for(const struct catalogue *c, const struct catalogue_named *n, size_t i)
{
	const char *chips = n->terms[i].chips;

	while (chips && *chips) {
		size_t length = strcspn(chips, " ");

		if (strncmp(c->host.chip, chips, length) == 0) {
			return true;
		}
		chips += length + (chips[length] == ' ');
	}
	return !n->terms[i].chips;
}
