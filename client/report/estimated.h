/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Estimates for all launches of a row of which only some were sampled. All values are estimates
 * unless their kind is ESTIMATE_EXACT. */

#include "client/report/groups.h"

struct estimated {
	uint64_t measured,
		total_measured; /* measured launches of the row; with those nested in it */
	struct estimate launches, total_launches; /* measured or not */
	/* One estimate for each measure, of two values: launches and the measure. */
	struct estimate_total *self, *total;
	struct estimate_total *derived; /* by enum derived_kind, of two values: whole and part */
};

/* The launches of a row; with total, those nested in it as well. An exact count unless the reported
 * error is not 0. */
double group_launches(const struct group *group, bool total);
double group_launches_error(const struct group *group, bool total);

/* The sum of a measure that adds up, the mean of another one. Exact if all launches of the row were
 * measured. NONE: not known. */
struct estimate estimated_self(const struct group *group, const struct measure *m, size_t i);
struct estimate estimated_total(const struct group *group, const struct measure *m, size_t i);
struct estimate estimated_mean(const struct group *group, size_t i);

/* The number of launches of a row, with those nested in it, for which no value of the measure is
 * known. */
uint64_t estimated_unknown(const struct group *group, size_t i);

/* Of n measures, with nothing in it; owner owns it. NULL: out of memory. */
struct estimated *estimated_new(struct texts *owner, size_t n);

/* Adds a row to a sum of other rows; no two of the rows have launches in common. Arrays have n
 * measures. */
void estimated_add(struct estimated *sum, const struct estimated *row, size_t n);

/* "none", "once", "estimate", "exact" */
const char *estimated_kind_name(enum estimate_kind kind);
