/* SPDX-License-Identifier: Apache-2.0 */
#include "client/report/counted.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sampled part of a bin that counts as no further GPU: it comes from a neighbouring bin. */
#define SLACK 0.05

int counted_init(struct counted *c, size_t n_values)
{
	*c = (struct counted){ .n_values = n_values };
	c->row = calloc(2 * n_values + 1, sizeof(double));
	return c->row ? timeline_init(&c->timeline, 2 * n_values + 1) : -ENOMEM;
}

void counted_deinit(struct counted *c)
{
	timeline_deinit(&c->timeline);
	free(c->row);
	*c = (struct counted){ 0 };
}

static void note_gpu(struct counted *c, const char *gpu)
{
	size_t i = 0;

	while (i < c->n_gpus && strncmp(c->gpus[i], gpu, COUNTED_UUID_BYTES - 1) != 0) {
		i++;
	}
	if (i == c->n_gpus && i < COUNTED_GPUS_MAX) {
		strncpy(c->gpus[c->n_gpus++], gpu, COUNTED_UUID_BYTES - 1);
	}
}

void counted_add(struct counted *c, const char *gpu, int64_t start_ns, int64_t end_ns,
		 const double *values)
{
	double ns = (double)end_ns - (double)start_ns;

	note_gpu(c, gpu);
	for (size_t i = 0; i < c->n_values; i++) {
		c->row[i] = values[i];
		c->row[c->n_values + i] = isfinite(values[i]) ? ns : 0;
	}
	c->row[2 * c->n_values] = ns;
	timeline_add(&c->timeline, start_ns, c->row);
}

static double at(const struct counted *c, size_t row, size_t bin)
{
	return c->timeline.sums[row * TIMELINE_BINS + bin];
}

const double *counted_sums(const struct counted *c, size_t value)
{
	return c->timeline.sums + value * TIMELINE_BINS;
}

/* Number of GPUs that were sampled in a bin. Samples may be longer than a bin, and GPUs may be
 * sampled one after the other. */
static double gpus_in(const struct counted *c, size_t bin)
{
	double n = ceil(at(c, 2 * c->n_values, bin) / (double)c->timeline.bin_ns - SLACK);

	return fmax(1, fmin(n, (double)c->n_gpus));
}

double counted_part(const struct counted *c, size_t value, size_t bin)
{
	return at(c, c->n_values + value, bin) / ((double)c->timeline.bin_ns * gpus_in(c, bin));
}
