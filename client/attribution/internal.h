/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/attribution/attribution.h"
#include "client/attribution/effort.h"
#include "client/attribution/normal.h"
#include "client/attribution/nodes.h"
#include "client/attribution/profile_fit.h"
#include "client/attribution/shift.h"
#include "client/attribution/steps.h"
#include "client/attribution/window.h"

/* Sums over the kernels of a position, for one metric. A kernel is given its shares of samples. */
struct tally {
	double count, ns;
	double given, given_m2; /* mean of what kernels were given, sum of squared deviations */
	double off, products;	/* the last deviation; sum of products of successive deviations */
	double residual;	/* sum of squared coefficients times squared residuals */
	double edge;		/* sum of the errors from kernels' beginnings and ends */
	double begin, end;	/* sums of the changes of rate at beginnings and ends */
	double shared;		/* sum of the variances that dividing shared samples adds */
	/* Part of the change, per ns of the clocks' shift, of the sum over all positions of this
	 * shape: the squares of count x shift_part add up to the square of this change. */
	double shift_part;
};

/* The unknowns of one metric: one for each position in steps, and in this window one for each
 * kernel without a position. */
struct metric {
	int64_t shift_ns;
	double shift_error_ns; /* standard error of shift_ns */
	int shift_known, shift_settled;
	int64_t apart_ns; /* shift beyond the limit at which this metric fits; 0: none */
	/* Why there is no solution; ATTRIBUTION_MEASURED: there is one. */
	enum attribution_state unsolved, local_unsolved;
	double idle, idle_ns, idle_per_ns; /* samples outside kernels: sum, ns, rate */
	double moved, moved_ns;		   /* what all kernels were given, ns of their samples */
	double edge_left, edge_steps;	   /* of shared samples: squared residuals, steps of rate */

	struct profile *profiles; /* by number of shape; NULL: there are none */

	struct normal positions;
	double *solution, *inverse;
	/* Equations for even rates, if there are profiles: they show what profiles change. */
	struct normal evens;
	double *even, *even_inverse;
	int even_known;
	struct tally *tallies; /* one for each position */

	struct normal locals;
	double *local_solution, *local_inverse, *local_residual;
};

struct attribution {
	struct attribution_options options;
	struct effort effort;
	struct attribution_counts counts;
	struct window window;
	struct steps *steps;
	struct nodes *nodes;
	struct metric metrics[ATTRIBUTION_METRICS_MAX];
	int64_t done_ns;			/* samples up to here are attributed */
	int64_t last_kernel_ns, last_sample_ns; /* last kernel's begin, last sample's end */
	size_t next_samples, next_kernels;
	int apart; /* the clocks are too far apart */
	int profiles_known;
	struct profile_shapes shapes;
	int64_t shift_least_ns, shift_most_ns;
	uint32_t room; /* positions for which there is memory */
	struct placed {
		uint64_t kernels; /* kernels that have the position */
		uint32_t shape;
	} * placed;
	uint32_t local_count;
};

/* values.c */
int values_grow(struct attribution *a, uint32_t positions);
/* Fills shift_part, at the end: the error of the shift is the same for all positions. */
int values_share_shift(struct attribution *a);
void values_deinit(struct attribution *a);
/* Attributes the first samples of the window. Positive: the effort is over. */
int values_attribute(struct attribution *a, size_t samples);
/* Calls options.on_kernel(). */
void values_tell_state(struct attribution *a, const struct window_kernel *k,
		       enum attribution_state state, const struct attribution_value *values);
/* Calls on_kernel() for a complete kernel, with its state and values. */
void values_tell(struct attribution *a, size_t kernel);
