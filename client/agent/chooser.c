/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/chooser.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/agent/random.h"

/* The k-th launch of a stratum that brings gain g when it is measured has the chance
 *
 * f * (rate * g + few / k)
 *
 * where f is the remaining credit as a fraction of the usual credit. The first launch of a stratum
 * has the chance 1 while more than three quarters remain of the largest credit of the last seconds;
 * more than half is enough if no launch of its shape was chosen yet, and more than a quarter if
 * none of its kernel was. A training step begins with many launches of a few kernels. The rest of
 * the credit is kept for kernels that follow, because the budget may pay for the second batch only
 * much later; and one measured launch says something about other strata of its kernel and shape.
 *
 * - rate * g spends most of the income. The error of a total is smallest for a given cost when
 *   the chance is proportional to the standard deviation within the stratum (Neyman's
 *   allocation: Cochran, Sampling Techniques, 3rd ed., section 5.5), so g is that deviation, in
 *   units of the metric's mean over all launches, so that metrics can be added up. A stratum's
 *   share of the total is in it: its values are as large as it is important. The rate is the
 *   income divided by the gain that is offered. How launches of a stratum differ is known of all
 *   strata together before it is of one: where they are alike, those that were never measured
 *   come first.
 * - few / k sees to strata that the first term leaves out. It spreads over a stratum's life
 *   evenly by the logarithm of k: a stratum of a hundred launches is looked at as often as the
 *   first hundred of one with a million. It begins low, since in a program's first step all are
 *   rare.
 * - The first launch is often not like the others (cold caches), but its chance of 1 says that
 *   it stands for itself only.
 *
 * Chances depend on the past and never on the launch's own value. The random number is a
 * function of seed, stratum, pass and k, so nothing in the program's rhythm meets it, and it
 * does not matter which thread comes first. The chances themselves follow the clock, through
 * the grants. */

/* The prior of a stratum's deviation has the weight of one launch. The prior is the deviation of
 * all strata together, which itself begins as PRIOR_DEVIATION of the mean with PRIOR_DEGREES
 * degrees of freedom. */
#define PRIOR_LAUNCHES 1.0
#define PRIOR_DEVIATION 0.5
#define PRIOR_DEGREES 8.0
#define DIFFERENCE_MOST 4.0 /* largest relative variance counted for one launch: twice the mean */
#define LEAST_DEVIATION_MERGED 0.1
/* The fractions of the credit that must remain for a first launch to be certain. */
#define LEFT_BY_KERNELS 0.25
#define LEFT_BY_SHAPES 0.5
#define LEFT_BY_STRATA 0.75
#define GAIN_UNKNOWN 1.0f
#define RATE_FIRST 0.02f /* until the demand of the first tenth of a second is known */
#define RATE_MAX 1e6
#define FEW_FIRST 0.05f
#define FEW_MAX 8.0
#define FEW_LEAST 0.05
#define FEW_SHARE 0.1 /* of the income, at most */
#define FEW_MEMORY_S 2.0
#define FEW_TICK_NS 1e8
#define BOOST_MAX 100.0
#define DEMAND_UNIT 1024.0
#define DEMAND_MEMORY_NS 2e9
#define DEMAND_LEAST_NS 50000000u
#define SLOW_NS 1000000000u /* after this time without demand a program counts as slow */

enum { DEMAND_EVERY = 64 }; /* one launch in so many of a stratum is noted */

static void init_states(struct chooser *c)
{
	size_t n = c->strata->max * c->strata->passes;

	for (size_t i = 0; i < n; i++) {
		atomic_init(&c->states[i].gain, GAIN_UNKNOWN);
	}
	for (uint32_t i = 0; i < c->strata->passes; i++) {
		c->passes[i].boost = 1;
		atomic_init(&c->passes[i].gain_once, PRIOR_DEVIATION);
	}
}

int chooser_init(struct chooser *c, struct strata *strata, const struct chooser_options *options)
{
	memset(c, 0, sizeof(*c));
	if (options->metrics > CHOOSER_METRICS_MAX) {
		return -EINVAL;
	}
	c->strata = strata;
	c->seed = options->seed;
	c->metrics = options->metrics;
	c->rate = RATE_FIRST;
	c->few = FEW_FIRST;
	lock_init(&c->lock, LOCK_LEAF);
	c->states = calloc(strata->max * strata->passes, sizeof(*c->states));
	c->moments = calloc(strata->max * (c->metrics ? c->metrics : 1), sizeof(*c->moments));
	c->passes = calloc(strata->passes, sizeof(*c->passes));
	if (!c->states || !c->moments || !c->passes) {
		chooser_deinit(c);
		return -ENOMEM;
	}
	init_states(c);
	return 0;
}

void chooser_deinit(struct chooser *c)
{
	free(c->states);
	free(c->moments);
	free(c->passes);
	lock_deinit(&c->lock);
	memset(c, 0, sizeof(*c));
}

static struct chooser_state *state_of(struct chooser *c, uint32_t stratum, uint32_t pass)
{
	return &c->states[(size_t)stratum * c->strata->passes + pass];
}

/* --- choosing --- */

/* A number in [0, 1) that depends on the arguments and the seed only. */
static double random_of(const struct chooser *c, uint32_t stratum, uint32_t pass, uint64_t k)
{
	uint64_t stream = random_scramble(c->seed ^ c->strata->v[stratum].hash) + pass;

	return (double)(random_at(stream, k) >> 11) * 0x1p-53;
}

/* One launch in DEMAND_EVERY represents all of them, because noting each one would cost too much.
 * Strata note different launches, so that strata that are launched together do not note at the same
 * time. */
static void note_demand(struct chooser *c, float gain)
{
	double demand = (double)gain * DEMAND_EVERY * DEMAND_UNIT;

	atomic_fetch_add_explicit(&c->demand, (uint64_t)demand, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->offered, DEMAND_EVERY, memory_order_relaxed);
}

/* The remaining credit as a fraction of *whole, the usual credit or the largest recent credit. */
static double part_of(int64_t credit, _Atomic int64_t *whole)
{
	int64_t all = atomic_load_explicit(whole, memory_order_relaxed);

	return credit < all ? (double)credit / (double)all : 1.0;
}

/* Takes one from the credit; false: another thread took the last one. */
static bool pay(struct chooser *c)
{
	if (atomic_fetch_sub_explicit(&c->credit, 1, memory_order_relaxed) > 0) {
		return true;
	}
	atomic_fetch_add_explicit(&c->credit, 1, memory_order_relaxed);
	return false;
}

static struct choice withhold(struct chooser *c)
{
	atomic_fetch_add_explicit(&c->withheld, 1, memory_order_relaxed);
	return (struct choice){ false, 0 };
}

/* A stratum whose first value has not arrived is assumed to have the average gain. */
static void expect_less(struct chooser *c, struct chooser_state *state, uint32_t pass)
{
	float unknown = GAIN_UNKNOWN;
	float once = atomic_load_explicit(&c->passes[pass].gain_once, memory_order_relaxed);

	atomic_compare_exchange_strong(&state->gain, &unknown, once);
}

static void note_taken(struct chooser *c, uint32_t stratum, uint32_t pass)
{
	struct chooser_state *state = state_of(c, stratum, pass);

	if (atomic_fetch_add_explicit(&state->taken, 1, memory_order_relaxed) == 0) {
		expect_less(c, state, pass);
	}
	while ((stratum = c->strata->v[stratum].parent) != STRATA_REST) {
		atomic_fetch_add_explicit(&state_of(c, stratum, pass)->below, 1,
					  memory_order_relaxed);
	}
}

static bool any_taken(struct chooser *c, uint32_t stratum, uint32_t pass)
{
	struct chooser_state *state = state_of(c, stratum, pass);

	return atomic_load_explicit(&state->taken, memory_order_relaxed) > 0 ||
	       atomic_load_explicit(&state->below, memory_order_relaxed) > 0;
}

static double left_by_first(struct chooser *c, uint32_t stratum, uint32_t pass)
{
	const struct stratum *v = c->strata->v;
	uint32_t shape = stratum, kernel;

	while (v[shape].level > STRATUM_SHAPE) {
		shape = v[shape].parent;
	}
	kernel = v[shape].level == STRATUM_SHAPE ? v[shape].parent : shape;
	return !any_taken(c, kernel, pass)  ? LEFT_BY_KERNELS
	       : !any_taken(c, shape, pass) ? LEFT_BY_SHAPES
					    : LEFT_BY_STRATA;
}

/* May the first launch of the stratum have the chance 1? */
static bool leaves_enough(struct chooser *c, int64_t credit, uint32_t stratum, uint32_t pass)
{
	double left = part_of(credit, &c->most);

	return left > LEFT_BY_KERNELS && left > left_by_first(c, stratum, pass);
}

static struct choice choose(struct chooser *c, uint32_t stratum, uint32_t pass, double chance,
			    double few, double u)
{
	struct choice choice = { u < chance, (float)(chance < 1 ? chance : 1) };

	if (!choice.measure) {
		return choice;
	}
	if (!pay(c)) {
		return withhold(c);
	}
	note_taken(c, stratum, pass);
	atomic_fetch_add_explicit(&c->chosen, 1, memory_order_relaxed);
	if (u < few) {
		atomic_fetch_add_explicit(&c->few_taken, 1, memory_order_relaxed);
	}
	return choice;
}

struct choice chooser_take(struct chooser *c, uint32_t stratum, uint32_t pass)
{
	struct chooser_state *state = state_of(c, stratum, pass);
	uint64_t k = strata_see(c->strata, stratum, pass);
	float gain = atomic_load_explicit(&state->gain, memory_order_relaxed);
	int64_t credit = atomic_load_explicit(&c->credit, memory_order_relaxed);
	double part, chance, few = 0;

	if ((k + stratum) % DEMAND_EVERY == 0) {
		note_demand(c, gain);
	}
	if (credit <= 0) {
		return withhold(c);
	}
	part = part_of(credit, &c->full);
	chance = part * (double)gain * (double)atomic_load_explicit(&c->rate, memory_order_relaxed);
	few = part * (double)atomic_load_explicit(&c->few, memory_order_relaxed) / (double)k;
	if (atomic_load_explicit(&state->taken, memory_order_relaxed) == 0 &&
	    leaves_enough(c, credit, stratum, pass)) {
		return choose(c, stratum, pass, 1, 0, 0);
	}
	return choose(c, stratum, pass, chance + few, few, random_of(c, stratum, pass, k));
}

/* --- the rate --- */

/* 0 if then_ns is later: several threads read the clock, and may call in another order. */
static uint64_t since(uint64_t then_ns, uint64_t now_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

/* Unused credit means that chances are limited by 1, or that the demand was overestimated. */
static void adapt_boost(struct chooser_pass *p, int64_t unused, int64_t full)
{
	if (unused >= full && p->gain > 0 && p->boost < BOOST_MAX) {
		p->boost *= 1.1;
	} else if (unused < full / 2 && p->boost > 1) {
		p->boost *= 0.9;
	}
}

/* A moving average that starts with the first value. */
static double average(double before, double now, uint64_t elapsed_ns)
{
	double keep = before > 0 ? exp(-(double)elapsed_ns / DEMAND_MEMORY_NS) : 0;

	return keep * before + (1 - keep) * now;
}

/* Adds the launches since the last call to the demand of the pass that they were chosen for. A
 * short time, as at a turn, is accumulated until it is long enough. */
static void see_demand(struct chooser *c, uint64_t now_ns)
{
	struct chooser_pass *p = &c->passes[c->pass];
	uint64_t gain = atomic_load(&c->demand), offered = atomic_load(&c->offered);
	double per_s;

	p->gain += (double)(gain - c->demand_before) / DEMAND_UNIT;
	p->launches += (double)(offered - c->offered_before);
	p->elapsed_ns += since(c->looked_ns, now_ns);
	c->demand_before = gain;
	c->offered_before = offered;
	c->looked_ns = now_ns > c->looked_ns ? now_ns : c->looked_ns;
	if (p->elapsed_ns < DEMAND_LEAST_NS) {
		return;
	}
	per_s = 1e9 / (double)p->elapsed_ns;
	adapt_boost(p, atomic_load(&c->credit), atomic_load(&c->full));
	p->per_s = average(p->per_s, p->gain * per_s, p->elapsed_ns);
	c->launches_per_s = average(c->launches_per_s, p->launches * per_s, p->elapsed_ns);
	p->gain = p->launches = 0;
	p->elapsed_ns = 0;
}

/* For a pass that had no turn yet only the number of launches is known. If no launch was noted for
 * SLOW_NS, there were fewer than DEMAND_EVERY. */
static double expected_demand(const struct chooser *c, const struct chooser_pass *p,
			      uint64_t now_ns)
{
	uint64_t resumed_ns = since(c->resumed_ns, now_ns);

	if (p->per_s > 0) {
		return p->per_s;
	}
	if (c->launches_per_s > 0 || resumed_ns < SLOW_NS) {
		return (double)GAIN_UNKNOWN * c->launches_per_s;
	}
	return (double)GAIN_UNKNOWN * DEMAND_EVERY * 1e9 / (double)resumed_ns;
}

/* If several contexts measure different passes, launches count for the pass of the last grant. */
static void adapt_rate(struct chooser *c, const struct chooser_grant *grant)
{
	const struct chooser_pass *p = &c->passes[grant->pass];
	double demand, rate;

	see_demand(c, grant->now_ns);
	c->pass = grant->pass;
	demand = expected_demand(c, p, grant->now_ns);
	if (demand > 0) {
		rate = p->boost * grant->per_s / demand;
		atomic_store(&c->rate, (float)(rate < RATE_MAX ? rate : RATE_MAX));
	}
}

/* Adapts the term few so that it takes FEW_SHARE of the income over some seconds, because programs
 * launch in bursts. */
static void adapt_few(struct chooser *c, double per_s, uint64_t elapsed_ns)
{
	uint64_t taken = atomic_load(&c->few_taken);
	double few = (double)atomic_load(&c->few), most = FEW_SHARE * per_s * FEW_MEMORY_S;
	double ticks = fmin((double)elapsed_ns / FEW_TICK_NS, 1);

	c->few_left += FEW_SHARE * per_s * (double)elapsed_ns * 1e-9;
	c->few_left -= (double)(taken - c->few_before);
	c->few_left = fmax(-most, fmin(most, c->few_left));
	c->few_before = taken;
	few *= pow(c->few_left < 0 ? 0.8 : 1.1, ticks);
	atomic_store(&c->few, (float)fmax(FEW_LEAST, fmin(FEW_MAX, few)));
}

/* Each pass has its own largest credit, because the cost of a launch differs between passes. */
static void adapt_most(struct chooser *c, const struct chooser_grant *grant)
{
	struct chooser_pass *p = &c->passes[grant->pass];
	double kept = p->most * exp(-(double)since(p->most_ns, grant->now_ns) / DEMAND_MEMORY_NS);

	p->most = fmax(kept, fmax((double)grant->full, (double)grant->credit));
	p->most_ns = grant->now_ns;
	atomic_store(&c->most, (int64_t)p->most);
}

void chooser_resume(struct chooser *c, uint64_t now_ns)
{
	c->demand_before = atomic_load(&c->demand);
	c->offered_before = atomic_load(&c->offered);
	c->resumed_ns = c->looked_ns = now_ns;
}

void chooser_begin(struct chooser *c, uint64_t now_ns)
{
	chooser_resume(c, now_ns);
	c->now_ns = now_ns;
	atomic_store(&c->withheld, 0);
}

void chooser_grant(struct chooser *c, const struct chooser_grant *grant)
{
	adapt_rate(c, grant);
	adapt_few(c, grant->per_s, since(c->now_ns, grant->now_ns));
	adapt_most(c, grant);
	atomic_store(&c->full, grant->full > 1 ? grant->full : 1);
	atomic_store(&c->credit, grant->credit);
	c->now_ns = grant->now_ns > c->now_ns ? grant->now_ns : c->now_ns;
}

/* --- values --- */

/* Returns what the value adds to m2. */
static double add_moment(struct chooser_moments *m, double value)
{
	double before = value - m->mean, square;

	m->n += 1;
	m->mean += before / m->n;
	square = before * (value - m->mean);
	m->m2 += square;
	return square;
}

/* Adds what a second or later launch of a stratum shows of the variance within strata.
 * DIFFERENCE_MOST limits it: an outlier says little about other strata. */
static void add_difference(struct chooser_scale *s, double square, double mean)
{
	s->degrees += 1;
	s->squares += mean != 0 ? fmin(square / (mean * mean), DIFFERENCE_MOST) : 0;
}

static double common_variance(const struct chooser_scale *s)
{
	double assumed = PRIOR_DEVIATION * PRIOR_DEVIATION * PRIOR_DEGREES;

	return (assumed + s->squares) / (PRIOR_DEGREES + s->degrees);
}

static void add_scale(struct chooser_scale *s, double value, double weight)
{
	s->weight += weight;
	s->mean += (value - s->mean) * weight / s->weight;
}

/* The variance within the stratum, combined with the prior. A merged stratum stands for launches
 * with different keys; those measured so far may be alike by chance, so its variance has a lower
 * limit and the stratum is measured again. */
static double variance_of(const struct chooser_moments *m, const struct chooser_scale *s,
			  bool merged)
{
	double assumed = common_variance(s) * m->mean * m->mean;
	double found = (m->m2 + PRIOR_LAUNCHES * assumed) / (m->n - 1 + PRIOR_LAUNCHES);

	return merged ? fmax(found,
			     LEAST_DEVIATION_MERGED * LEAST_DEVIATION_MERGED * m->mean * m->mean)
		      : found;
}

void chooser_note(struct chooser *c, uint32_t stratum, uint32_t pass, float chance,
		  const double *values)
{
	struct chooser_moments *m = &c->moments[(size_t)stratum * c->metrics];
	double sum = 0, common = 0, square, weight = chance > 0 ? 1 / (double)chance : 1;
	bool merged = atomic_load_explicit(&c->strata->v[stratum].merged, memory_order_relaxed);
	size_t n = 0;

	LOCK_SCOPE(&c->lock);
	for (size_t i = 0; i < c->metrics; i++) {
		struct chooser_scale *s = &c->scales[i];

		if (!isfinite(values[i])) {
			continue;
		}
		square = add_moment(&m[i], values[i]);
		if (m[i].n > 1) {
			add_difference(s, square, m[i].mean);
		}
		add_scale(s, values[i], weight);
		if (s->mean != 0) {
			sum += variance_of(&m[i], s, merged) / (s->mean * s->mean);
			common += common_variance(s);
			n++;
		}
	}
	if (n > 0) {
		atomic_store(&state_of(c, stratum, pass)->gain, (float)sqrt(sum / (double)n));
		atomic_store(&c->passes[pass].gain_once,
			     fminf((float)sqrt(common / (double)n), GAIN_UNKNOWN));
	}
}

uint64_t chooser_chosen(struct chooser *c)
{
	return atomic_load_explicit(&c->chosen, memory_order_relaxed);
}

uint64_t chooser_withheld(struct chooser *c)
{
	return atomic_load_explicit(&c->withheld, memory_order_relaxed);
}
