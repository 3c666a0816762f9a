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

#define TICK_NS 100000000u
#define SPENT_SLOT_NS 10000000u

static double noise(struct simulation *s)
{
	s->random ^= s->random << 13;
	s->random ^= s->random >> 7;
	s->random ^= s->random << 17;
	return 0.9 + 0.2 * (double)(s->random >> 11) * 0x1p-53;
}

static void spend(struct simulation *s, double ns)
{
	size_t slot;

	s->now_ns += (uint64_t)ns;
	slot = s->now_ns / SPENT_SLOT_NS;
	if (slot < s->n_spent) {
		s->spent[slot] += ns;
	}
}

/* --- batches --- */

static void deliver(struct simulation *s)
{
	for (size_t i = 0; i < s->n_batch; i++) {
		const struct simulation_record *r = &s->batch[i];
		struct simulation_truth *t = &s->strata_truth[r->stratum];

		chooser_note(&s->chooser, r->stratum, r->pass, r->chance, r->values);
		if (r->pass == 0) {
			estimate_add(&t->sample, r->values[0], r->values[1], (double)r->chance);
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

static bool first_start(struct simulation *s, size_t size)
{
	double ns = (s->options.first_fixed_ns + 9e5 * (double)size) * noise(s);

	if (!budget_may_first_start(&s->budget, s->now_ns, size)) {
		return false;
	}
	free(s->batch);
	s->batch = calloc(size, sizeof(*s->batch));
	spend(s, ns);
	budget_note_first_start(&s->budget, s->now_ns, size, ns);
	s->started = true;
	return true;
}

static void start(struct simulation *s)
{
	double ns = 6e6 * noise(s);

	spend(s, ns);
	budget_note_start(&s->budget, s->now_ns, ns);
	s->started = true;
}

static void change(struct simulation *s)
{
	double ns = (s->options.first_fixed_ns + 9e5 * (double)s->budget.size) * noise(s);

	spend(s, ns);
	budget_note_change(&s->budget, s->now_ns, ns);
	s->pass = (s->pass + 1) % s->options.passes;
	s->started = true;
}

/* Ends the batch and begins the next one, larger or of another pass where that is due. */
static void turn(struct simulation *s)
{
	size_t size;

	stop(s);
	size = budget_next_size(&s->budget, s->now_ns);
	if (size != 0 && first_start(s, size)) {
		return;
	}
	if (budget_may_change(&s->budget, s->now_ns)) {
		change(s);
	} else {
		start(s);
	}
}

static bool become_started(struct simulation *s)
{
	if (!s->batch) {
		return first_start(s, s->budget.size);
	}
	if (s->n_batch < s->budget.size) {
		return true;
	}
	if (!budget_may_turn(&s->budget, s->now_ns)) {
		return false;
	}
	turn(s);
	return true;
}

/* --- launches --- */

static void measure(struct simulation *s, uint32_t stratum, float chance,
		    const struct program_launch *l)
{
	struct simulation_truth *t = &s->strata_truth[stratum];
	double cpu = 5e3 * noise(s), gpu = s->options.range_gpu_ns;
	struct simulation_record *r;

	if (!become_started(s)) {
		s->refused++;
		return;
	}
	spend(s, cpu + gpu * noise(s));
	budget_note_range(&s->budget, s->now_ns, cpu, gpu, BUDGET_CALIBRATED);
	r = &s->batch[s->n_batch++];
	*r = (struct simulation_record){ stratum, s->pass, chance, { l->values[0], l->values[1] } };
	s->measured++;
	t->measured++;
	t->measured_ns = t->measured == 1 ? s->now_ns : t->measured_ns;
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
	return choice;
}

static void note_truth(struct simulation *s, uint32_t stratum, const struct program_launch *l)
{
	struct simulation_truth *t = &s->strata_truth[stratum];

	t->seen++;
	t->total[0] += l->values[0];
	t->total[1] += l->values[1];
	t->first_ns = t->seen == 1 ? s->now_ns : t->first_ns;
	t->hundredth_ns = t->seen == 100 ? s->now_ns : t->hundredth_ns;
}

static void tick(struct simulation *s)
{
	struct budget_pace pace;

	if (s->started && budget_batch_is_old(&s->budget, s->now_ns)) {
		turn(s);
	}
	pace = budget_take_pace(&s->budget, s->now_ns);
	chooser_grant(&s->chooser, pace.credit, pace.full, pace.per_s, s->now_ns - s->granted_ns);
	s->granted_ns = s->now_ns;
}

static void launch(struct simulation *s)
{
	struct program_launch l;
	struct choice choice;
	uint32_t stratum;

	s->program.now_ns = s->now_ns;
	s->options.program->next(&s->program, &l);
	s->program.n++;
	s->launches++;
	s->now_ns += l.after_ns;
	if (s->now_ns - s->granted_ns >= TICK_NS) {
		tick(s);
	}
	stratum = strata_find(&s->strata, &l.key);
	choice = choose(s, stratum, &l);
	note_truth(s, stratum, &l);
	if (choice.measure) {
		measure(s, stratum, choice.chance, &l);
	}
}

static int prepare(struct simulation *s)
{
	const struct simulation_options *o = &s->options;
	const struct chooser_options chooser = { .seed = o->seed, .metrics = PROGRAM_VALUES };
	const struct budget_options budget = { .share = o->share,
					       .passes = o->passes,
					       .range_ns = o->range_gpu_ns };
	int r = strata_init(&s->strata, STRATA_DEFAULT_MAX, o->passes);

	r = r ? r : chooser_init(&s->chooser, &s->strata, &chooser);
	r = r ? r : budget_init(&s->budget, &budget);
	s->n_spent = (size_t)(o->seconds * 1e9 / SPENT_SLOT_NS) + 200;
	s->spent = calloc(s->n_spent, sizeof(*s->spent));
	s->strata_truth = calloc(STRATA_DEFAULT_MAX, sizeof(*s->strata_truth));
	return r ? r : s->spent && s->strata_truth ? 0 : -ENOMEM;
}

int simulation_run(struct simulation *s, const struct simulation_options *options)
{
	int r;

	memset(s, 0, sizeof(*s));
	s->options = *options;
	s->options.passes = options->passes ? options->passes : 1;
	s->options.range_gpu_ns = options->range_gpu_ns > 0 ? options->range_gpu_ns : 46e3;
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
	return 0;
}

void simulation_deinit(struct simulation *s)
{
	chooser_deinit(&s->chooser);
	strata_deinit(&s->strata);
	free(s->strata_truth);
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

struct estimate_total simulation_total(const struct simulation *s)
{
	struct estimate_total total = { 0 };

	for (uint32_t i = 0; i < s->strata.n; i++) {
		const struct simulation_truth *t = &s->strata_truth[i];
		struct estimate_pair p = estimate_pair(&t->sample, t->seen);

		estimate_total_add(&total, &p);
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
