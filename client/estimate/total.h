/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sums over strata: the total of a kernel, of a range, of the program; means and ratios of totals.
 * Launches that the error does not cover are counted beside it. */

#include <stdbool.h>
#include <stdint.h>

#include "client/estimate/estimate.h"

/* Starts zeroed. */
struct estimate_total {
	double value[2], variance[2], covariance;
	uint64_t seen, measured;
	uint64_t once; /* launches of strata with ESTIMATE_ONCE: in the value, not in the error */
	uint64_t unknown; /* launches of strata with ESTIMATE_NONE, which belong to neither */
	uint64_t exact;	  /* launches of strata that were measured completely: the error has no part
			     of them */
};

/* A stratum more. Strata are measured independently of each other, so variances add up (Cochran,
 * Sampling Techniques, 3rd ed., chapter 5); what predicted ones share is in their own. */
void estimate_total_add(struct estimate_total *t, const struct estimate_pair *stratum);
void estimate_total_merge(struct estimate_total *t, const struct estimate_total *more);

/* The first metric's (0) or the second's (1). Kind is GUESS when anything is estimated, NONE when
 * nothing was measured, ONCE when the error holds nothing at all. */
struct estimate estimate_total_of(const struct estimate_total *t, int metric);

/* A launch's mean: the total by the launches that it covers. */
struct estimate estimate_total_mean(const struct estimate_total *t, int metric);

/* Second by first metric, both measured in the same launches. Error by the delta method: for R = Y
 * / X it is the square root of (V(Y) - 2 R C(X, Y) + R^2 V(X)) / X^2 (Cochran, sections 6.4
 * and 6.11: the combined ratio estimate). NONE for X = 0. */
struct estimate estimate_total_ratio(const struct estimate_total *t);

/* Adds a part of a sum; the parts are independent: values and variances add up. */
void estimate_add_up(struct estimate *sum, const struct estimate *part);

/* What x became from y in percent, and the standard error of that, in percent of y. */
struct estimate estimate_change(const struct estimate *x, const struct estimate *y);

/* By how many standard errors of their difference two figures differ: above 2, chance alone would
 * have it so in 5 of 100 cases. NAN where one has no error; of two exact ones that differ it is
 * endless. */
double estimate_distance(const struct estimate *x, const struct estimate *y);

/* The same of two totals from different launches, which know nothing of each other: C = 0. */
struct estimate estimate_ratio(const struct estimate *y, const struct estimate *x);
