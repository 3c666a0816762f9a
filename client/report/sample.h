/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <math.h>
#include <stdint.h>

/* Values of one counter. Values that were not available are left out. */
struct sample {
	uint64_t n;
	double sum, min, max;
	double running, squares; /* running mean, and sum of the squared distances from the mean */
};

/* A sum, and the number of launches in it. */
struct part {
	uint64_t n;
	double sum;
	double ns; /* time of these launches, where times are known */
};

static inline void part_add(struct part *to, struct part part)
{
	to->n += part.n;
	to->sum += part.sum;
	to->ns += part.ns;
}

void sample_add(struct sample *s, double value);
void sample_merge(struct sample *s, const struct sample *other);
/* The sample's standard deviation; NaN for less than two values. */
double sample_deviation(const struct sample *s);
