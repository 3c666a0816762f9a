/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/unit/unit.h"

#include "client/agent/budget.h"

/* Budgets of one pass, for tests that look at single accounts. */

#define MS UINT64_C(1000000)
#define S UINT64_C(1000000000)

static inline struct budget open_at(double share, uint64_t now_ns)
{
	const struct budget_options options = { .share = share, .passes = 1, .now_ns = now_ns };
	struct budget b;

	assert_int_equal(budget_init(&b, &options), 0);
	return b;
}

/* What is no range's. */
static inline void waste(struct budget *b, uint64_t now_ns, double ns)
{
	budget_note_wait(b, now_ns, ns);
	b->waited_ns = 0;
}
