/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The kernels and samples that wait to be attributed, and which of them overlap. */

#include <stddef.h>
#include <stdint.h>

#include "client/attribution/attribution.h"
#include "client/attribution/normal.h"
#include "client/attribution/profile.h"

/* Kernels in one sample; one that has more is left out. */
#define WINDOW_CROWD 64

struct window_kernel {
	struct attribution_kernel k;
	uint32_t position, unknown; /* unknown: of the equations that are being made */
	uint32_t profile;	    /* of its shape, or PROFILE_NONE */
	unsigned char placed, local, crowded, seen; /* seen: by nodes.c */
	unsigned char costly; /* the effort was over before all of it was calculated */
};

struct window_sample {
	int64_t start_ns, end_ns;
};

struct window_time {
	int64_t start_ns, end_ns;
};

struct window_times {
	struct window_time *v;
	size_t used, room;
};

struct window {
	uint32_t metrics;
	struct effort *effort;	       /* borrowed; NULL: no bound */
	struct window_kernel *kernels; /* by start */
	double *parts; /* kernels x metrics x 2: what samples gave, and ns of them */
	size_t kernels_used, kernels_room;
	struct window_sample *samples;
	double *values; /* samples x metrics */
	size_t samples_used, samples_room;
	struct window_times lost; /* records of kernels that are missing */
	struct window_times away; /* samples that were of something else */
};

/* A sample and the kernels that ran in it. */
struct window_cell {
	size_t sample;
	uint32_t count;	     /* more than WINDOW_CROWD: crowded, and only that many are here */
	const uint32_t *all; /* n_all of them, at most 1,024 */
	size_t n_all;
	uint32_t kernels[WINDOW_CROWD];
	double overlap_ns[WINDOW_CROWD];
	double from[WINDOW_CROWD], to[WINDOW_CROWD]; /* of the kernel's time */
	double part[WINDOW_CROWD];		     /* of its value, by its profile */
	int lost;				     /* records are missing */
};

typedef int window_on_cell(void *user, const struct window_cell *cell);

void window_deinit(struct window *w);
/* Each in the order of starts; samples do not overlap. */
int window_add_kernel(struct window *w, const struct attribution_kernel *kernel);
int window_add_sample(struct window *w, int64_t start_ns, int64_t end_ns, const double *values);
int window_add_lost(struct window *w, int64_t start_ns, int64_t end_ns);
int window_add_away(struct window *w, int64_t start_ns, int64_t end_ns);
/* Does one of the times overlap this one? */
int window_overlaps(const struct window_times *times, int64_t start_ns, int64_t end_ns);
/* Of those above, what ended before. */
void window_forget_times(struct window *w, int64_t before_ns);
/* Calls for samples from, to - 1 in their order, until something else than 0 comes back, or the
 * effort is over, which is positive.
 * profiles: by kernels' numbers, or NULL: each kernel spreads its value evenly. */
int window_sweep(const struct window *w, size_t from, size_t to, int64_t shift_ns,
		 const struct profile *profiles, window_on_cell *on_cell, void *user);

/* The equation of a cell, one entry an unknown. parts: of each kernel's value, cell->part or
 * another. */
uint32_t window_equation(const struct window *w, const struct window_cell *cell,
			 const double *parts, uint32_t *unknowns, double *coefficients);

/* Divides a sample's value among its kernels in proportion to what is expected of each: its value
 * (one a kernel of the cell) x the part of it that the sample has. By time where nothing is
 * expected. Returns the sum of what is expected. */
double window_divide(const struct window_cell *cell, double value, const double *values,
		     double *parts);
