/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The kernels and samples that wait to be attributed, and which of them overlap. */

#include <stddef.h>
#include <stdint.h>

#include "client/attribution/attribution.h"
#include "client/attribution/normal.h"
#include "client/attribution/profile.h"

/* Most kernels in one sample; a sample with more is left out. */
#define WINDOW_CROWD 64

struct window_kernel {
	struct attribution_kernel k;
	uint32_t position, unknown; /* unknown: number in the equations being made */
	uint32_t profile;	    /* number of its shape's profile, or PROFILE_NONE */
	unsigned char placed, local, crowded, seen; /* seen: counted by nodes.c */
	unsigned char costly; /* the effort was over before its value was complete */
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
	double *parts; /* kernels x metrics x 2: share of samples, and ns in samples */
	size_t kernels_used, kernels_room;
	struct window_sample *samples;
	double *values; /* samples x metrics */
	size_t samples_used, samples_room;
	struct window_times lost; /* times in which records of kernels are missing */
	struct window_times away; /* times in which other metrics were sampled */
};

/* A sample and the kernels that ran in it. */
struct window_cell {
	size_t sample;
	uint32_t count;	     /* more than WINDOW_CROWD: the arrays below hold only the first ones */
	const uint32_t *all; /* all its kernels, n_all, at most 1,024 */
	size_t n_all;
	uint32_t kernels[WINDOW_CROWD];
	double overlap_ns[WINDOW_CROWD];
	double from[WINDOW_CROWD], to[WINDOW_CROWD]; /* fractions of the kernel's time */
	double part[WINDOW_CROWD];		     /* fraction of its value, by its profile */
	int lost;				     /* records of kernels are missing */
};

typedef int window_on_cell(void *user, const struct window_cell *cell);

void window_deinit(struct window *w);
/* Add kernels, samples and times in the order of their starts; samples may not overlap. */
int window_add_kernel(struct window *w, const struct attribution_kernel *kernel);
int window_add_sample(struct window *w, int64_t start_ns, int64_t end_ns, const double *values);
int window_add_lost(struct window *w, int64_t start_ns, int64_t end_ns);
int window_add_away(struct window *w, int64_t start_ns, int64_t end_ns);
/* Does one of the times overlap this one? */
int window_overlaps(const struct window_times *times, int64_t start_ns, int64_t end_ns);
/* Forgets lost and away times that ended before. */
void window_forget_times(struct window *w, int64_t before_ns);
/* Calls on_cell() for the samples from to to - 1 in order, until a call does not return 0. Returns
 * that result; positive also when the effort is over. profiles: indexed by window_kernel.profile;
 * NULL: each kernel spreads its value evenly. */
int window_sweep(const struct window *w, size_t from, size_t to, int64_t shift_ns,
		 const struct profile *profiles, window_on_cell *on_cell, void *user);

/* Makes the equation of a cell, with one entry for each unknown, and returns their number. parts:
 * fraction of each kernel's value in the sample, cell->part or another. */
uint32_t window_equation(const struct window *w, const struct window_cell *cell,
			 const double *parts, uint32_t *unknowns, double *coefficients);

/* Divides a sample's value into parts, one for each kernel, in proportion to what is expected of
 * them: values (one for each kernel of the cell) x cell->part. Divides by time if nothing is
 * expected. Returns the sum of the expected parts. */
double window_divide(const struct window_cell *cell, double value, const double *values,
		     double *parts);
