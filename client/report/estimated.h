/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_ESTIMATED_H
#define CLIENT_REPORT_ESTIMATED_H

/* What all launches of a row did, where only some were chosen and measured. Nothing of it is a
 * count but where the kind says exact. */

#include "client/report/groups.h"

struct estimated {
	uint64_t measured, total_measured;	  /* launches; with those nested in the row */
	struct estimate launches, total_launches; /* measured or not */
	/* One a measure. Of two values: launches, and the measure. */
	struct estimate_total *self, *total;
	struct estimate_total *derived; /* by enum derived_kind: whole and part */
};

/* Launches of a row, with those nested in it or without: counted, but where the error that is told
 * with them is not 0. */
double group_launches(const struct group *group, bool total);
double group_launches_error(const struct group *group, bool total);

/* Of a measure that adds up the sum, of another one the mean. Of a row of which everything was
 * measured it is exact. NONE: not known. */
struct estimate estimated_self(const struct group *group, const struct measure *m, size_t i);
struct estimate estimated_total(const struct group *group, const struct measure *m, size_t i);
struct estimate estimated_mean(const struct group *group, size_t i);

/* Launches of a row, with those nested in it, that no value of a measure is of. */
uint64_t estimated_unknown(const struct group *group, size_t i);

/* Adds a row to others, which have no launches in common. Arrays are of n measures. */
void estimated_add(struct estimated *sum, const struct estimated *row, size_t n);

/* "none", "once", "estimate", "exact" */
const char *estimated_kind_name(enum estimate_kind kind);

#endif
