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

/* The unknowns of one metric: one for each position in steps, and in this window one for each
 * kernel without a position. */
struct metric {
	int64_t shift_ns;
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
	double *residual;	  /* squared coefficient times squared residual */
	double *given, *given_m2; /* what kernels of the position got: mean, squared deviations */
	double *given_count, *given_ns;
	double *edge;	/* the sum of what their beginnings and ends make uncertain */
	double *shared; /* the sum of the variances of what division gave them of shared samples */

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
	uint32_t room;	  /* of positions */
	uint64_t *placed; /* kernels that have each */
	uint32_t local_count;
};

/* tell.c: counts the kernel and calls the user's function. */
void attribution_tell(struct attribution *a, const struct window_kernel *k,
		      enum attribution_state state, const struct attribution_value *values);

/* values.c */
int values_grow(struct attribution *a, uint32_t positions);
void values_deinit(struct attribution *a);
/* Attributes the first samples of the window. Positive: the effort is over. */
int values_attribute(struct attribution *a, size_t samples);
/* Reports a kernel that is complete. */
void values_tell(struct attribution *a, size_t kernel);
