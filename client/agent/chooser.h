/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_CHOOSER_H
#define GPUCTR_AGENT_CHOOSER_H

/* Whether a launch is measured. Each launch has a chance, which is known before anything is known
 * of its value, and a random number decides. So a record with chance c stands for 1/c launches, and
 * estimates from records and their chances are right on average whatever the program does (see
 * client/estimate and docs/internals/budget.md).
 *
 * How many may be measured is somebody else's decision (budget.h): chooser_grant() says it.
 *
 * chooser_take() and chooser_note() may be called by any thread at any time, and the former takes
 * no lock; of the others, one at a time. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/agent/lock.h"
#include "client/agent/strata.h"

enum { CHOOSER_METRICS_MAX = 128 };

struct choice {
	bool measure;
	float chance; /* that it was to be measured; 0: nothing was granted */
};

struct chooser_options {
	uint64_t seed;	  /* another one in each process that shares a capture */
	uint32_t metrics; /* columns of all passes, at most CHOOSER_METRICS_MAX */
};

/* Of one stratum under one pass. */
struct chooser_state {
	_Atomic uint32_t taken; /* launches that were chosen */
	_Atomic uint32_t below; /* of the strata that have more in their key */
	_Atomic float gain;	/* what measuring another one is worth */
};

struct chooser_moments {
	double n, mean, m2;
};

/* What a pass has shown while launches were looked at for it. */
struct chooser_pass {
	double per_s; /* gain that is offered; 0: not known yet */
	double boost;
	/* Of this, seen since per_s was last reckoned: */
	double gain, launches;
	uint64_t elapsed_ns;
	/* Credit that was granted of late, of which first launches leave a part, and when. */
	double most;
	uint64_t most_ns;
	_Atomic float gain_once; /* of strata of which one launch was measured, on average */
};

/* A metric's mean over launches, and how launches of a stratum differ in parts of its mean, over
 * all strata: as far as it is known. */
struct chooser_scale {
	double weight, mean;
	double degrees, squares;
};

struct chooser {
	struct strata *strata; /* borrowed; its passes are ours */
	uint64_t seed;
	uint32_t metrics;
	struct chooser_state *states; /* [stratum * passes + pass] */
	/* What the next grant makes of the last ones. */
	_Atomic int64_t credit; /* launches that may still be chosen */
	_Atomic int64_t full;	/* credit at which chances are as planned; less lowers them */
	_Atomic int64_t most;	/* that this pass was granted of late */
	_Atomic float rate;	/* a launch's chance for each unit of gain */
	_Atomic float few; /* expected launches of the first one, for each e-fold of launches */
	_Atomic uint64_t demand;    /* gain of launches that were offered, in 1/1024 */
	_Atomic uint64_t offered;   /* these launches */
	_Atomic uint64_t few_taken; /* of those chosen, for being of strata that have few */
	_Atomic uint64_t chosen, withheld;
	struct chooser_pass *passes; /* [pass] */
	uint32_t pass;
	uint64_t now_ns;     /* of the last grant */
	uint64_t resumed_ns; /* since then nothing held the program up */
	uint64_t looked_ns;  /* until then what was offered has been seen */
	double few_left, launches_per_s;
	uint64_t few_before, demand_before, offered_before;
	struct lock lock;		 /* of the values below */
	struct chooser_moments *moments; /* [stratum * metrics + metric] */
	struct chooser_scale scales[CHOOSER_METRICS_MAX];
};

/* Nothing is granted yet. -ENOMEM, -EINVAL. */
int chooser_init(struct chooser *c, struct strata *strata, const struct chooser_options *options);
void chooser_deinit(struct chooser *c);

/* At every launch that may be measured. It is counted in its stratum, under the pass that is
 * configured now. */
struct choice chooser_take(struct chooser *c, uint32_t stratum, uint32_t pass);

/* What may be chosen from now on. */
struct chooser_grant {
	int64_t credit; /* launches */
	int64_t full;	/* the credit that a steady program is to have on average */
	double per_s;	/* the regular income */
	uint64_t now_ns;
	uint32_t pass; /* for which launches are looked at from now on */
};

/* Every tenth of a second or so, and when another pass begins. */
void chooser_grant(struct chooser *c, const struct chooser_grant *grant);

/* What was offered until now was not to be measured, and is not told as withheld. */
void chooser_begin(struct chooser *c, uint64_t now_ns);

/* The program was held up until now, which is no time in which nothing was offered. */
void chooser_resume(struct chooser *c, uint64_t now_ns);

/* Notes the values of a chosen launch: one for each metric, NAN for metrics of other passes. */
void chooser_note(struct chooser *c, uint32_t stratum, uint32_t pass, float chance,
		  const double *values);

/* Launches that were chosen, and those that passed while nothing was granted. */
uint64_t chooser_chosen(struct chooser *c);
uint64_t chooser_withheld(struct chooser *c);

#endif
