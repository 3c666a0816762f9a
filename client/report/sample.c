/* SPDX-License-Identifier: Apache-2.0 */

/* Running figures of a sample. Sums of whole numbers are exact up to 2^53, whatever the order; mean
 * and squares follow Welford, and Chan et al. where two samples are put together, so that a large
 * mean does not hide a small spread. */

#include "client/report/sample.h"

void sample_add(struct sample *s, double value)
{
	double off;

	if (isnan(value)) {
		return;
	}
	if (s->n++ == 0) {
		s->min = s->max = value;
	}
	s->sum += value;
	off = value - s->mean;
	s->mean += off / (double)s->n;
	s->squares += off * (value - s->mean);
	s->min = value < s->min ? value : s->min;
	s->max = value > s->max ? value : s->max;
}

void sample_merge(struct sample *s, const struct sample *other)
{
	double n = (double)s->n, m = (double)other->n, off = other->mean - s->mean;

	if (other->n == 0) {
		return;
	}
	if (s->n == 0) {
		*s = *other;
		return;
	}
	s->sum += other->sum;
	s->mean += off * m / (n + m);
	s->squares += other->squares + off * off * n * m / (n + m);
	s->min = other->min < s->min ? other->min : s->min;
	s->max = other->max > s->max ? other->max : s->max;
	s->n += other->n;
}

double sample_deviation(const struct sample *s)
{
	return s->n < 2 ? NAN : sqrt(s->squares / (double)(s->n - 1));
}
