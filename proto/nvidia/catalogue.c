/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/nvidia/catalogue.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/buf.h"
#include "proto/base/clean.h"
#include "proto/base/near.h"
#include "proto/nvidia/aliases.h"
#include "proto/nvidia/breakdown.h"
#include "proto/wire/limits.h"

/* CUPTI lists base names ("dram__bytes_read"); a full name appends a submetric (".sum",
 * ".avg.pct_of_peak_sustained_elapsed"). A chip has about 150,000 full names, so they are never
 * stored: a full name is split at the first dot behind its base, and CUPTI lists the submetrics of
 * that base. Some base names contain dots themselves ("CTC.TriageCompute.ctc__rx_bytes"). */

static int compare_bases(const void *a, const void *b)
{
	return strcmp(((const struct catalogue_base *)a)->name,
		      ((const struct catalogue_base *)b)->name);
}

static int add_kind(struct catalogue *c, CUpti_MetricType type, enum gpuctr_metric_kind kind)
{
	VENDOR_PARAMS(Profiler_Host_GetBaseMetrics, p, .pHostObject = c->host.object,
		      .metricType = type);
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

/* Product names and their chips. */
static const struct {
	const char *product, *chip;
} products[] = {
	{ "V100", "GV100" },	  { "T4", "TU104" },	   { "RTX 2080 Ti", "TU102" },
	{ "A100", "GA100" },	  { "A800", "GA100" },	   { "A30", "GA100" },
	{ "A10", "GA102" },	  { "A10G", "GA102" },	   { "A40", "GA102" },
	{ "RTX A6000", "GA102" }, { "RTX 3080", "GA102" }, { "RTX 3090", "GA102" },
	{ "H100", "GH100" },	  { "H200", "GH100" },	   { "H800", "GH100" },
	{ "H20", "GH100" },	  { "GH200", "GH100" },	   { "L4", "AD104" },
	{ "L40", "AD102" },	  { "L40S", "AD102" },	   { "RTX 6000 Ada", "AD102" },
	{ "RTX 4080", "AD103" },  { "RTX 4090", "AD102" }, { "B100", "GB100" },
	{ "B200", "GB100" },	  { "GB200", "GB100" },	   { "RTX 5080", "GB203" },
	{ "RTX 5090", "GB202" },
};

/* Compares whole words: "NVIDIA H100 80GB HBM3" has H100, but not H10. */
static bool has_words(const char *text, const char *words)
{
	size_t n = strlen(words);

	for (const char *at = strcasestr(text, words); at; at = strcasestr(at + 1, words)) {
		if ((at == text || !isalnum((unsigned char)at[-1])) &&
		    !isalnum((unsigned char)at[n])) {
			return true;
		}
	}
	return false;
}

static const char *chip_of_product(const char *text)
{
	for (size_t i = 0; i < ARRAY_SIZE(products); i++) {
		if (has_words(text, products[i].product)) {
			return products[i].chip;
		}
	}
	return text;
}

const char *catalogue_find_chip(const struct vendor_host *v, const char *typed, struct refusal *r)
{
	VENDOR_PARAMS(Profiler_Host_GetSupportedChips, all);
	const char *chip = chip_of_product(typed);
	char known[512] = "";

	v->cuptiProfilerHostGetSupportedChips(&all);
	for (size_t i = 0; i < all.numChips; i++) {
		if (strcasecmp(all.ppChipNames[i], chip) == 0) {
			return all.ppChipNames[i];
		}
		strncat(known, " ", sizeof(known) - strlen(known) - 1);
		strncat(known, all.ppChipNames[i], sizeof(known) - strlen(known) - 1);
	}
	refusal_set(r, GPUCTR_E_CHIP_UNKNOWN, "", "CUPTI knows no chip %s", typed);
	snprintf(r->remedy, sizeof(r->remedy), "Name one of:%s, or a product, such as H200.",
		 known);
	return NULL;
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
	code = add_kind(c, CUPTI_METRIC_TYPE_COUNTER, GPUCTR_METRIC_COUNTER);
	if (code == 0) {
		code = add_kind(c, CUPTI_METRIC_TYPE_RATIO, GPUCTR_METRIC_RATIO);
	}
	if (code == 0) {
		code = add_kind(c, CUPTI_METRIC_TYPE_THROUGHPUT, GPUCTR_METRIC_THROUGHPUT);
	}
	if (code != 0) {
		refusal_set(r, code, "", "out of memory for the metrics of %s", chip);
		catalogue_deinit(c);
		return code;
	}
	qsort(c->bases, c->n_bases, sizeof(*c->bases), compare_bases);
	c->breakdown = breakdown_new(c->host.chip);
	return 0;
}

void catalogue_deinit(struct catalogue *c)
{
	for (size_t i = 0; i < c->n_bases; i++) {
		free((char *)(uintptr_t)c->bases[i].name);
	}
	free(c->bases);
	breakdown_free(c->breakdown);
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

static CUpti_MetricType vendor_kind(enum gpuctr_metric_kind kind)
{
	return kind == GPUCTR_METRIC_RATIO	  ? CUPTI_METRIC_TYPE_RATIO
	       : kind == GPUCTR_METRIC_THROUGHPUT ? CUPTI_METRIC_TYPE_THROUGHPUT
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

size_t catalogue_parts(const struct catalogue *c, struct arena *a, const char *throughput,
		       const char *ret[CATALOGUE_PARTS_MAX])
{
	const char *counters[CATALOGUE_PARTS_MAX], *dot = strchr(throughput, '.');
	const struct catalogue_base *base = NULL;
	size_t n = 0, found;

	while (dot && !(base = catalogue_find_base(c, throughput, (size_t)(dot - throughput)))) {
		dot = strchr(dot + 1, '.');
	}
	if (!base || base->kind != GPUCTR_METRIC_THROUGHPUT) {
		return 0;
	}
	found = breakdown_counters(c->breakdown, base->name, counters, CATALOGUE_PARTS_MAX);
	for (size_t i = 0; i < found; i++) {
		const char *full = arena_printf(a, "%s%s", counters[i], dot);

		if (full && catalogue_has(c, full)) {
			ret[n++] = full;
		}
	}
	return n;
}

bool catalogue_describe(const struct catalogue *c, const char *name, const char **ret_unit,
			const char **ret_hardware_unit, const char **ret_description)
{
	VENDOR_PARAMS(Profiler_Host_GetMetricProperties, p, .pHostObject = c->host.object,
		      .pMetricName = name);

	if (c->host.v->cuptiProfilerHostGetMetricProperties(&p) != CUPTI_SUCCESS) {
		return false;
	}
	*ret_unit = p.pDimUnit ? p.pDimUnit : "";
	*ret_hardware_unit = p.pHwUnit ? p.pHwUnit : "";
	*ret_description = p.pDescription ? p.pDescription : "";
	return true;
}

/* --- lists --- */

static int list_named(const struct catalogue *c, const struct catalogue_named *named,
		      catalogue_on_metric on_metric, void *userdata)
{
	const char *terms[ARRAY_SIZE(named->terms)];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(named->terms) && named->terms[i].metric; i++) {
		if (catalogue_term_is_for(c, named, i)) {
			terms[n++] = named->terms[i].metric;
		}
	}
	return on_metric(&(struct gpuctr_metric){ .name = named->name,
						  .kind = named->kind,
						  .unit = named->unit,
						  .description = named->description,
						  .submetrics = terms,
						  .n_submetrics = n },
			 userdata);
}

/* Appends to b the description and the parts of a throughput, as long as they fit into a message's
 * text. */
static void add_parts(const struct catalogue *c, const struct catalogue_base *base,
		      const char *description, struct buf *b)
{
	const char *counters[CATALOGUE_PARTS_MAX];
	size_t n = breakdown_counters(c->breakdown, base->name, counters, CATALOGUE_PARTS_MAX);

	buf_text(b, description ? description : "");
	for (size_t i = 0; i < n && b->n < LIMIT_TEXT_BYTES - LIMIT_NAME_BYTES; i++) {
		buf_printf(b, "%s%s", i == 0 ? ". The one that is nearest to its peak: " : ", ",
			   counters[i]);
	}
}

static int list_base(const struct catalogue *c, const struct catalogue_base *base, bool describe,
		     catalogue_on_metric on_metric, void *userdata)
{
	struct gpuctr_metric m = { .name = base->name, .kind = base->kind };
	const char **submetrics = NULL;
	CLEAN_BUF struct buf description = { 0 };

	catalogue_describe(c, base->name, &m.unit, &m.hardware_unit, &m.description);
	if (describe && base->kind == GPUCTR_METRIC_THROUGHPUT) {
		add_parts(c, base, m.description, &description);
		m.description = buf_string(&description);
	}
	if (describe) {
		m.n_submetrics = catalogue_submetrics(c, base, &submetrics);
		m.submetrics = submetrics;
	} else {
		m.description = NULL;
	}
	return on_metric(&m, userdata);
}

int catalogue_list(const struct catalogue *c, bool describe, catalogue_on_metric on_metric,
		   void *userdata)
{
	const struct catalogue_named *named;
	int r = 0;

	for (size_t i = 0; r == 0 && (named = catalogue_named_at(i)); i++) {
		r = list_named(c, named, on_metric, userdata);
	}
	for (size_t i = 0; r == 0 && i < c->n_bases; i++) {
		r = list_base(c, &c->bases[i], describe, on_metric, userdata);
	}
	return r;
}

/* --- near matches --- */

/* A full name of this base in CUPTI: with the typed rollup if it exists, else with the most useful
 * one. */
static const char *full_name(const struct catalogue *c, struct arena *a,
			     const struct catalogue_base *base, const char *rollup)
{
	const char *const endings[] = { rollup, ".sum", ".avg.pct_of_peak_sustained_elapsed" };
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
			      const char *rollup)
{
	const struct catalogue_base *base = catalogue_find_base(c, name, strlen(name));

	return base ? full_name(c, a, base, rollup) : name;
}

/* The metrics for one of nvprof's names: "a, b". NULL: not such a name, or the chip lacks one of
 * the metrics. */
static const char *of_nvprof(const struct catalogue *c, struct arena *a, const char *name)
{
	const struct alias *alias = alias_find(name);
	const char *text = "";

	if (!alias || !alias->of_nvprof) {
		return NULL;
	}
	for (const char *p = alias->means; *p && text; p += strcspn(p, " "), p += *p == ' ') {
		const char *full = arena_printf(a, "%.*s", (int)strcspn(p, " "), p);

		if (!full || !catalogue_has(c, full)) {
			return NULL;
		}
		text = arena_printf(a, "%s%s%s", text, *text ? "," : "", full);
	}
	return text && alias->how ? arena_printf(a, "%s (%s)", text, alias->how) : text;
}

const char *catalogue_near(const struct catalogue *c, struct arena *a, const char *wrong)
{
	const char *dot = strchr(wrong, '.'), *text = of_nvprof(c, a, wrong);
	struct near near;

	if (text) {
		return text;
	}
	text = "";
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
