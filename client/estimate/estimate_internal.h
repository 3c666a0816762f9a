/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Inside of this folder: estimate.c has a stratum by itself, spread.c what strata have in common,
 * class.c those of which too little was measured. */

#include "client/estimate/estimate.h"

/* Of the totals of both metrics. */
struct estimate_variance {
	double of[2], covariance;
};

/* Fewer strata say nothing of others, and however alike they are a common variance does not outvote
 * a few launches of the stratum itself. */
#define ESTIMATE_STRATA_LEAST 5
#define ESTIMATE_LAUNCHES_MOST 4.0

/* What variances are taken from. */
const struct estimate_moments *estimate_values(const struct estimate_sample *s);

/* Did they, in this metric? */
bool estimate_differ(const struct estimate_moments *m, int i);

/* Degrees of freedom that the variance of the values is known with. */
double estimate_degrees(const struct estimate_sample *s);

/* Widens a variance that is known with so many degrees of freedom. */
double estimate_student_factor(double degrees);
