/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/simulation.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Time passes by the program's launches and by what measuring them costs. The costs vary by a tenth
 * both ways; the simulated agent times its calls exactly, but knows a range's cost on the GPU only
 * as a calibrated mean. Records come to the chooser when their batch ends, as they do in the agent.
 */

/* The cache. A launch reuses what the four before it have left, half of it the last one's, and so
 * on. A range waits for what runs, and that costs a part of what is in the cache; what is left
 * passes one beginning for each measured launch since it was put there. So one measured launch in
 * plain flow loses once, one in a window as often as it is far from the window's begin, and with
 * everything measured most is lost. And what the launch before still has to write is counted with a
 * launch, unless that had a range of its own, which has waited for it. */
enum { REUSE_DEPTH = 4 };

#define TICK_NS 100000000u
#define SPENT_SLOT_NS 10000000u
#define MEMORY_RANGE_NS 46e3

static double noise(struct simulation *s)
{
	s->random ^= s->random << 13;
	s->random ^= s->random >> 7;
	s->random ^= s->random << 17;
	return 0.9 + 0.2 * (double)(s->random >> 11) * 0x1p-53;
}

static void note_spent(struct simulation *s, double ns)
{
	size_t slot = s->now_ns / SPENT_SLOT_NS;

	if (slot < s->n_spent) {
		s->spent[slot] += ns;
	}
}

static void spend(struct simulation *s, double ns)
{
	s->now_ns += (uint64_t)ns;
	note_spent(s, ns);
}

/* --- batches --- */

static void deliver(struct simulation *s)
{
	for (size_t i = 0; i < s->n_batch; i++) {
		const struct simulation_record *r = &s->batch[i];
		struct simulation_truth *t = &s->strata_truth[r->stratum];

		if (!r->counts) {
			continue;
		}
		chooser_note(&s->chooser, r->stratum, r->pass, r->chance, r->values);
		if (r->pass == s->options.judged) {
			estimate_add_in_turn(&t->sample, r->values[0], r->values[1],
					     (double)r->chance,
					     s->options.passes > 1 ? r->turn + 1 : 0);
		}
	}
	s->n_batch = 0;
}

static void stop(struct simulation *s)
{
	double ns = 8e6 * noise(s);

	spend(s, ns);
	budget_note_stop(&s->budget, s->now_ns, ns);
	s->started = false;
	deliver(s);
}

/* Passes that are left out are started and stopped as well, as far as CUPTI was from this one. */
static double passes_left_out_ns(struct simulation *s, uint32_t cupti_at)
{
	uint32_t n = (s->pass + s->options.passes - cupti_at) % s->options.passes;

	return n * 14e6 * noise(s);
}

static bool first_start(struct simulation *s, size_t size)
{
	double ns = (s->options.first_fixed_ns + 9e5 * (double)size) * noise(s) +
		    passes_left_out_ns(s, 0);

	if (!budget_may_first_start(&s->budget, s->now_ns, size)) {
		return false;
	}
	free(s->batch);
	s->batch = calloc(size, sizeof(*s->batch));
	spend(s, ns);
	budget_note_first_start(&s->budget, s->now_ns, size, s->pass, ns);
	chooser_resume(&s->chooser, s->now_ns);
	s->started = true;
	return true;
}

static void grant(struct simulation *s)
{
	unsigned window = s->options.window ? s->options.window : 1;
	struct budget_pace pace = budget_take_pace(&s->budget, s->now_ns);

	chooser_grant(&s->chooser,
		      &(struct chooser_grant){ pace.credit / window, pace.full / window,
					       pace.per_s / window, s->now_ns, s->pass });
}

/* When a batch is full, or ends before it is. */
static void take_turn(struct simulation *s)
{
	if (s->options.passes == 1) {
		return;
	}
	s->pass = turns_next(&s->turns, s->pass, budget_may_leave_out(&s->budget));
	s->turn++;
	budget_note_turn(&s->budget, s->pass);
	grant(s);
}

/* Ends the batch and begins the next one, of the next pass, and larger where that is due. */
static void turn(struct simulation *s)
{
	uint32_t cupti_at = (s->budget.pass + 1) % s->options.passes;
	bool full = s->n_batch == s->budget.room;
	size_t size;
	double ns;

	stop(s);
	if (!full) {
		take_turn(s);
	}
	size = budget_next_size(&s->budget, s->now_ns);
	if (size != 0 && first_start(s, size)) {
		return;
	}
	ns = 6e6 * noise(s) + passes_left_out_ns(s, cupti_at);
	spend(s, ns);
	budget_note_start(&s->budget, s->now_ns, s->pass, ns);
	s->started = true;
}

static bool become_started(struct simulation *s)
{
	if (!s->batch) {
		return first_start(s, s->budget.size);
	}
	if (s->n_batch < s->budget.room) {
		return true;
	}
	if (!budget_may_turn(&s->budget, s->now_ns)) {
		return false;
	}
	turn(s);
	return true;
}

/* --- the cache --- */

/* What of its hits a launch keeps that is the n-th measured one in a row; 0: it is not measured. */
static double kept(const struct simulation_cache *c, unsigned in_row)
{
	double kept = 0, whole = 0, part = 1;

	for (unsigned depth = 1; depth <= REUSE_DEPTH; depth++) {
		part /= 2;
		whole += part;
		kept += part * pow(1 - c->lost, depth < in_row ? depth : in_row);
	}
	return kept / whole;
}

/* What counters say of a launch that would take these bytes with an empty cache. */
static double bytes_of(const struct simulation *s, double bytes, unsigned in_row)
{
	const struct simulation_cache *c = &s->options.cache;
	double spilt = in_row == 1 ? c->spill * s->before_bytes : 0;

	return bytes * (c->hits > 0 ? 1 - c->hits * kept(c, in_row) : 1) + spilt;
}

/* --- launches --- */

static double range_ns(const struct simulation *s, uint32_t pass)
{
	return pass < s->options.cheap_passes ? MEMORY_RANGE_NS : s->options.range_gpu_ns;
}

/* The first launch of a window stands for none. */
static bool measure(struct simulation *s, uint32_t stratum, float chance,
		    const struct program_launch *l, bool counts)
{
	struct simulation_truth *t = &s->strata_truth[stratum];
	double cpu = 5e3 * noise(s), gpu = range_ns(s, s->pass);
	struct simulation_record *r;

	if (!become_started(s)) {
		s->refused++;
		return false;
	}
	spend(s, cpu + gpu * noise(s));
	budget_note_range(&s->budget, s->now_ns, s->pass, cpu, gpu, BUDGET_CALIBRATED);
	s->in_row++;
	r = &s->batch[s->n_batch++];
	*r = (struct simulation_record){ stratum,
					 s->pass,
					 s->turn,
					 chance,
					 { bytes_of(s, l->values[0], s->in_row), l->values[1] },
					 counts };
	s->measured++;
	t->measured++;
	t->measured_ns = t->measured == 1 ? s->now_ns : t->measured_ns;
	if (s->n_batch == s->budget.room) {
		take_turn(s);
	}
	return true;
}

/* That this launch is in a window, and not its first: that one of those before has opened it. */
static double chance_in_window(const struct simulation *s)
{
	double none = 1;

	for (unsigned i = 0; i + 1 < s->options.window; i++) {
		none *= 1 - s->opened[i];
	}
	return 1 - none;
}

static void note_chance(struct simulation *s, double chance)
{
	memmove(s->opened + 1, s->opened, sizeof(s->opened) - sizeof(s->opened[0]));
	s->opened[0] = chance;
}

/* With windows the chooser says where one begins. */
static bool measure_window(struct simulation *s, uint32_t stratum, const struct choice *choice,
			   const struct program_launch *l)
{
	double chance = chance_in_window(s);
	bool first = s->left == 0 && choice->measure, measured = false;

	if (first) {
		s->left = s->options.window;
	}
	if (s->left > 0) {
		measured = measure(s, stratum, first ? 1 : (float)chance, l, !first);
		s->left--;
	}
	note_chance(s, (double)choice->chance);
	return measured;
}

static struct choice choose(struct simulation *s, uint32_t stratum, const struct program_launch *l)
{
	struct choice choice = chooser_take(&s->chooser, stratum, s->pass);
	struct simulation_truth *t = &s->strata_truth[stratum];

	if (s->options.choice == CHOICE_EVERY_NTH) {
		return (struct choice){ s->launches % 100 == 0, 0.01f };
	}
	if (s->options.choice == CHOICE_BY_VALUE && choice.measure && t->seen > 10 &&
	    l->values[0] < t->total[0] / (double)t->seen) {
		choice.measure = noise(s) < 1;
	}
	choice.chance *= s->options.passes > 1 ? turn_shares_of(&s->shares, s->pass) : 1;
	return choice;
}

static void note_truth(struct simulation *s, uint32_t stratum, const struct program_launch *l)
{
	struct simulation_truth *t = &s->strata_truth[stratum];

	t->seen++;
	t->total[0] += bytes_of(s, l->values[0], 0);
	t->full += bytes_of(s, l->values[0], REUSE_DEPTH);
	t->total[1] += l->values[1];
	t->first_ns = t->seen == 1 ? s->now_ns : t->first_ns;
	t->hundredth_ns = t->seen == 100 ? s->now_ns : t->hundredth_ns;
}

static void tick(struct simulation *s)
{
	double seeing_ns = s->options.overhead_share * (double)(s->now_ns - s->ticked_ns);

	if (s->started && budget_batch_is_old(&s->budget, s->now_ns)) {
		turn(s);
	}
	if (seeing_ns > 0) {
		budget_note_callbacks(&s->budget, s->now_ns, 1, seeing_ns, 0, BUDGET_ASSUMED);
		note_spent(s, seeing_ns);
	}
	turn_shares_note(&s->shares, s->pass);
	grant(s);
	s->ticked_ns = s->now_ns;
}

/* As the agent does (wanted.c). */
static uint32_t find_stratum(struct simulation *s, struct stratum_key *key)
{
	uint64_t hash = strata_hash_launch(key);
	uint32_t *number;

	key->path = s->options.without_paths ? 0 : path_hash(&s->path);
	path_add(&s->path, hash);
	number = &s->numbers[(hash ^ key->path) % SIMULATION_NUMBERS];
	if (*number == 0 || memcmp(&s->strata.v[*number].key, key, sizeof(*key)) != 0) {
		*number = strata_find(&s->strata, key);
	}
	return *number;
}

static void launch(struct simulation *s)
{
	struct program_launch l;
	struct choice choice;
	uint32_t stratum;
	bool measured = false;

	s->program.now_ns = s->now_ns;
	s->options.program->next(&s->program, &l);
	s->program.n++;
	s->launches++;
	s->now_ns += l.after_ns;
	if (s->now_ns - s->ticked_ns >= TICK_NS) {
		tick(s);
	}
	stratum = find_stratum(s, &l.key);
	choice = choose(s, stratum, &l);
	note_truth(s, stratum, &l);
	if (s->options.window > 1) {
		measured = measure_window(s, stratum, &choice, &l);
	} else if (choice.measure) {
		measured = measure(s, stratum, choice.chance, &l, true);
	}
	s->in_row = measured ? s->in_row : 0;
	s->before_bytes = l.values[0];
}

static int prepare(struct simulation *s)
{
	const struct simulation_options *o = &s->options;
	const struct chooser_options chooser = { .seed = o->seed, .metrics = PROGRAM_VALUES };
	struct budget_options budget = { .share = o->share,
					 .passes = o->passes,
					 .range_ns = o->range_gpu_ns };
	int r = strata_init(&s->strata, STRATA_DEFAULT_MAX, o->passes);

	r = r ? r : chooser_init(&s->chooser, &s->strata, &chooser);
	for (uint32_t i = 0; o->cheap_passes > 0 && i < o->passes; i++) {
		budget.pass_range_ns[i] = range_ns(s, i);
	}
	r = r ? r : budget_init(&s->budget, &budget);
	turns_init(&s->turns, o->seed, o->passes);
	turn_shares_init(&s->shares, o->passes);
	s->n_spent = (size_t)(o->seconds * 1e9 / SPENT_SLOT_NS) + 200;
	s->spent = calloc(s->n_spent, sizeof(*s->spent));
	s->strata_truth = calloc(STRATA_DEFAULT_MAX, sizeof(*s->strata_truth));
	s->kinds = calloc(STRATA_DEFAULT_MAX, sizeof(*s->kinds));
	return r ? r : s->spent && s->strata_truth && s->kinds ? 0 : -ENOMEM;
}

/* The stratum of its kernel and shape. */
static uint32_t kind_of(struct simulation *s, uint32_t number)
{
	struct stratum_key key = s->strata.v[number].key;

	key.path = key.range = 0;
	return strata_find(&s->strata, &key);
}

static void note_kind(struct simulation *s, uint32_t number)
{
	const struct simulation_truth *t = &s->strata_truth[number];
	struct simulation_kind *k = &s->kinds[kind_of(s, number)];

	if (t->sample.n > 0) {
		estimate_class_add(&k->measured, &t->sample, t->seen, NULL);
	} else {
		k->total += t->total[0];
		estimate_lacking_add(&k->lacking, &t->sample, t->seen, NULL);
	}
}

static struct estimate_prior prior_of(const struct simulation *s)
{
	struct estimate_spread spread = { 0 };

	for (uint32_t i = 0; i < s->strata.n; i++) {
		estimate_spread_add(&spread, &s->strata_truth[i].sample);
	}
	return estimate_spread_prior(&spread);
}

int simulation_run(struct simulation *s, const struct simulation_options *options)
{
	int r;

	memset(s, 0, sizeof(*s));
	s->options = *options;
	s->options.passes = options->passes ? options->passes : 1;
	s->options.range_gpu_ns =
		options->range_gpu_ns > 0 ? options->range_gpu_ns : MEMORY_RANGE_NS;
	s->random = options->seed * 2 + 0x9e3779b9;
	s->program = (struct program_state){ .random = options->seed * 2 + 0x7f4a7c15,
					     .lasts_ns = options->seconds * 1e9 };
	r = prepare(s);
	if (r != 0) {
		return r;
	}
	tick(s);
	while ((double)s->now_ns < options->seconds * 1e9) {
		launch(s);
	}
	if (s->started) {
		stop(s);
	}
	s->prior = prior_of(s);
	/* As a report does (client/report/pools.c). */
	for (uint32_t i = 1; i < s->strata.n; i++) {
		note_kind(s, i);
	}
	for (uint32_t i = 0; i < s->strata.n; i++) {
		estimate_among_add(&s->among, &s->kinds[i].measured);
	}
	return 0;
}

void simulation_deinit(struct simulation *s)
{
	chooser_deinit(&s->chooser);
	strata_deinit(&s->strata);
	free(s->strata_truth);
	free(s->kinds);
	free(s->batch);
	free(s->spent);
}

/* --- results --- */

double simulation_worst_window(const struct simulation *s)
{
	size_t window = 10000000000u / SPENT_SLOT_NS, first = 1000000000u / SPENT_SLOT_NS;
	size_t last = s->now_ns / SPENT_SLOT_NS;
	double sum = 0, worst = 0;

	last = last < s->n_spent ? last : s->n_spent - 1;
	for (size_t i = first; i <= last; i++) {
		sum += s->spent[i];
		sum -= i >= first + window ? s->spent[i - window] : 0;
		worst = sum > worst ? sum : worst;
	}
	return worst / 1e10;
}

struct estimate_total simulation_stratum(const struct simulation *s, uint32_t number)
{
	const struct simulation_truth *t = &s->strata_truth[number];
	struct estimate_pair p = estimate_pair_among(&t->sample, t->seen, &s->prior);
	struct estimate_total total = { 0 };

	estimate_total_add(&total, &p);
	return total;
}

struct estimate_total simulation_unmeasured(const struct simulation *s, uint32_t number)
{
	const struct simulation_kind *k = &s->kinds[number];
	struct estimate_pair p = estimate_pair_like(&k->measured, &k->lacking, &s->among);
	struct estimate_total total = { 0 };

	estimate_total_add(&total, &p);
	return total;
}

struct estimate_total simulation_total(const struct simulation *s)
{
	struct estimate_total total = { 0 };

	for (uint32_t i = 0; i < s->strata.n; i++) {
		struct estimate_total t = simulation_stratum(s, i);

		if (s->kinds[i].lacking.seen > 0) {
			struct estimate_total u = simulation_unmeasured(s, i);

			estimate_total_merge(&total, &u);
		}
		if (s->strata_truth[i].sample.n > 0) {
			estimate_total_merge(&total, &t);
		}
	}
	return total;
}

double simulation_true_total(const struct simulation *s, int value)
{
	double total = 0;

	for (uint32_t i = 0; i < s->strata.n; i++) {
		total += s->strata_truth[i].total[value];
	}
	return total;
}

double simulation_full_total(const struct simulation *s)
{
	double total = 0;

	for (uint32_t i = 0; i < s->strata.n; i++) {
		total += s->strata_truth[i].full;
	}
	return total;
}
