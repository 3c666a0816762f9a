/* SPDX-License-Identifier: Apache-2.0 */

/* The regression within classes: b = sum(xy) / sum(xx) of squares and products around the means of
 * the classes (Cochran, Sampling Techniques, 3rd ed., section 7.10; Snedecor and Cochran,
 * Statistical Methods, 8th ed., chapter 18). With f degrees of freedom of yy the variance of b is
 * s^2 / xx, where s^2 = (yy - xy^2 / xx) / (f - 1).
 *
 * Classes may have slopes of their own, with the variance t^2 around b. What these explain beyond b
 * has C - 1 degrees of freedom of C classes and is expected to be (C - 1) s^2 + t^2 (xx -
 * sum(xx_c^2) / xx), with s^2 of what they leave (Snedecor and Cochran, chapter 18; the method of
 * moments of DerSimonian and Laird, Controlled Clinical Trials 7, 1986, for weights xx_c). A class
 * of which too little is known for a slope has one that is off by both: s^2 / xx + t^2. The first
 * s^2 is of all that b leaves, so that it holds what slopes that differ make of b.
 *
 * The best one of many variables goes together with y by chance as well. So a slope is one only
 * where its square is more than 15 times s^2 / xx, which none of 60 is by chance in 96 of 100 cases
 * with 20 degrees of freedom. Where it is less the slope may be 0, or what it seems to be: 0 is
 * told, with an error that has both. */

#include "client/estimate/slope.h"

#include <math.h>

#include "client/estimate/estimate_internal.h"

/* Fewer say nothing of how two variables go together. */
#define DEGREES_LEAST 8.0
/* F of one degree of freedom that is no chance. */
#define F_LEAST 15.0

void estimate_regression_add(struct estimate_regression *r, const struct estimate_moments *c)
{
	if (c->weight < 2) {
		return;
	}
	r->degrees += c->weight - 1;
	r->xx += c->m2[0];
	r->xy += c->cross;
	r->yy += c->m2[1];
	if (estimate_differ(c, 0)) {
		r->classes++;
		r->xx_2 += c->m2[0] * c->m2[0];
		r->own += c->cross * c->cross / c->m2[0];
	}
}

/* The variance of the classes' slopes beyond what chance makes of them. */
static double variance_of_slopes(const struct estimate_regression *r)
{
	double differ = r->own - r->xy * r->xy / r->xx, left = r->yy - r->own;
	double degrees = r->degrees - r->classes, effective = r->xx - r->xx_2 / r->xx;
	double chance = degrees > 0 ? fmax(left, 0) / degrees : 0;

	differ -= (r->classes - 1) * chance;
	return r->classes > 1 && differ > 0 && effective > 0 ? differ / effective : 0;
}

struct estimate_slope estimate_slope_of(const struct estimate_regression *r)
{
	struct estimate_slope s = { 0, 0, 0 };
	double variance;

	if (r->degrees < DEGREES_LEAST || !(r->xx > 0) || !(r->yy > 0)) {
		return s;
	}
	s.slope = r->xy / r->xx;
	s.explained = r->xy * r->xy / (r->xx * r->yy);
	variance = fmax(r->yy - s.slope * r->xy, 0) / ((r->degrees - 1) * r->xx);
	s.error = sqrt(variance * estimate_student_factor(r->degrees - 1) + variance_of_slopes(r));
	if (!(s.slope * s.slope > F_LEAST * variance)) {
		s.error = hypot(s.error, s.slope);
		s.slope = 0;
	}
	return s;
}
