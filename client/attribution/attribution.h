/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What each kernel did, from samples of the whole device and from when each kernel ran. Kernels and
 * samples come in the order of their starts, each kernel before the first sample that it ran in;
 * memory is bounded. See docs/internals/attribution.md for the model. Nothing here is thread-safe.
 */

#include <stddef.h>
#include <stdint.h>

#define ATTRIBUTION_METRICS_MAX 16
#define ATTRIBUTION_NO_POSITION UINT32_MAX

enum attribution_state {
	ATTRIBUTION_MEASURED,
	ATTRIBUTION_TOO_SHORT, /* too short to tell: its error is too large */
	ATTRIBUTION_TOGETHER, /* always in the same samples as others, which cannot be told apart */
	ATTRIBUTION_LOST,     /* samples or records of kernels are missing around it */
	ATTRIBUTION_CLOCKS,   /* kernels and samples do not agree on the time */
	ATTRIBUTION_CROWDED,  /* too many kernels at once to be solved */
	ATTRIBUTION_AWAY,     /* it ran while others were sampled, attribution_away() */
	ATTRIBUTION_COSTLY,   /* its value would take too long to calculate, or it was cancelled */
};

struct attribution_kernel {
	uint64_t id;	   /* the caller's, given back */
	uint64_t sequence; /* process and stream: kernels of one run in their order */
	uint64_t step;	   /* of the program's own marks (NVTX); 0: unknown */
	/* Kernels with the same place (a node of a graph) do the same work each time, whatever runs
	 * between them. 0: no place; the sequence of kernels decides. */
	uint64_t place;
	uint32_t shape; /* identifies kernels that are alike: a hash of name, grid and block, or of
			   more */
	int64_t start_ns, end_ns;
};

/* The value of one kernel and its standard error. For a kernel that is too short, the value is only
 * good in sums over many kernels. Both are 0 in the other states. */
struct attribution_value {
	enum attribution_state state;
	double value, error;
	/* Of a position: how far its kernels are apart, as a standard deviation, without what
	 * sampling makes of it. The error of one that no sample has seen has this as well. */
	double spread;
};

/* A kernel's result. With a position in a step, values are those of the position: they are told by
 * attribution_position() and get better until the end, and values is NULL. One that was away has a
 * position as well, if it has one. Without one, or where
 * state is not ATTRIBUTION_MEASURED, they are final: one a metric, valid during the call. */
struct attribution_result {
	uint64_t id;
	uint32_t position;
	enum attribution_state state;
	const struct attribution_value *values;
};

typedef void attribution_on_kernel(void *user, const struct attribution_result *result);

struct attribution_options {
	uint32_t metrics;
	int64_t shift_most_ns; /* largest shift of the clocks, in both directions; 0: 20 us */
	size_t window_samples; /* kept until they are attributed; 0: 1,048,576 */
	attribution_on_kernel *on_kernel;
	/* Every few milliseconds of calculating; not 0: nothing more is calculated, and kernels are
	 * ATTRIBUTION_COSTLY. May be NULL. */
	int (*on_pause)(void *user);
	void *user;
};

struct attribution_counts {
	uint64_t samples;		     /* that came */
	uint64_t bad_kernels, bad_samples;   /* counts of invalid times, and of invalid values */
	uint64_t late_kernels, late_samples; /* that came out of their order, or overlap others */
	uint32_t positions;
	int shift_known;
	/* A sample's time + shift is the time of the kernels that made this metric. */
	int64_t shift_ns[ATTRIBUTION_METRICS_MAX];
	int64_t apart_ns; /* the same, roughly, of clocks that are too far apart; 0: they are not */
	double idle_per_s[ATTRIBUTION_METRICS_MAX]; /* flows while no kernel runs */
};

struct attribution *attribution_new(const struct attribution_options *options);
struct attribution *attribution_free(struct attribution *a);

/* 0, or -ENOMEM; what is wrong with the input is counted and left out. */
int attribution_kernel(struct attribution *a, const struct attribution_kernel *kernel);
int attribution_sample(struct attribution *a, int64_t start_ns, int64_t end_ns,
		       const double *values);
/* Records of kernels that ran in this time are missing. In the order of starts, as kernels. */
int attribution_lost(struct attribution *a, int64_t start_ns, int64_t end_ns);
/* Nothing was sampled in this time, because samples were of something else. Before the sample that
 * ends it, or before the end. */
int attribution_away(struct attribution *a, int64_t start_ns, int64_t end_ns);
/* No more comes: every kernel has had its on_kernel(). */
int attribution_finish(struct attribution *a);

/* The values of a position, one for each metric, and how many kernels that had the position were
 * sampled. */
uint64_t attribution_position(const struct attribution *a, uint32_t position,
			      struct attribution_value *values);
const struct attribution_counts *attribution_counts(const struct attribution *a);
