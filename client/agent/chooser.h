/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The chooser decides at random which launches are measured. It computes each launch's chance
 * before the launch runs, so the chance does not depend on the measured value. A record with chance
 * c therefore represents 1/c launches, and estimates from records and their chances are unbiased
 * whatever the program does (see client/estimate and docs/internals/budget.md).
 *
 * The budget (budget.h) decides how many launches may be measured; chooser_grant() passes that on.
 *
 * Any thread may call chooser_take(), which takes no lock, and chooser_note() at any time. The
 * caller serialises calls of the other functions. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/agent/lock.h"
#include "client/agent/strata.h"

enum { CHOOSER_METRICS_MAX = 128 };

struct choice {
	bool measure;
	float chance; /* the probability of being measured; 0: no credit was left */
};

struct chooser_options {
	uint64_t seed;	  /* different in each process that shares a capture */
	uint32_t metrics; /* columns of all passes together, at most CHOOSER_METRICS_MAX */
};

/* The state of one stratum in one pass. */
struct chooser_state {
	_Atomic uint32_t taken; /* launches that were chosen */
	_Atomic uint32_t below; /* the same for its descendants, whose keys have more fields */
	_Atomic float gain;	/* the benefit of measuring another launch */
};

struct chooser_moments {
	double n, mean, m2;
};

/* What the chooser learnt of a pass while launches were chosen for it. */
struct chooser_pass {
	double per_s; /* total gain of the launches made in a second; 0: not known yet */
	double boost;
	/* Seen since per_s was last computed: */
	double gain, launches;
	uint64_t elapsed_ns;
	/* The largest credit granted recently, and when. A part of it must be left before a
	 * stratum's first launch is certain to be measured. */
	double most;
	uint64_t most_ns;
	_Atomic float gain_once; /* the average gain of strata with one measured launch */
};

/* A metric's mean over launches, and the relative variance within strata, over all strata, as far
 * as known. */
struct chooser_scale {
	double weight, mean;
	double degrees, squares;
};

struct chooser {
	struct strata *strata; /* borrowed; has the same number of passes */
	uint64_t seed;
	uint32_t metrics;
	struct chooser_state *states; /* [stratum * passes + pass] */
	/* Set by each grant. */
	_Atomic int64_t credit; /* launches that may still be chosen */
	_Atomic int64_t full; /* chances are as planned from this credit upwards, lower below it */
	_Atomic int64_t most; /* the largest recent credit of this pass */
	_Atomic float rate;   /* chance of a launch, for each unit of gain */
	_Atomic float few;    /* the term few of chooser.c */
	_Atomic uint64_t demand;    /* total gain of the launches that were made, in 1/1024 */
	_Atomic uint64_t offered;   /* the number of these launches */
	_Atomic uint64_t few_taken; /* chosen because their stratum has few launches */
	_Atomic uint64_t chosen, withheld;
	struct chooser_pass *passes; /* [pass] */
	uint32_t pass;
	uint64_t now_ns;     /* when the last grant came */
	uint64_t resumed_ns; /* when the program last continued after a pause that we caused */
	uint64_t looked_ns;  /* launches until then are in the pass's demand */
	double few_left, launches_per_s;
	uint64_t few_before, demand_before, offered_before;
	struct lock lock;		 /* protects the values below */
	struct chooser_moments *moments; /* [stratum * metrics + metric] */
	struct chooser_scale scales[CHOOSER_METRICS_MAX];
};

/* Nothing is granted yet. -ENOMEM, -EINVAL. */
int chooser_init(struct chooser *c, struct strata *strata, const struct chooser_options *options);
void chooser_deinit(struct chooser *c);

/* To be called at every launch that may be measured. Counts the launch in its stratum, for the pass
 * that is configured now. */
struct choice chooser_take(struct chooser *c, uint32_t stratum, uint32_t pass);

/* What may be chosen from now on. */
struct chooser_grant {
	int64_t credit; /* launches */
	int64_t full;	/* the average credit in steady operation */
	double per_s;	/* the regular income */
	uint64_t now_ns;
	uint32_t pass; /* the pass for which launches are chosen from now on */
};

/* To be called about ten times a second, and when another pass begins. */
void chooser_grant(struct chooser *c, const struct chooser_grant *grant);

/* Sampling begins: launches before now do not count as withheld. */
void chooser_begin(struct chooser *c, uint64_t now_ns);

/* The agent held the program up until now; the chooser does not take that time for one without
 * launches. */
void chooser_resume(struct chooser *c, uint64_t now_ns);

/* Notes the measured values of a chosen launch: one for each metric, NAN for metrics of other
 * passes. */
void chooser_note(struct chooser *c, uint32_t stratum, uint32_t pass, float chance,
		  const double *values);

/* The number of launches that were chosen, and of those made while no credit was left. */
uint64_t chooser_chosen(struct chooser *c);
uint64_t chooser_withheld(struct chooser *c);
