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

/* What the kernels of a position were given of one metric. */
struct tally {
	double count, ns;
	double given, given_m2; /* mean, squared deviations */
	double off, products;	/* the last deviation; of each with the one before, added up */
	double residual;	/* squared coefficient times squared residual */
	double edge;		/* the sum of what their beginnings and ends make uncertain */
	double begin, end;	/* sums of how much the rate changes there */
	double shared; /* the sum of the variances of what division gave them of shared samples */
	/* How much a sum over the positions of one shape changes with the clocks' shift: its part
	 * of that, so that the root of their squares is the whole. */
	double shift_part;
};

/* The unknowns of one metric: one for each position in steps, and in this window one for each
 * kernel without a position. */
struct metric {
	int64_t shift_ns;
	double shift_error_ns; /* a standard error */
	int shift_known, shift_settled;
	/* Why there is no solution; ATTRIBUTION_MEASURED: there is one. */
	enum attribution_state unsolved, local_unsolved;
	double idle, idle_ns, idle_per_ns; /* outside kernels */
	double moved, moved_ns;		   /* by all kernels */
	double edge_left, edge_steps;	   /* residuals, squared, of samples with several kernels */

	struct profile *profiles; /* by number of shape; NULL: there are none */

	struct normal positions;
	double *solution, *inverse;
	/* The same without profiles, where there are some: by how much these matter. */
	struct normal evens;
	double *even, *even_inverse;
	int even_known;
	struct tally *tallies; /* one a position */

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
	int64_t last_kernel_ns, last_sample_ns; /* when the last of each began, and ended */
	size_t next_samples, next_kernels;
	int apart; /* the clocks */
	int profiles_known;
	struct profile_shapes shapes;
	int64_t shift_least_ns, shift_most_ns;
	uint32_t room; /* of positions */
	struct placed {
		uint64_t kernels; /* that have the position */
		uint32_t shape;
	} * placed;
	uint32_t local_count;
};

/* values.c */
int values_grow(struct attribution *a, uint32_t positions);
/* At the end: the shift is off by the same for all positions. */
int values_share_shift(struct attribution *a);
void values_deinit(struct attribution *a);
/* Attributes the first samples of the window. Positive: the effort is over. */
int values_attribute(struct attribution *a, size_t samples);
/* Calls the user's function. */
void values_tell_state(struct attribution *a, const struct window_kernel *k,
		       enum attribution_state state, const struct attribution_value *values);
/* The same of a kernel that is complete, with what is known of it. */
void values_tell(struct attribution *a, size_t kernel);
