/* SPDX-License-Identifier: Apache-2.0 */

/* What was not met in the turns of one group of metrics, and is told by those of another
 * (client/report/sizes.c). A network's kernels: each has some layers that are strata, of which one
 * is many times as large as the others under the same shape. */

#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client/report/estimated.h"

enum { KERNELS = 12, LAYERS = 6, STRATA = KERNELS * LAYERS, SEEN = 200, ROUNDS = 2, RUNS = 60 };
enum { BYTES = 1, OPERATIONS, WARPS }; /* measures; 0 is time */

static const struct gpuctr_column columns[] = {
	{ .name = "dram__bytes.sum", .unit = "byte", .group = 0 },
	{ .name = "operations.sum", .unit = "FLOP", .group = 1 },
	{ .name = "warps.sum", .unit = "warp", .group = 1 },
};

struct network {
	struct groups *groups;
	struct gpuctr_kernel kernels[KERNELS];
	char names[KERNELS][8];
	uint64_t random;
	double bytes[STRATA], operations[STRATA];
	bool met[STRATA]; /* in turns of the second group */
};

static double uniform(uint64_t *random)
{
	return (double)(unit_random(random) >> 11) * 0x1p-53;
}

static double normal(uint64_t *random)
{
	return sqrt(-2 * log(1 - uniform(random))) * cos(2 * M_PI * uniform(random));
}

/* Operations go with bytes, or have nothing to do with them. */
static void make(struct network *n, uint64_t seed, bool together)
{
	*n = (struct network){ .random = seed * 7919 + 17 };
	for (unsigned k = 0; k < KERNELS; k++) {
		snprintf(n->names[k], sizeof(n->names[k]), "k%u", k);
		n->kernels[k] =
			(struct gpuctr_kernel){ .name = n->names[k], .mangled = "", .id = k + 1 };
	}
	for (unsigned i = 0; i < STRATA; i++) {
		double large = i / KERNELS == i % LAYERS ? 3 + 12 * uniform(&n->random) : 1;
		double other = i / KERNELS == (i + 3) % LAYERS ? 3 : 1;

		n->bytes[i] = 1e6 * (1 + i % KERNELS) * large;
		n->operations[i] = 40 * 1e6 * (1 + i % KERNELS) * (together ? large : other) *
				   exp(0.03 * normal(&n->random));
		n->met[i] = uniform(&n->random) < 0.5;
	}
}

static void begin(struct network *n)
{
	static const struct gpuctr_plan plan = {
		.chip = "GH100", .passes = 2, .groups = 2, .columns = columns, .n_columns = 3
	};
	const struct gpuctr_process process = { .process = 1, .program = "p", .recorded_from = "" };
	struct keys keys;

	assert_true(keys_parse("kernel", &keys, NULL));
	n->groups = groups_new(&keys);
	assert_non_null(n->groups);
	assert_int_equal(groups_begin(n->groups, &plan, "made", NULL), 0);
	assert_int_equal(groups_process(n->groups, &process), 0);
}

static void measure(struct network *n, unsigned i, unsigned group)
{
	double noise = 1 + 0.01 * normal(&n->random);
	const double values[] = { group == 0 ? n->bytes[i] * noise : (double)NAN,
				  group == 1 ? n->operations[i] * noise : (double)NAN,
				  group == 1 ? 64 * (1 + i % KERNELS) : (double)NAN };
	const struct gpuctr_record record = { .process = 1,
					      .kernel = &n->kernels[i % KERNELS],
					      .clock = GPUCTR_CLOCK_NONE,
					      .values = values,
					      .stratum = 1 + i,
					      .chance = 0.005,
					      .group = group };

	assert_int_equal(groups_record(n->groups, &record), 0);
}

/* Two turns of each group: all strata are met in those of the first, the others as is said. */
static void run(struct network *n)
{
	begin(n);
	for (unsigned turn = 0; turn < 2 * ROUNDS; turn++) {
		for (unsigned i = 0; i < STRATA; i++) {
			if (turn % 2 == 0 || n->met[i]) {
				measure(n, i, turn % 2);
			}
		}
	}
	for (unsigned i = 0; i < STRATA; i++) {
		const struct gpuctr_stratum stratum = { .process = 1,
							.id = 1 + i,
							.kernel = &n->kernels[i % KERNELS],
							.grid = { 1, 1, 1 },
							.block = { 32, 1, 1 },
							.seen = SEEN };

		assert_int_equal(groups_stratum(n->groups, &stratum), 0);
	}
	assert_int_equal(groups_finish(n->groups), 0);
}

static const struct group *row_of(const struct network *n, unsigned kernel)
{
	struct group **rows;
	size_t count = groups_rows(n->groups, &rows);

	for (size_t i = 0; i < count; i++) {
		if (strcmp(rows[i]->labels[0], n->names[kernel]) == 0) {
			return rows[i];
		}
	}
	fail_msg("no row of %s", n->names[kernel]);
	return NULL;
}

static struct estimate told(const struct network *n, unsigned kernel, size_t measure)
{
	return estimated_total(row_of(n, kernel), &(struct measure){ .adds_up = true }, measure);
}

/* Strata of the kernel that were met, and whether all were. */
static unsigned count_met(const struct network *n, unsigned kernel)
{
	unsigned met = 0;

	for (unsigned layer = 0; layer < LAYERS; layer++) {
		met += n->met[layer * KERNELS + kernel];
	}
	return met;
}

static double true_operations(const struct network *n, unsigned kernel)
{
	double sum = 0;

	for (unsigned layer = 0; layer < LAYERS; layer++) {
		sum += SEEN * n->operations[layer * KERNELS + kernel];
	}
	return sum;
}

struct score {
	unsigned n, within_1, within_3;
	double squares;
};

static void judge(struct score *s, const struct network *n, unsigned kernel)
{
	struct estimate e = told(n, kernel, OPERATIONS);
	double truth = true_operations(n, kernel), off = e.value - truth;

	assert_int_equal(e.kind, ESTIMATE_GUESS);
	assert_int_equal(row_of(n, kernel)->estimated->total[OPERATIONS].unknown, 0);
	s->n++;
	s->within_1 += fabs(off) <= e.error;
	s->within_3 += fabs(off) <= 3 * e.error;
	s->squares += off * off / (truth * truth);
}

/* Those of which some layers were met and some were not. */
static struct score judge_all(bool together)
{
	struct score s = { 0 };
	struct network n;

	for (unsigned seed = 0; seed < RUNS; seed++) {
		make(&n, seed, together);
		run(&n);
		for (unsigned k = 0; k < KERNELS; k++) {
			if (count_met(&n, k) > 0 && count_met(&n, k) < LAYERS) {
				judge(&s, &n, k);
			}
		}
		groups_free(n.groups);
	}
	print_message("%u kernels: %.1f %% within one error, %.1f %% within three, %.1f %% off\n",
		      s.n, 100.0 * s.within_1 / s.n, 100.0 * s.within_3 / s.n,
		      100 * sqrt(s.squares / s.n));
	return s;
}

/* By a few percent, where the mean of what was met would be off by as much as layers differ. */
static void layers_are_as_large_as_another_metric_says(void **state)
{
	struct score s = judge_all(true);

	(void)state;
	assert_true(s.n > 10 * RUNS);
	assert_true(sqrt(s.squares / s.n) < 0.04);
	assert_true(s.within_3 > 0.95 * s.n && s.within_1 > 0.6 * s.n);
}

/* A metric that says nothing of another is not believed to. */
static void metrics_that_do_not_go_together_say_nothing(void **state)
{
	struct score s = judge_all(false);

	(void)state;
	assert_true(s.within_3 > 0.93 * s.n);
	assert_true(sqrt(s.squares / s.n) < 0.5);
}

/* What is the same in all layers stays so, whatever else is large in one of them. */
static void what_is_the_same_everywhere_stays_exact(void **state)
{
	struct network n;

	(void)state;
	make(&n, 1, true);
	run(&n);
	for (unsigned k = 0; k < KERNELS; k++) {
		struct estimate e = told(&n, k, WARPS);

		if (count_met(&n, k) > 0) {
			assert_true(fabs(e.value / (64.0 * (1 + k) * SEEN * LAYERS) - 1) < 1e-9);
			assert_true(e.error < 1e-9 * e.value);
		}
	}
	groups_free(n.groups);
}

/* One stratum tells of the others, with an error, because others have shown what such a size is
 * worth; a kernel of which nothing was met is unknown. */
static void one_layer_is_enough(void **state)
{
	struct network n;
	struct estimate e;

	(void)state;
	make(&n, 2, true);
	for (unsigned layer = 0; layer < LAYERS; layer++) {
		n.met[layer * KERNELS] = layer == 3;
		n.met[layer * KERNELS + 1] = false;
	}
	run(&n);
	e = told(&n, 0, OPERATIONS);
	assert_int_equal(e.kind, ESTIMATE_GUESS);
	assert_true(fabs(e.value / true_operations(&n, 0) - 1) < 0.12);
	assert_true(fabs(e.value - true_operations(&n, 0)) < 3 * e.error);
	assert_true(e.error < 0.5 * e.value);
	assert_int_equal(told(&n, 1, OPERATIONS).kind, ESTIMATE_NONE);
	groups_free(n.groups);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layers_are_as_large_as_another_metric_says),
		cmocka_unit_test(metrics_that_do_not_go_together_say_nothing),
		cmocka_unit_test(what_is_the_same_everywhere_stays_exact),
		cmocka_unit_test(one_layer_is_enough),
	};

	return cmocka_run_group_tests_name("sizes", tests, NULL, NULL);
}
