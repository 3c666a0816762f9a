/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Calculates what each kernel did, from samples of the whole device and the times at which kernels
 * ran. The caller passes kernels and samples in the order of their starts, and each kernel before
 * the first sample in which it ran. Memory is bounded. See docs/internals/attribution.md for the
 * model. Nothing here is thread-safe. */

#include <stddef.h>
#include <stdint.h>

#define ATTRIBUTION_METRICS_MAX 16
#define ATTRIBUTION_NO_POSITION UINT32_MAX

enum attribution_state {
	ATTRIBUTION_MEASURED,
	ATTRIBUTION_TOO_SHORT, /* so short that the error of its value is too large */
	ATTRIBUTION_TOGETHER,  /* always in the same samples as others, so not separable */
	ATTRIBUTION_LOST,      /* samples or records of kernels are missing around it */
	ATTRIBUTION_CLOCKS,    /* kernels and samples do not agree on the time */
	ATTRIBUTION_CROWDED,   /* too many kernels at once to be solved */
	ATTRIBUTION_AWAY,      /* it ran while other metrics were sampled: attribution_away() */
	ATTRIBUTION_COSTLY,    /* it takes too long to calculate, or on_pause() cancelled */
};

struct attribution_kernel {
	uint64_t id;	   /* chosen by the caller, returned in the result */
	uint64_t sequence; /* identifies process and stream, whose kernels run in order */
	uint64_t step;	   /* number of the program's step, by its NVTX marks; 0: unknown */
	/* Kernels with the same place (a node of a graph) do the same work each time, whatever runs
	 * between them. 0: no place; the sequence of kernels decides. */
	uint64_t place;
	uint32_t shape; /* identifies kernels that are alike: a hash of name, grid and block, or of
			   more */
	int64_t start_ns, end_ns;
};

/* The value of one kernel and its standard error. In ATTRIBUTION_TOO_SHORT the value is only good
 * in sums over many kernels. Both are 0 in states other than this and ATTRIBUTION_MEASURED. */
struct attribution_value {
	enum attribution_state state;
	double value, error;
	/* For a position: standard deviation of its kernels' values, without the part that dividing
	 * samples adds. The error of a kernel that no sample covers includes this as well. */
	double spread;
};

/* A kernel's result. Kernels with a position in a step share the values of that position, which
 * attribution_position() returns and which get better until the end. position is only set in the
 * states ATTRIBUTION_MEASURED and ATTRIBUTION_AWAY. values is set for a measured kernel without a
 * position: one final value for each metric, valid during the call; else NULL. */
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
	size_t window_samples; /* most samples that wait for attribution; 0: 1,048,576 */
	attribution_on_kernel *on_kernel;
	/* Called every few milliseconds of calculation. When it does not return 0, the calculation
	 * ends, and the kernels that are left are ATTRIBUTION_COSTLY. May be NULL. */
	int (*on_pause)(void *user);
	void *user;
};

struct attribution_counts {
	uint64_t samples;		     /* samples received */
	uint64_t bad_kernels, bad_samples;   /* counts of those with invalid times or values */
	uint64_t late_kernels, late_samples; /* out of order, or overlapping others */
	uint32_t positions;
	int shift_known;
	/* Added to a sample's time, it gives the time of the kernels that this metric counted. */
	int64_t shift_ns[ATTRIBUTION_METRICS_MAX];
	int64_t apart_ns; /* rough shift of clocks that are too far apart; 0: they are not */
	double idle_per_s[ATTRIBUTION_METRICS_MAX]; /* counted without kernels */
};

struct attribution *attribution_new(const struct attribution_options *options);
struct attribution *attribution_free(struct attribution *a);

/* Return 0 or -ENOMEM. Invalid input is counted in attribution_counts and left out. */
int attribution_kernel(struct attribution *a, const struct attribution_kernel *kernel);
int attribution_sample(struct attribution *a, int64_t start_ns, int64_t end_ns,
		       const double *values);
/* Says that records of kernels of this time are missing. Call it in the order of starts. */
int attribution_lost(struct attribution *a, int64_t start_ns, int64_t end_ns);
/* Says that these metrics were not sampled in this time, because others were. Call it before the
 * first sample after that time, or before attribution_finish(). */
int attribution_away(struct attribution *a, int64_t start_ns, int64_t end_ns);
/* Ends the input. When it returns 0, on_kernel() has been called for every kernel. */
int attribution_finish(struct attribution *a);

/* Fills values, one for each metric, with those of a position. Returns how many kernels of the
 * position were sampled. */
uint64_t attribution_position(const struct attribution *a, uint32_t position,
			      struct attribution_value *values);
const struct attribution_counts *attribution_counts(const struct attribution *a);
