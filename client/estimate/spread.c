/* SPDX-License-Identifier: Apache-2.0 */

/* How much launches of a stratum differ, over all strata; the formulas' source is in estimate.c. */

#include <math.h>

#include "client/estimate/estimate_internal.h"

/* Derivatives of the logarithm of the gamma function (Abramowitz and Stegun, Handbook of
 * Mathematical Functions, 6.3.5 and 6.3.18, 6.4.6 and 6.4.12). */
static double digamma(double x)
{
	double less = 0, f;

	for (; x < 6; x++) {
		less += 1 / x;
	}
	f = 1 / (x * x);
	return log(x) - 0.5 / x - f * (1.0 / 12 - f * (1.0 / 120 - f / 252)) - less;
}

static double trigamma(double x)
{
	double more = 0, f;

	for (; x < 6; x++) {
		more += 1 / (x * x);
	}
	f = 1 / (x * x);
	return more + 1 / x + f / 2 + f / x * (1.0 / 6 - f * (1.0 / 30 - f / 42));
}

/* What the logarithm of a variance known with so many degrees of freedom is off by on average. */
static double log_bias(double degrees)
{
	return digamma(degrees / 2) - log(degrees / 2);
}

void estimate_spread_add(struct estimate_spread *s, const struct estimate_sample *sample)
{
	const struct estimate_moments *m = estimate_values(sample);
	double degrees = estimate_degrees(sample);

	for (int i = 0; i < 2; i++) {
		double v, before;

		s->of[i].alike += degrees >= 1 && !estimate_differ(m, i);
		if (degrees < 1 || m->mean[i] == 0 || !estimate_differ(m, i)) {
			continue;
		}
		v = log(m->m2[i] / (m->weight - 1) / (m->mean[i] * m->mean[i])) - log_bias(degrees);
		before = v - s->of[i].mean;
		s->of[i].n++;
		s->of[i].mean += before / s->of[i].n;
		s->of[i].m2 += before * (v - s->of[i].mean);
		s->of[i].noise += trigamma(degrees / 2);
	}
}

/* For which trigamma(launches / 2) is this; it falls. */
static double launches_for(double variance)
{
	double low = 0.1, high = 1000;

	if (variance <= trigamma(high / 2)) {
		return high;
	}
	for (int i = 0; i < 40; i++) {
		double middle = (low + high) / 2;

		if (trigamma(middle / 2) > variance) {
			low = middle;
		} else {
			high = middle;
		}
	}
	return low;
}

struct estimate_prior estimate_spread_prior(const struct estimate_spread *s)
{
	struct estimate_prior p = { { 0, 0 }, { 0, 0 }, { false, false } };

	for (int i = 0; i < 2; i++) {
		double n = s->of[i].n;

		p.constant[i] = n == 0 && s->of[i].alike >= ESTIMATE_STRATA_LEAST;
		if (n >= ESTIMATE_STRATA_LEAST) {
			double launches = launches_for(s->of[i].m2 / (n - 1) - s->of[i].noise / n);

			p.launches[i] = fmin(launches, ESTIMATE_LAUNCHES_MOST);
			p.variance[i] = exp(s->of[i].mean + log_bias(launches));
		}
	}
	return p;
}
