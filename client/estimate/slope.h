/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How one variable goes with another within classes of strata: one slope for all classes, and how
 * far that of a class may be from it. Pure arithmetic. */

#include "client/estimate/estimate.h"

/* Squares and products around the means of classes, over all classes. Starts zeroed. */
struct estimate_regression {
	double xx, xy, yy, degrees;
	double own;	      /* the part of yy that each class's own slope explains, added up */
	double classes, xx_2; /* those in which x differs, and the squares of their xx */
};

/* A class: moments of x and y of its strata, in this order. */
void estimate_regression_add(struct estimate_regression *r, const struct estimate_moments *c);

/* Of y on x, in a class of which nothing but x is known; error is a standard error, and explained
 * the part of yy that x explains. A slope of 0 may be another one, by as much as the error says;
 * all are 0 where too little is known of x and y together. */
struct estimate_slope {
	double slope, error, explained;
};
struct estimate_slope estimate_slope_of(const struct estimate_regression *r);
