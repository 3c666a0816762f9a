/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/budget.h"

#include <stdio.h>

/* What was spent, in words for the end of a capture. */

const char *budget_item_to_string(enum budget_item item)
{
	static const char *const names[BUDGET_ITEMS] = {
		[BUDGET_RANGE_CPU] = "ranges on the CPU",
		[BUDGET_RANGE_GPU] = "ranges on the GPU",
		[BUDGET_START] = "starts",
		[BUDGET_STOP] = "stops",
		[BUDGET_FIRST_START] = "first starts",
		[BUDGET_CALLBACKS] = "CUPTI callbacks",
		[BUDGET_SLOWDOWN] = "slower launches and work",
		[BUDGET_WAIT] = "waiting for the GPU",
	};

	return names[item];
}

const char *budget_source_to_string(enum budget_source source)
{
	static const char *const names[] = {
		[BUDGET_TIMED] = "timed",
		[BUDGET_CALIBRATED] = "calibrated",
		[BUDGET_ASSUMED] = "assumed",
	};

	return names[source];
}

double budget_spent_ns(const struct budget *b)
{
	double spent = 0;

	for (size_t i = 0; i < BUDGET_ITEMS; i++) {
		spent += b->costs[i].total_ns;
	}
	return spent;
}

double budget_spent_share(const struct budget *b, uint64_t now_ns)
{
	uint64_t elapsed = now_ns > b->options.now_ns ? now_ns - b->options.now_ns : 0;

	return elapsed > 0 ? budget_spent_ns(b) / (double)elapsed : 0;
}

double budget_overhead_share(const struct budget *b, uint64_t now_ns)
{
	uint64_t elapsed = now_ns > b->options.now_ns ? now_ns - b->options.now_ns : 0;
	double ns = b->costs[BUDGET_CALLBACKS].total_ns + b->costs[BUDGET_SLOWDOWN].total_ns;

	return elapsed > 0 ? ns / (double)elapsed : 0;
}

int budget_describe(const struct budget *b, uint64_t now_ns, char *text, size_t bytes)
{
	int n = snprintf(text, bytes, "spent %.4g %% of %.1f s (%.4g %% granted)",
			 100 * budget_spent_share(b, now_ns),
			 (double)(now_ns - b->options.now_ns) * 1e-9, 100 * b->options.share);
	const char *between = ": ";

	for (enum budget_item i = 0; i < BUDGET_ITEMS; i++) {
		const struct budget_cost *c = &b->costs[i];
		size_t at = n < 0 ? bytes : (size_t)n < bytes ? (size_t)n : bytes;

		if (c->n > 0) {
			n += snprintf(text + at, bytes - at, "%s%s %.1f ms (%llu, %s)", between,
				      budget_item_to_string(i), c->total_ns * 1e-6,
				      (unsigned long long)c->n, budget_source_to_string(c->source));
			between = ", ";
		}
	}
	return n;
}
