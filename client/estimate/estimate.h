/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What all launches of a stratum did, from those of them that were measured, and how far that may
 * be from the truth. A sample is of one stratum and one metric, or of two metrics that were
 * measured in the same launches, when their ratio is wanted. Pure arithmetic: no allocation, no
 * lock. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Weighted moments of two variables. */
struct estimate_moments {
	double weight;
	double mean[2], m2[2]; /* m2: weighted squares around the mean */
	double cross;	       /* weighted products around the means */
};
/* Adds one value with its weight to both moments. */
void estimate_moments_add(struct estimate_moments *m, double weight, const double v[2]);

/* Launches that came in one turn, where metrics take turns: their weights, and weighted distances
 * to the pivot; and squares and products of these over all turns that have ended. */
struct estimate_turns {
	uint64_t turn, n; /* the one under way, and how many have ended */
	double weight, apart[2];
	double weight_2, weight_apart[2], apart_2[2], cross;
	double pivot[2]; /* the first launch's values, so that equal ones are 0 apart */
};

/* Starts zeroed. Launches whose chance was 1 stand for themselves only; the others are free. */
struct estimate_sample {
	uint64_t n, n_free;
	double sum[2], lost[2];		/* what rounding took from the sum */
	struct estimate_moments all;	/* each launch once */
	struct estimate_moments free;	/* of those that are, each once */
	struct estimate_moments odds;	/* each by how many unmeasured ones it stands for */
	struct estimate_moments square; /* each by the square of that */
	struct estimate_turns turns;
};

enum estimate_kind {
	ESTIMATE_NONE,	/* nothing was measured: there is no value */
	ESTIMATE_ONCE,	/* a single launch, turn or stratum represents others, so the error is not
			   known */
	ESTIMATE_GUESS, /* value and error */
	ESTIMATE_EXACT, /* every launch was measured: the error is 0 */
};

/* The total over a stratum. The error is a standard error: the truth is within one of it in 68 of
 * 100 cases and within two in 95, as far as the stratum is as its sample; where few launches were
 * measured it is larger, so that two still hold 95. NAN where there is none. */
struct estimate {
	enum estimate_kind kind;
	double value, error;
	uint64_t seen, measured;
};

/* A launch that was measured: its value (and that of the second metric, or 0), and the chance that
 * it had, above 0 and at most 1. What is not a number must be left out by the caller. */
void estimate_add(struct estimate_sample *s, double x, double y, double chance);

/* The same where metrics take turns: turn is above 0, and grows from one to the next. Launches of
 * one turn may have more in common than chance has it, so that the error is that of so many turns;
 * one turn counts for one launch. */
void estimate_add_in_turn(struct estimate_sample *s, double x, double y, double chance,
			  uint64_t turn);

/* Adds the sample of another process, or of another part of the run, of the same stratum. */
void estimate_merge(struct estimate_sample *s, const struct estimate_sample *other);

/* What a part of a stratum's launches measured, as a sample of the whole stratum: the others, of
 * which whole has the sample, have the value 0. Of how many launches the part is need not be known
 * then: the total over it is estimated with that of the stratum (Cochran, Sampling Techniques, 3rd
 * ed., section 2.13, totals over subpopulations), and so is the number of its launches, by a value
 * that is 1 in each. */
void estimate_widen(struct estimate_sample *part, const struct estimate_sample *whole);

/* Was so little measured (nothing, one launch, or one turn) that the error is not known? */
bool estimate_lacks(const struct estimate_sample *s, uint64_t seen);

/* The total of the first metric over all launches of the stratum, of which seen were counted. */
struct estimate estimate_total(const struct estimate_sample *s, uint64_t seen);

/* What the strata of a program have in common: the variance of their launches relative to the mean.
 * Starts zeroed; takes the samples of whole strata. */
struct estimate_spread {
	struct {
		double n, mean, m2; /* of the logarithms of relative variances */
		double noise;	    /* variance that these have from chance, added up */
		double alike;	    /* strata of several launches that did not differ */
	} of[2];
};
void estimate_spread_add(struct estimate_spread *s, const struct estimate_sample *sample);

/* The common variance is worth so many launches, and is this part of the squared mean. 0: nothing
 * is known. constant: in each of several strata all launches were equal. */
struct estimate_prior {
	double launches[2], variance[2];
	bool constant[2];
};
struct estimate_prior estimate_spread_prior(const struct estimate_spread *s);

/* Variance and covariance of both totals, for sums and ratios over strata: value[i] +-
 * sqrt(variance[i]). Returns what estimate_total() says of the first. */
struct estimate_pair {
	enum estimate_kind kind;
	double value[2], variance[2], covariance;
	uint64_t seen, measured;
};
struct estimate_pair estimate_pair(const struct estimate_sample *s, uint64_t seen);

/* The assumed value of an unmeasured launch, in one of the two metrics; NAN: no launch was
 * measured. */
double estimate_mean(const struct estimate_sample *s, int metric);

/* The same for a whole stratum, using what is known of similar strata. */
struct estimate_pair estimate_pair_among(const struct estimate_sample *s, uint64_t seen,
					 const struct estimate_prior *prior);

/* What the strata of one kind have shown; each stratum counts the same. Starts zeroed. */
struct estimate_class {
	struct estimate_moments means;
	double degrees, within[2]; /* squares around the means of the strata, added up */
	double inverse;		   /* 1 / launches that a mean is of, added up */
	double shared[2];	   /* the same, times the launches that it stands for */
};

/* The relative size of a stratum in its class, in both metrics; and the relative change of that
 * size if the predicting metric is one standard error higher. */
struct estimate_size {
	double unit[2], off[2];
};

/* A stratum of the class, with so many launches; one of which nothing was measured says nothing.
 * Where strata have sizes the class knows means for each unit; NULL: all have 1. */
void estimate_class_add(struct estimate_class *c, const struct estimate_sample *stratum,
			uint64_t seen, const struct estimate_size *size);

/* How strata of a class differ in parts of its mean, over all classes: the sum of their squares and
 * of their degrees of freedom. Starts zeroed. */
struct estimate_among {
	double squares[2], degrees;
};
void estimate_among_add(struct estimate_among *a, const struct estimate_class *c);

/* Strata of which little or nothing was measured: what was, all launches that they have, and of
 * those that were not measured, in both metrics, the sizes, their squares, the squares of each
 * stratum's sum of sizes, and by how much sizes are off together, all added up. Starts zeroed. */
struct estimate_lacking {
	struct estimate_sample own;
	uint64_t seen;
	double left[2], left_2[2], squares[2], off[2];
};
void estimate_lacking_add(struct estimate_lacking *l, const struct estimate_sample *stratum,
			  uint64_t seen, const struct estimate_size *size);

/* These, predicted from all of the class. The error holds what it has in common with those of the
 * class's strata, to which it is added. What other classes have shown counts for one more of its
 * strata: among is of all, this one with them; or NULL. ESTIMATE_ONCE where so few strata tell, of
 * this class and of all, that what differs from them may not have been met; NONE where none does.
 */
struct estimate_pair estimate_pair_like(const struct estimate_class *c,
					const struct estimate_lacking *lacking,
					const struct estimate_among *among);

/* Two predictions from one class's strata, a as they are and b for each unit of size: what both
 * have from these is added to a's variance, for both to be added up. */
struct estimate_like {
	const struct estimate_class *class;
	const struct estimate_lacking *lacking;
	const struct estimate_among *among;
};
void estimate_pair_share(struct estimate_pair *p, const struct estimate_like *a,
			 const struct estimate_like *b);
