/* SPDX-License-Identifier: Apache-2.0 */

/* A time before the first bin moves the sums to later bins and begin_ns back, by whole bins, so
 * that each sum keeps its time. */

#include "client/report/timeline.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BIN_NS = 1000 };

int timeline_init(struct timeline *t, size_t n_values)
{
	*t = (struct timeline){ .n_values = n_values };
	t->sums = calloc(n_values * TIMELINE_BINS + 1, sizeof(double));
	return t->sums ? 0 : -ENOMEM;
}

void timeline_deinit(struct timeline *t)
{
	free(t->sums);
	*t = (struct timeline){ 0 };
}

static void widen(struct timeline *t)
{
	for (size_t v = 0; v < t->n_values; v++) {
		double *sums = &t->sums[v * TIMELINE_BINS];

		for (size_t i = 0; i < TIMELINE_BINS / 2; i++) {
			sums[i] = sums[2 * i] + sums[2 * i + 1];
		}
		memset(&sums[TIMELINE_BINS / 2], 0, TIMELINE_BINS / 2 * sizeof(double));
	}
	t->n_bins = (t->n_bins + 1) / 2;
	t->bin_ns *= 2;
}

/* Returns a time as an unsigned number with the same order, so that no difference overflows. */
static uint64_t order(int64_t ns)
{
	return (uint64_t)ns ^ UINT64_C(1) << 63;
}

static void move_back(struct timeline *t, int64_t at_ns)
{
	uint64_t missing_ns = order(t->begin_ns) - order(at_ns), n;

	while ((n = missing_ns / t->bin_ns + (missing_ns % t->bin_ns > 0)) + t->n_bins >
	       TIMELINE_BINS) {
		widen(t);
	}
	for (size_t v = 0; v < t->n_values; v++) {
		double *sums = &t->sums[v * TIMELINE_BINS];

		memmove(sums + n, sums, t->n_bins * sizeof(double));
		memset(sums, 0, n * sizeof(double));
	}
	t->n_bins += n;
	t->begin_ns = (int64_t)((uint64_t)t->begin_ns - n * t->bin_ns);
}

void timeline_add(struct timeline *t, int64_t at_ns, const double *values)
{
	uint64_t since_ns, bin;

	if (t->bin_ns == 0) {
		t->bin_ns = FIRST_BIN_NS;
		t->begin_ns = at_ns;
	}
	if (at_ns < t->begin_ns) {
		move_back(t, at_ns);
	}
	since_ns = order(at_ns) - order(t->begin_ns);
	while (since_ns / t->bin_ns >= TIMELINE_BINS) {
		widen(t);
	}
	bin = since_ns / t->bin_ns;
	for (size_t v = 0; v < t->n_values; v++) {
		t->sums[v * TIMELINE_BINS + bin] += isfinite(values[v]) ? values[v] : 0;
	}
	t->n_bins = bin >= t->n_bins ? bin + 1 : t->n_bins;
}
