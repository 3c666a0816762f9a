/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/passes.h"

#include <string.h>

#include "proto/base/blocking.h"

/* Each pass is a plan of its own, so that the files that configure and evaluate deal with one plan
 * only. Its hardware metrics are those that its columns need, in the order of the whole plan, and
 * its columns refer to them by their new numbers. */

static int out_of_memory(struct refusal *r)
{
	refusal_set(r, GPUCTR_E_TOO_MANY_METRICS, "Ask for fewer metrics.",
		    "the metrics need more room than a capture may take");
	return r->code;
}

/* The hardware metrics of a group, with their new numbers in number[]. */
static bool take_metrics(const struct wire_plan *plan, uint32_t group, struct arena *a,
			 uint32_t *number, struct wire_strings *ret)
{
	const char **v = arena_alloc(a, plan->metrics.n * sizeof(*v));
	bool used[LIMIT_PLAN_METRICS] = { false };
	size_t n = 0;

	for (size_t i = 0; i < plan->columns.n; i++) {
		const struct wire_column *c = &plan->columns.v[i];

		for (size_t k = 0; c->group == group && k < c->metric.n; k++) {
			used[c->metric.v[k]] = true;
		}
	}
	for (size_t i = 0; v && i < plan->metrics.n; i++) {
		if (used[i]) {
			number[i] = (uint32_t)n;
			v[n++] = plan->metrics.v[i];
		}
	}
	*ret = (struct wire_strings){ n, v };
	return v != NULL;
}

static bool take_column(const struct wire_column *in, uint32_t group, struct arena *a,
			const uint32_t *number, struct wire_column *ret)
{
	uint32_t *metric;

	*ret = *in;
	if (in->group != group) {
		ret->metric.n = ret->weight.n = 0;
		return true;
	}
	metric = arena_alloc(a, in->metric.n * sizeof(*metric));
	for (size_t k = 0; metric && k < in->metric.n; k++) {
		metric[k] = number[in->metric.v[k]];
	}
	ret->metric.v = metric;
	return metric != NULL;
}

static bool take_group(const struct wire_plan *plan, uint32_t group, struct arena *a,
		       struct wire_plan *ret)
{
	struct wire_column *columns = arena_alloc(a, plan->columns.n * sizeof(*columns));
	uint32_t number[LIMIT_PLAN_METRICS];
	bool ok = columns != NULL;

	*ret = *plan;
	ok = ok && take_metrics(plan, group, a, number, &ret->metrics);
	for (size_t i = 0; ok && i < plan->columns.n; i++) {
		ok = take_column(&plan->columns.v[i], group, a, number, &columns[i]);
	}
	ret->columns.v = columns;
	return ok;
}

/* The daemon accepts no other plan, so this checks only the message. */
static bool is_sound(const struct wire_plan *plan)
{
	return wire_plan_is_grouped(plan) && plan->groups <= LIMIT_GROUPS &&
	       plan->metrics.n <= LIMIT_PLAN_METRICS;
}

static void see_what_blocks(struct passes *p)
{
	for (uint32_t i = 0; i < p->n; i++) {
		p->may_block[i] = metrics_block(p->v[i].metrics.v, p->v[i].metrics.n);
	}
}

int passes_init(struct passes *p, struct arena *a, const struct wire_plan *plan, struct refusal *r)
{
	if (plan->groups <= 1) {
		p->n = 1;
		p->v[0] = *plan;
		see_what_blocks(p);
		return 0;
	}
	if (!is_sound(plan)) {
		refusal_set(r, GPUCTR_E_PROTOCOL, "Use an agent and daemon of the same release.",
			    "the daemon's plan has %u groups of metrics, of which some cannot be "
			    "measured",
			    plan->groups);
		return r->code;
	}
	p->n = plan->groups;
	for (uint32_t i = 0; i < p->n; i++) {
		if (!take_group(plan, i, a, &p->v[i])) {
			return out_of_memory(r);
		}
	}
	see_what_blocks(p);
	return 0;
}

static void add_metric(struct wire_plan *plan, struct arena *a, const char *name)
{
	size_t n = plan->metrics.n;
	const char **v;

	for (size_t i = 0; i < n; i++) {
		if (strcmp(plan->metrics.v[i], name) == 0) {
			return;
		}
	}
	v = n < LIMIT_PLAN_METRICS ? arena_alloc(a, (n + 1) * sizeof(*v)) : NULL;
	if (v) {
		memcpy(v, plan->metrics.v, n * sizeof(*v));
		v[n] = name;
		plan->metrics = (struct wire_strings){ n + 1, v };
	}
}

void passes_add_metric(struct passes *p, struct arena *a, const char *name)
{
	for (uint32_t i = 0; i < p->n; i++) {
		add_metric(&p->v[i], a, name);
	}
}
