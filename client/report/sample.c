/* SPDX-License-Identifier: Apache-2.0 */

/* Running figures of a sample. Sums of whole numbers are exact up to 2^53, whatever the order, and
 * the mean is the sum by the number. Squared distances are kept from a running mean (Welford; Chan
 * et al. for two samples that are merged), so that a large mean does not hide a small spread. */

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
	off = value - s->running;
	s->running += off / (double)s->n;
	s->squares += off * (value - s->running);
	s->min = value < s->min ? value : s->min;
	s->max = value > s->max ? value : s->max;
}

void sample_merge(struct sample *s, const struct sample *other)
{
	double n = (double)s->n, m = (double)other->n, off = other->running - s->running;

	if (other->n == 0) {
		return;
	}
	if (s->n == 0) {
		*s = *other;
		return;
	}
	s->sum += other->sum;
	s->running += off * m / (n + m);
	s->squares += other->squares + off * off * n * m / (n + m);
	s->min = other->min < s->min ? other->min : s->min;
	s->max = other->max > s->max ? other->max : s->max;
	s->n += other->n;
}

double sample_deviation(const struct sample *s)
{
	return s->n < 2 ? NAN : sqrt(s->squares / (double)(s->n - 1));
}
