/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/programs.h"

#include <math.h>
#include <string.h>

#include "client/agent/random.h"

/* The first value of a launch is its bytes, by the kernel's mean and what each program does to it;
 * the second is its instructions, which depend on the kernel alone, but for data-dependent ones. */

enum { STEP_KERNELS = 60, STEP_LAUNCHES = 300 };

static double uniform(struct program_state *p)
{
	p->random ^= p->random << 13;
	p->random ^= p->random >> 7;
	p->random ^= p->random << 17;
	return (double)(p->random >> 11) * 0x1p-53;
}

static double normal(struct program_state *p)
{
	double radius = sqrt(-2 * log(1 - uniform(p)));

	return radius * cos(2 * M_PI * uniform(p));
}

/* Kernels differ by a factor of a thousand. Each mean is computed once: pow() took a third of a
 * simulation's time. */
static double mean_of(uint64_t kernel)
{
	static double means[STEP_KERNELS];
	double *mean = &means[(kernel * 37) % STEP_KERNELS];

	if (*mean == 0) {
		*mean = 1e4 * pow(10, 3.0 * (double)(mean - means) / STEP_KERNELS);
	}
	return *mean;
}

/* What the launches at the places of a step do differs by a factor of a hundred. */
static double times_at(uint64_t place)
{
	static double times[STEP_LAUNCHES];

	if (times[place] == 0) {
		times[place] =
			pow(10, 2.0 * (double)((place * 29) % STEP_LAUNCHES) / STEP_LAUNCHES);
	}
	return times[place];
}

static void fill(struct program_launch *l, uint64_t kernel, double bytes, uint64_t after_ns)
{
	memset(l, 0, sizeof(*l));
	l->key.kernel = kernel + 1;
	l->key.grid[0] = 64 + (uint32_t)(kernel % 7);
	l->key.block[0] = 128;
	l->values[0] = bytes;
	l->values[1] = 100 * mean_of(kernel) + 7;
	l->after_ns = after_ns;
}

/* What the launch at a place of a step is: some kernels come often, some once. */
static uint64_t kernel_at(uint64_t place)
{
	return place < STEP_KERNELS ? place : (place * place) % 13;
}

static void next_training(struct program_state *p, struct program_launch *ret)
{
	uint64_t kernel = kernel_at(p->n % STEP_LAUNCHES);
	double spread = kernel % 10 == 0 ? 0.3 : 0.03;

	fill(ret, kernel, mean_of(kernel) * (1 + spread * normal(p)), 40000);
}

/* What a kernel does is a matter of its place in the step, by up to a hundred times, as with layers
 * of a network whose grids are the same. */
static void next_layers(struct program_state *p, struct program_launch *ret)
{
	uint64_t place = p->n % STEP_LAUNCHES, kernel = random_scramble(place) % 12;

	fill(ret, kernel, mean_of(kernel) * times_at(place) * (1 + 0.02 * normal(p)), 40000);
}

/* Twelve layers, whose launches are the same from layer to layer, forward and back, and an
 * optimiser: what a batch sees first is a small part of a step. */
static void next_model(struct program_state *p, struct program_launch *ret)
{
	enum { FORWARD = 240, BACKWARD = 600, OPTIMISER = 118 };
	uint64_t place = p->n % (FORWARD + BACKWARD + OPTIMISER), kernel;

	if (place < FORWARD) {
		kernel = (place % 20) * 7 % 11;
	} else if (place < FORWARD + BACKWARD) {
		kernel = 11 + (place % 50) * 7 % 24;
	} else {
		kernel = 35 + place % 3;
	}
	fill(ret, kernel, mean_of(kernel) * (1 + 0.02 * normal(p)), 80000);
}

/* A convolutional network at a large batch, as ResNet-18: of 20 layers those of one stage are
 * alike, but for the first, which does several times the work under the same kernel and grid. */
static void next_network(struct program_state *p, struct program_launch *ret)
{
	enum { LAYERS = 20, IN_LAYER = 17, STAGE = 5 };
	uint64_t place = p->n % (LAYERS * IN_LAYER), layer = place / IN_LAYER;
	uint64_t kernel = place % IN_LAYER * 3 + layer / STAGE % 3;
	double times = layer % STAGE == 0 ? 2 + (double)(place % 7) * 2 : 1;

	fill(ret, kernel, mean_of(kernel) * times * (1 + 0.003 * normal(p)), 110000);
	ret->values[1] = 100 * mean_of(kernel) * times + 7;
	if (place % IN_LAYER % 8 == 0) { /* so that paths tell layers apart */
		ret->key.grid[1] = 1 + (uint32_t)layer;
	}
}

/* No step is like another: whatever is counted by what came before is met once. */
static void next_chaos(struct program_state *p, struct program_launch *ret)
{
	uint64_t kernel = (uint64_t)(uniform(p) * uniform(p) * 40);

	fill(ret, kernel, mean_of(kernel) * (1 + 0.3 * normal(p)), 40000);
}

/* One kernel in 100 launches does ten times the work, always at the same place; a tenth of them
 * twice. */
static void next_rhythm(struct program_state *p, struct program_launch *ret)
{
	uint64_t place = p->n % 100;
	double times = place == 0 ? 10 : place % 10 == 0 ? 2 : 1;

	fill(ret, place % 5, mean_of(place % 5) * times * (1 + 0.02 * normal(p)), 40000);
}

static void next_drift(struct program_state *p, struct program_launch *ret)
{
	uint64_t kernel = kernel_at(p->n % STEP_LAUNCHES);
	double times = 1 + 2 * (double)p->now_ns / p->lasts_ns;

	fill(ret, kernel, mean_of(kernel) * times * (1 + 0.05 * normal(p)), 40000);
}

/* Kernels, and what they do, change every seventh of the run; the pace does as well. */
static void next_phases(struct program_state *p, struct program_launch *ret)
{
	uint64_t phase = (uint64_t)(7 * (double)p->now_ns / p->lasts_ns);
	uint64_t kernel = kernel_at(p->n % STEP_LAUNCHES) % (phase % 2 ? 60 : 20);
	double times = phase % 3 == 0 ? 1 : phase % 3 == 1 ? 2.5 : 0.4;

	fill(ret, kernel, mean_of(kernel) * times * (1 + 0.05 * normal(p)),
	     phase % 2 ? 100000 : 25000);
}

/* Nothing for 900 ms, then 10,000 launches in 100 ms, the first thousand of which read twice. */
static void next_bursts(struct program_state *p, struct program_launch *ret)
{
	uint64_t place = p->n % 10000, kernel = kernel_at(p->n % STEP_LAUNCHES);
	double times = place < 1000 ? 2 : 1;

	fill(ret, kernel, mean_of(kernel) * times * (1 + 0.05 * normal(p)),
	     place == 0 ? 900000000 : 10000);
}

/* Beside a training, each of 40 kernels once in about 0.4 s, and every thousandth launch of a
 * kernel that was never seen. */
static void next_rare(struct program_state *p, struct program_launch *ret)
{
	next_training(p, ret);
	if (p->n % 250 == 17) {
		uint64_t kernel = 100 + (p->n / 250) % 40;

		fill(ret, kernel, mean_of(kernel) * (1 + 0.2 * normal(p)), 40000);
	} else if (p->n % 1000 == 400) {
		fill(ret, 1000 + p->n, mean_of(p->n) * (1 + 0.2 * normal(p)), 40000);
	}
}

/* What they do depends on their data: a long tail in both counters, which go together. */
static void next_data(struct program_state *p, struct program_launch *ret)
{
	uint64_t kernel = kernel_at(p->n % STEP_LAUNCHES) % 30;
	double times = kernel % 3 == 0 ? exp(0.8 * normal(p)) : 1 + 0.02 * normal(p);

	fill(ret, kernel, mean_of(kernel) * times, 40000);
	ret->values[1] *= times * (1 + 0.01 * normal(p));
}

/* The first launches of each kernel find cold caches. */
static void next_cold(struct program_state *p, struct program_launch *ret)
{
	uint64_t kernel = kernel_at(p->n % STEP_LAUNCHES);
	double times = p->n < 5 * STEP_LAUNCHES ? 4 : 1;

	fill(ret, kernel, mean_of(kernel) * times * (1 + 0.03 * normal(p)), 40000);
}

const struct program programs[] = {
	{ "training", "a step of 300 launches, again and again", next_training },
	{ "layers", "what a kernel does depends on its place in the step", next_layers },
	{ "model", "layers that are alike, forward and back", next_model },
	{ "network", "layers of a stage that are alike but for one", next_network },
	{ "chaos", "kernels in an order that never repeats", next_chaos },
	{ "rhythm", "one launch in a hundred does ten times the work", next_rhythm },
	{ "drift", "three times the bytes at the end", next_drift },
	{ "phases", "kernels, values and pace change", next_phases },
	{ "bursts", "a tenth of a second in each second", next_bursts },
	{ "rare", "rare kernels, and thousands that come once", next_rare },
	{ "data", "counters with a long tail", next_data },
	{ "cold", "first launches that are unlike the others", next_cold },
};
const unsigned programs_n = sizeof(programs) / sizeof(programs[0]);

const struct program *program_find(const char *name)
{
	for (unsigned i = 0; i < programs_n; i++) {
		if (strcmp(programs[i].name, name) == 0) {
			return &programs[i];
		}
	}
	return NULL;
}
