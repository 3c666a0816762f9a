/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/wire_layout.h"

/* Checks relations between the fields of a message. */

bool wire_check_plan(const void *plain)
{
	const struct wire_plan *p = plain;

	for (size_t i = 0; i < p->columns.n; i++) {
		const struct wire_column *c = &p->columns.v[i];

		if (c->metric.n != c->weight.n) {
			return false;
		}
		for (size_t k = 0; k < c->metric.n; k++) {
			if (c->metric.v[k] >= p->metrics.n) {
				return false;
			}
		}
	}
	return true;
}

bool wire_check_tenants(const void *plain)
{
	const struct wire_tenants_reply *t = plain;

	return t->gpu.n == t->pid.n;
}

const struct wire_column *wire_plan_find_ungrouped(const struct wire_plan *plan)
{
	for (size_t i = 0; i < plan->columns.n; i++) {
		if (plan->columns.v[i].group >= plan->groups) {
			return &plan->columns.v[i];
		}
	}
	return NULL;
}

bool wire_plan_is_grouped(const struct wire_plan *plan)
{
	return !wire_plan_find_ungrouped(plan);
}
