/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/gpu/plan.h"

#include <stdio.h>
#include <string.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/base/blocking.h"
#include "proto/nvidia/aliases.h"
#include "proto/wire/limits.h"
#include "proto/wire/pattern.h"

/* A draft collects the columns of the wanted names. Each column refers to hardware metrics by
 * index, and each hardware metric is listed once. Only CUPTI's scheduler knows which metrics fit
 * together, so grouping asks it. The columns of one name (a preset) are meant to be compared, so
 * they stay together in the first group that still needs one pass with all of them. If they need
 * several passes, each column gets its group separately.
 *
 * Ranges with SM metrics cost fifteen times as much as ranges with memory metrics. So cheap metrics
 * have their own groups, in which more launches are measured at the same cost. */

struct draft {
	struct catalogue *c;
	struct arena *a;
	struct refusal *r;
	uint64_t by_ns;
	const char *metrics[LIMIT_PLAN_METRICS];
	size_t n_metrics;
	struct wire_column columns[LIMIT_PLAN_METRICS];
	size_t request[LIMIT_PLAN_METRICS]; /* index of the wanted name of each column */
	size_t n_columns;
	size_t at;  /* index of the present wanted name */
	bool mixes; /* groups may mix cheap and expensive metrics */
};

static const uint32_t NO_GROUP = UINT32_MAX;

static const char duration[] = "gpu__time_duration.sum";

static int out_of_memory(struct draft *d)
{
	refusal_set(d->r, GPUCTR_E_TOO_MANY_METRICS, "Ask for fewer metrics.",
		    "the request needs more room than one plan may take");
	return d->r->code;
}

static int refuse_number(struct draft *d)
{
	refusal_set(d->r, GPUCTR_E_TOO_MANY_METRICS, "Ask for fewer at a time.",
		    "one plan has at most %d columns", LIMIT_METRICS);
	return d->r->code;
}

static int add_metric(struct draft *d, const char *name, uint32_t *ret)
{
	for (size_t i = 0; i < d->n_metrics; i++) {
		if (strcmp(d->metrics[i], name) == 0) {
			*ret = (uint32_t)i;
			return 0;
		}
	}
	if (d->n_metrics == ARRAY_SIZE(d->metrics)) {
		return out_of_memory(d);
	}
	name = arena_printf(d->a, "%s", name);
	if (!name) {
		return out_of_memory(d);
	}
	*ret = (uint32_t)d->n_metrics;
	d->metrics[d->n_metrics++] = name;
	return 0;
}

static bool has_column(const struct draft *d, const char *name)
{
	for (size_t i = 0; i < d->n_columns; i++) {
		if (strcmp(d->columns[i].name, name) == 0) {
			return true;
		}
	}
	return false;
}

/* Adds a column of n terms, all of which the catalogue has. */
static int add_column(struct draft *d, const char *name, const char *unit,
		      const char *const *metrics, const double *weights, size_t n)
{
	uint32_t *metric = arena_alloc(d->a, n * sizeof(*metric));
	double *weight = arena_alloc(d->a, n * sizeof(*weight));

	if (has_column(d, name)) {
		return 0;
	}
	name = arena_printf(d->a, "%s", name);
	if (d->n_columns >= LIMIT_METRICS) {
		return refuse_number(d);
	}
	if (!metric || !weight || !name) {
		return out_of_memory(d);
	}
	for (size_t i = 0; i < n; i++) {
		int code = add_metric(d, metrics[i], &metric[i]);

		if (code != 0) {
			return code;
		}
		weight[i] = weights[i];
	}
	d->request[d->n_columns] = d->at;
	d->columns[d->n_columns++] = (struct wire_column){
		.name = name,
		.unit = unit,
		.metric = { n, metric },
		.weight = { n, weight },
	};
	return 0;
}

static int add_concrete(struct draft *d, const char *full)
{
	const char *unit = "", *hardware_unit, *description;
	double one = 1;

	catalogue_describe(d->c, full, &unit, &hardware_unit, &description);
	return add_column(d, full, unit, &full, &one, 1);
}

static int add_derived(struct draft *d, const struct catalogue_named *n)
{
	const char *metrics[ARRAY_SIZE(n->terms)];
	double weights[ARRAY_SIZE(n->terms)];
	size_t k = 0;

	for (size_t i = 0; i < ARRAY_SIZE(n->terms) && n->terms[i].metric; i++) {
		if (!catalogue_has(d->c, n->terms[i].metric)) {
			refusal_set(d->r, GPUCTR_E_METRIC_OTHER_CHIP,
				    "Ask for what the chip counts instead.",
				    "%s needs %s, which %s does not have", n->name,
				    n->terms[i].metric, d->c->host.chip);
			return d->r->code;
		}
		metrics[k] = n->terms[i].metric;
		weights[k++] = n->terms[i].weight;
	}
	return add_column(d, n->name, n->unit, metrics, weights, k);
}

static int refuse_incomplete(struct draft *d, const struct catalogue_named *n, const char *missing)
{
	const char *has = "";

	for (size_t i = 0; i < ARRAY_SIZE(n->terms) && n->terms[i].metric && has; i++) {
		if (catalogue_term_is_for(d->c, n, i) && catalogue_has(d->c, n->terms[i].metric)) {
			has = arena_printf(d->a, "%s%s%s", has, *has ? "," : "",
					   n->terms[i].metric);
		}
	}
	refusal_set(d->r, GPUCTR_E_METRIC_OTHER_CHIP, "",
		    "the preset %s needs %s, which %s does not have", n->name, missing,
		    d->c->host.chip);
	snprintf(d->r->remedy, sizeof(d->r->remedy), "%s%s",
		 has && *has ? "Of its metrics there are: --metrics "
			     : "List what it has with `gpuctr-client metrics`.",
		 has ? has : "");
	return d->r->code;
}

static int add_named(struct draft *d, const struct catalogue_named *n)
{
	size_t before = d->n_columns;
	const char *others = NULL; /* a term for other chips, found before any term for this chip */
	bool chosen = false;
	int code = 0;

	if (n->kind == GPUCTR_METRIC_DERIVED) {
		return add_derived(d, n);
	}
	for (size_t i = 0; code == 0 && i < ARRAY_SIZE(n->terms) && n->terms[i].metric; i++) {
		const struct catalogue_named *inner = catalogue_find_named(n->terms[i].metric);
		bool is_for = catalogue_term_is_for(d->c, n, i);

		chosen = chosen || (n->terms[i].chips && is_for);
		others = others || is_for ? others : n->terms[i].metric;
		if (!is_for) {
			continue;
		}
		if (inner) {
			code = add_derived(d, inner);
		} else if (catalogue_has(d->c, n->terms[i].metric)) {
			code = add_concrete(d, n->terms[i].metric);
		} else if (n->whole) {
			code = refuse_incomplete(d, n, n->terms[i].metric);
		}
	}
	if (code == 0 && n->whole && others && !chosen) {
		refusal_set(
			d->r, GPUCTR_E_METRIC_OTHER_CHIP,
			"List what it has with `gpuctr-client metrics`, and ask for it by name.",
			"the preset %s does not know what to ask of %s; on other chips it asks for "
			"%s",
			n->name, d->c->host.chip, others);
		return d->r->code;
	}
	if (code == 0 && d->n_columns == before && before == 0) {
		refusal_set(d->r, GPUCTR_E_METRIC_OTHER_CHIP,
			    "List what it has with `gpuctr-client metrics`.",
			    "%s has none of the metrics of the preset %s", d->c->host.chip,
			    n->name);
		return d->r->code;
	}
	return code;
}

static int refuse_unknown(struct draft *d, const char *text, plan_other_chips other_chips,
			  void *userdata)
{
	const struct catalogue_base *base = catalogue_find_base(d->c, text, strlen(text));
	const char *near = catalogue_near(d->c, d->a, text);
	const char *launch = alias_of_launch(text);
	const char *others = other_chips && !launch ? other_chips(userdata, d->a, text) : "";
	char remedy[sizeof(d->r->remedy)];

	if (launch) {
		refusal_set(d->r, GPUCTR_E_METRIC_UNKNOWN, launch, "%s is no counter", text);
		return d->r->code;
	}
	if (base) {
		const char *example = catalogue_example(d->c, d->a, text, ".sum");

		snprintf(remedy, sizeof(remedy),
			 "Append what you want of it, for example %s; `gpuctr-client metrics %s "
			 "--describe` lists all.",
			 example ? example : "", text);
		refusal_set(d->r, GPUCTR_E_METRIC_UNKNOWN, remedy,
			    "%s is a base name without a rollup", text);
		return d->r->code;
	}
	if (others[0] != '\0') {
		refusal_set(d->r, GPUCTR_E_METRIC_OTHER_CHIP,
			    "List what it has with `gpuctr-client metrics`.",
			    "%s has no metric %s, but %s has", d->c->host.chip, text, others);
		return d->r->code;
	}
	snprintf(remedy, sizeof(remedy),
		 near[0] ? "Did you mean %s?" : "List them with `gpuctr-client metrics`.", near);
	refusal_set(d->r, GPUCTR_E_METRIC_UNKNOWN, remedy, "%s has no metric %s", d->c->host.chip,
		    text);
	return d->r->code;
}

static int refuse_pattern(struct draft *d, const char *text)
{
	refusal_set(d->r, GPUCTR_E_BAD_PATTERN,
		    "Use libgpuctr or gpuctr-client, which expand patterns, or name the metrics.",
		    "'%.300s' is a pattern, and the daemon takes names alone", text);
	return d->r->code;
}

/* Adds a column for each part of the throughput. */
static int add_breakdown(struct draft *d, const char *throughput)
{
	const char *parts[CATALOGUE_PARTS_MAX];
	size_t n = catalogue_parts(d->c, d->a, throughput, parts);
	int code = 0;

	if (n == 0) {
		refusal_set(d->r, GPUCTR_E_METRIC_UNKNOWN,
			    "Name a throughput with its rollup, such as " CATALOGUE_BREAKDOWN
			    "sm__throughput.avg.pct_of_peak_sustained_elapsed; `gpuctr-client "
			    "metrics throughput` lists them.",
			    "%s has no throughput %s of which anybody knows the parts",
			    d->c->host.chip, throughput);
		return d->r->code;
	}
	for (size_t i = 0; code == 0 && i < n; i++) {
		code = add_concrete(d, parts[i]);
	}
	return code;
}

static int add_wanted(struct draft *d, const char *text, plan_other_chips other_chips,
		      void *userdata)
{
	const struct catalogue_named *named = catalogue_find_named(text);

	if (named) {
		return add_named(d, named);
	}
	if (catalogue_has(d->c, text)) {
		return add_concrete(d, text);
	}
	if (strncmp(text, CATALOGUE_BREAKDOWN, strlen(CATALOGUE_BREAKDOWN)) == 0) {
		return add_breakdown(d, text + strlen(CATALOGUE_BREAKDOWN));
	}
	return pattern_is(text) ? refuse_pattern(d, text)
				: refuse_unknown(d, text, other_chips, userdata);
}

static int count_passes(struct draft *d, const char *const *metrics, size_t n, uint32_t *ret)
{
	struct host_metrics set = { metrics, n };
	struct host_config config;
	int code = host_config_new(&d->c->host, &set, 1, &config, d->r);

	if (code != 0) {
		return code;
	}
	*ret = (uint32_t)config.passes;
	host_config_deinit(&config);
	return 0;
}

/* Successive columns. */
struct span {
	size_t first, n;
};

/* The metrics of the span's columns, and of the group's columns before the span. */
static size_t group_metrics(const struct draft *d, uint32_t group, struct span span,
			    const char **ret)
{
	bool used[LIMIT_PLAN_METRICS] = { false };
	size_t n = 0;

	for (size_t i = 0; i < span.first + span.n; i++) {
		const struct wire_column *c = &d->columns[i];

		for (size_t k = 0; (i >= span.first || c->group == group) && k < c->metric.n; k++) {
			used[c->metric.v[k]] = true;
		}
	}
	for (size_t i = 0; i < d->n_metrics; i++) {
		if (used[i]) {
			ret[n++] = d->metrics[i];
		}
	}
	return n;
}

/* Does gpu__time_duration.sum fit into this group without another pass? */
static int try_duration(struct draft *d, uint32_t group, bool *ret)
{
	const char *metrics[LIMIT_PLAN_METRICS + 1];
	size_t n = group_metrics(d, group, (struct span){ d->n_columns, 0 }, metrics);
	uint32_t passes = 1;
	bool there = false;
	int code = 0;

	for (size_t i = 0; i < n; i++) {
		there = there || strcmp(metrics[i], duration) == 0;
	}
	if (!there) {
		metrics[n] = duration;
		code = count_passes(d, metrics, n + 1, &passes);
	}
	*ret = code == 0 && passes == 1;
	return code;
}

/* Does it fit into all groups? */
static int try_durations(struct draft *d, uint32_t groups, bool *ret)
{
	int code = 0;

	*ret = groups > 0 && catalogue_has(d->c, duration) && d->n_metrics < LIMIT_PLAN_METRICS;
	for (uint32_t group = 0; code == 0 && *ret && group < groups; group++) {
		code = try_duration(d, group, ret);
	}
	return code;
}

static bool span_blocks(const struct draft *d, struct span span)
{
	bool blocks = false;

	for (size_t i = span.first; i < span.first + span.n; i++) {
		const struct wire_column *c = &d->columns[i];

		for (size_t k = 0; k < c->metric.n; k++) {
			blocks = blocks || metric_blocks(d->metrics[c->metric.v[k]]);
		}
	}
	return blocks;
}

/* Does a range with the span's metrics cost as much as one with the group's? True for an empty
 * group. */
static bool costs_alike(const struct draft *d, uint32_t group, struct span span)
{
	const struct span none = { span.first, 0 };
	const char *metrics[LIMIT_PLAN_METRICS];
	size_t n = group_metrics(d, group, none, metrics);

	return d->mixes || n == 0 || metrics_block(metrics, n) == span_blocks(d, span);
}

/* The first group that the span fits into, or a new one; NO_GROUP when it does not fit alone. */
static int find_group(struct draft *d, struct span span, uint32_t groups, uint32_t *ret)
{
	const char *metrics[LIMIT_PLAN_METRICS];

	for (uint32_t group = 0; group <= groups; group++) {
		size_t n = group_metrics(d, group, span, metrics);
		uint32_t passes = 0;
		int code = costs_alike(d, group, span) ? count_passes(d, metrics, n, &passes) : 0;

		if (code != 0) {
			return code;
		}
		if (passes == 1) {
			*ret = group;
			return 0;
		}
	}
	*ret = NO_GROUP;
	return 0;
}

static int refuse_time(struct draft *d, uint32_t passes)
{
	refusal_set(d->r, GPUCTR_E_TOO_MANY_METRICS,
		    "Ask for fewer at a time; metrics of one unit fit together most often.",
		    "these %zu columns need %u passes, and how to divide them takes too long to "
		    "find out",
		    d->n_columns, passes);
	return d->r->code;
}

/* Leaves the span without a group where it does not fit into one. */
static int assign_span(struct draft *d, struct span span, uint32_t passes, uint32_t *groups)
{
	uint32_t group = NO_GROUP;
	int code = clock_now_ns() >= d->by_ns ? refuse_time(d, passes)
					      : find_group(d, span, *groups, &group);

	for (size_t i = span.first; i < span.first + span.n; i++) {
		d->columns[i].group = group;
	}
	*groups += code == 0 && group == *groups;
	return code;
}

/* The columns from first on with the same wanted name. */
static struct span find_span(const struct draft *d, size_t first)
{
	struct span span = { first, 1 };

	while (first + span.n < d->n_columns && d->request[first + span.n] == d->request[first]) {
		span.n++;
	}
	return span;
}

static int assign_groups(struct draft *d, uint32_t passes, uint32_t *ret_groups)
{
	uint32_t groups = 0;
	struct span span;
	int code = 0;

	for (size_t first = 0; code == 0 && first < d->n_columns; first += span.n) {
		span = find_span(d, first);
		code = assign_span(d, span, passes, &groups);
		if (code != 0 || d->columns[first].group != NO_GROUP) {
			continue;
		}
		for (size_t i = 0; code == 0 && span.n > 1 && i < span.n; i++) {
			code = assign_span(d, (struct span){ first + i, 1 }, passes, &groups);
		}
	}
	for (size_t i = 0; i < d->n_columns; i++) {
		d->columns[i].group =
			d->columns[i].group == NO_GROUP ? groups : d->columns[i].group;
	}
	*ret_groups = groups;
	return code;
}

static int finish(struct draft *d, struct wire_plan *ret)
{
	const char **metrics = arena_alloc(d->a, d->n_metrics * sizeof(*metrics));
	struct wire_column *columns = arena_alloc(d->a, d->n_columns * sizeof(*columns));

	if (!metrics || !columns) {
		return out_of_memory(d);
	}
	memcpy(metrics, d->metrics, d->n_metrics * sizeof(*metrics));
	memcpy(columns, d->columns, d->n_columns * sizeof(*columns));
	ret->chip = d->c->host.chip;
	ret->metrics = (struct wire_strings){ d->n_metrics, metrics };
	ret->columns = (struct wire_columns){ d->n_columns, columns };
	return 0;
}

int plan_make(struct catalogue *c, struct arena *a, const struct wire_strings *wanted,
	      plan_other_chips other_chips, void *userdata, uint64_t by_ns, struct wire_plan *ret,
	      struct refusal *r)
{
	struct draft *d = arena_zalloc(a, sizeof(*d));
	int code = 0;

	*ret = (struct wire_plan){ .groups = 1 };
	if (!d || wanted->n == 0) {
		refusal_set(r, GPUCTR_E_BAD_REQUEST, "Name at least one metric.",
			    "the list of metrics is empty");
		return r->code;
	}
	*d = (struct draft){ .c = c, .a = a, .r = r, .by_ns = by_ns };
	for (size_t i = 0; code == 0 && i < wanted->n; i++) {
		d->at = i;
		code = add_wanted(d, wanted->v[i], other_chips, userdata);
	}
	if (code == 0) {
		code = count_passes(d, d->metrics, d->n_metrics, &ret->passes);
	}
	if (code == 0 && ret->passes > 1) {
		code = assign_groups(d, ret->passes, &ret->groups);
	}
	if (code == 0 && ret->groups > LIMIT_GROUPS) { /* more groups than can take turns */
		d->mixes = true;
		code = assign_groups(d, ret->passes, &ret->groups);
	}
	if (code == 0) {
		code = try_durations(d, ret->groups, &ret->fits_duration);
	}
	return code == 0 ? finish(d, ret) : code;
}
