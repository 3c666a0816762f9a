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
enum { BYTES = 1, OPERATIONS, WARPS, TWINS, OTHERS, N_OTHERS = 3 }; /* measures; 0 is time */

static const struct gpuctr_column columns[] = {
	{ .name = "dram__bytes.sum", .unit = "byte", .group = 0 },
	{ .name = "operations.sum", .unit = "FLOP", .group = 1 },
	{ .name = "warps.sum", .unit = "warp", .group = 1 },
	{ .name = "twins.sum", .unit = "FLOP", .group = 1 },   /* not met where those are not */
	{ .name = "other_1.sum", .unit = "warp", .group = 0 }, /* which say nothing */
	{ .name = "other_2.sum", .unit = "warp", .group = 0 },
	{ .name = "other_3.sum", .unit = "warp", .group = 0 },
};

/* Operations go as bytes to the power of a kernel's slope, times noise. */
struct world {
	double slope, slopes_differ;
	double noise;	     /* of operations, from layer to layer */
	double jitter;	     /* of bytes, which says nothing */
	double bytes_differ; /* among layers, as a logarithm */
	bool others_alike;   /* what says nothing hardly differs */
	double large[2];     /* one layer of each kernel has times so many: from, to */
	bool large_lacks;    /* and is not met in turns of the second group */
	double met;	     /* the part of the others that is */
};

struct network {
	struct groups *groups;
	struct gpuctr_kernel kernels[KERNELS];
	char names[KERNELS][8];
	uint64_t random, random_bytes;
	unsigned n_groups;
	double launches_differ[KERNELS];
	bool exact; /* in bytes they do not */
	double bytes[STRATA], operations[STRATA], others[STRATA][N_OTHERS];
	bool known[STRATA]; /* met in turns of the first group */
	bool met[STRATA];   /* and of the second */
};

static double uniform(uint64_t *random)
{
	return (double)(unit_random(random) >> 11) * 0x1p-53;
}

static double normal(uint64_t *random)
{
	return sqrt(-2 * log(1 - uniform(random))) * cos(2 * M_PI * uniform(random));
}

static void name_kernels(struct network *n)
{
	for (unsigned k = 0; k < KERNELS; k++) {
		snprintf(n->names[k], sizeof(n->names[k]), "k%u", k);
		n->kernels[k] =
			(struct gpuctr_kernel){ .name = n->names[k], .mangled = "", .id = k + 1 };
	}
}

static void make_layer(struct network *n, const struct world *w, unsigned i, double slope)
{
	bool is_large = i / KERNELS == i % LAYERS;
	double large = w->large[0] + (w->large[1] - w->large[0]) * uniform(&n->random);
	double size = exp(w->bytes_differ * normal(&n->random)) * (is_large ? large : 1);

	n->bytes[i] = 1e6 * (1 + i % KERNELS) * size * exp(w->jitter * normal(&n->random));
	n->operations[i] = 40 * 1e6 * (1 + i % KERNELS) * pow(size, slope) *
			   exp(w->noise * normal(&n->random));
	n->known[i] = true;
	n->met[i] = uniform(&n->random) < w->met && !(is_large && w->large_lacks);
	for (unsigned k = 0; k < N_OTHERS; k++) {
		n->others[i][k] = 1e3 * exp((w->others_alike ? 0.01 : 1) * normal(&n->random));
	}
}

static void make(struct network *n, uint64_t seed, const struct world *w)
{
	double slopes[KERNELS];

	*n = (struct network){ .random = seed * 7919 + 17,
			       .random_bytes = seed + 1,
			       .n_groups = 2 };
	name_kernels(n);
	for (unsigned k = 0; k < KERNELS; k++) {
		slopes[k] = w->slope + w->slopes_differ * normal(&n->random);
		n->launches_differ[k] = 0.01;
	}
	for (unsigned i = 0; i < STRATA; i++) {
		make_layer(n, w, i, slopes[i % KERNELS]);
	}
}

static void begin(struct network *n)
{
	const struct gpuctr_plan plan = { .chip = "GH100",
					  .passes = n->n_groups,
					  .groups = n->n_groups,
					  .columns = columns,
					  .n_columns = ARRAY_SIZE(columns) };
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
	double differ = group == 0 && n->exact ? 0 : n->launches_differ[i % KERNELS];
	double noise = 1 + differ * normal(group == 1 ? &n->random : &n->random_bytes);
	const double twins = n->operations[i] > 0 ? n->operations[i] : 1e6;
	double values[ARRAY_SIZE(columns)] = { n->bytes[i] * noise, n->operations[i] * noise,
					       64 * (1 + i % KERNELS), twins * noise };
	const struct gpuctr_record record = { .process = 1,
					      .kernel = &n->kernels[i % KERNELS],
					      .clock = GPUCTR_CLOCK_NONE,
					      .values = values,
					      .stratum = 1 + i,
					      .chance = 0.005,
					      .group = group };

	memcpy(&values[OTHERS - 1], n->others[i], sizeof(n->others[i]));
	for (unsigned k = 0; k < ARRAY_SIZE(columns); k++) {
		values[k] = columns[k].group == group ? values[k] : (double)NAN;
	}
	assert_int_equal(groups_record(n->groups, &record, NULL), 0);
}

/* Two turns of each group. */
static void run(struct network *n)
{
	begin(n);
	for (unsigned turn = 0; turn < 2 * ROUNDS; turn++) {
		for (unsigned i = 0; i < STRATA; i++) {
			if (turn % 2 == 0 ? n->known[i] : n->met[i]) {
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
	double n, within_1, within_3, off; /* off: a part of the truth, root mean square */
};

static void judge(struct score *s, const struct network *n, unsigned kernel)
{
	struct estimate e = told(n, kernel, OPERATIONS);
	double truth = true_operations(n, kernel), off = e.value - truth;

	assert_int_equal(row_of(n, kernel)->estimated->total[OPERATIONS].unknown, 0);
	if (row_of(n, kernel)->estimated->total[OPERATIONS].once > 0) {
		return; /* no error is told of these launches */
	}
	assert_int_equal(e.kind, ESTIMATE_GUESS);
	s->n++;
	s->within_1 += fabs(off) <= e.error;
	s->within_3 += fabs(off) <= 3 * e.error;
	s->off += off * off / (truth * truth);
}

/* Kernels of which some layers were met and some were not. */
static struct score judge_all(const char *what, const struct world *w)
{
	struct score s = { 0 };
	struct network n;

	for (unsigned seed = 0; seed < RUNS; seed++) {
		make(&n, seed, w);
		run(&n);
		for (unsigned k = 0; k < KERNELS; k++) {
			if (count_met(&n, k) > 0 && count_met(&n, k) < LAYERS) {
				judge(&s, &n, k);
			}
		}
		groups_free(n.groups);
	}
	assert_true(s.n > 10 * RUNS);
	s.within_1 /= s.n;
	s.within_3 /= s.n;
	s.off = sqrt(s.off / s.n);
	print_message("%s: %.1f %% within one error, %.1f %% within three, %.1f %% off\n", what,
		      100 * s.within_1, 100 * s.within_3, 100 * s.off);
	return s;
}

/* Within one error there are as many as that holds, and not all. */
static void expect_honest(const struct score *s)
{
	assert_true(s->within_1 > 0.65 && s->within_1 < 0.9);
	assert_true(s->within_3 > 0.985);
}

/* --- programs in which metrics go together, and in which they do not --- */

static const struct world original = { .slope = 1, .noise = 0.03, .large = { 3, 15 }, .met = 0.5 };

/* By a few percent, where the mean of what was met would be off by as much as layers differ. */
static void layers_are_as_large_as_another_metric_says(void **state)
{
	struct score s = judge_all("together", &original);

	(void)state;
	assert_true(s.off < 0.04);
	expect_honest(&s);
}

/* What is told by bytes that are known badly is off by as much as they are. */
static void jitter_of_what_tells_is_in_the_error(void **state)
{
	const struct world w = {
		.slope = 1, .noise = 0.03, .jitter = 0.3, .large = { 3, 15 }, .met = 0.5
	};
	struct score s = judge_all("jitter", &w);

	(void)state;
	expect_honest(&s);
}

/* A metric that says nothing of another is not believed to. */
static void metrics_that_do_not_go_together_say_nothing(void **state)
{
	const struct world w = { .slope = 0, .noise = 0.3, .large = { 3, 15 }, .met = 0.5 };
	struct score s = judge_all("apart", &w);

	(void)state;
	assert_true(s.off < 0.16);
	expect_honest(&s);
}

/* --- layers that are far from what was met --- */

/* In each kernel a layer has thirty times the bytes, and is not met where operations are counted.
 */
static struct world far_away(double bytes_differ, double noise, double slopes_differ)
{
	return (struct world){ .slope = 1,
			       .slopes_differ = slopes_differ,
			       .noise = noise,
			       .bytes_differ = bytes_differ,
			       .others_alike = true,
			       .large = { 30, 30 },
			       .large_lacks = true,
			       .met = 0.8 };
}

/* The slope is known from layers that hardly differ, and says how large one is that is thirty times
 * as large: what it is off by makes nearly all of the error. */
static void what_a_slope_is_off_by_is_in_the_error(void **state)
{
	const struct world hardly = far_away(0.1, 0.03, 0), noisy = far_away(0.5, 0.1, 0);
	struct score a = judge_all("far, and hardly differ", &hardly),
		     b = judge_all("far, and noisy", &noisy);

	(void)state;
	assert_true(a.off < 0.3 && b.off < 0.3);
	expect_honest(&a);
	expect_honest(&b);
}

/* Each kernel has a slope of its own. */
static void slopes_that_differ_are_in_the_error(void **state)
{
	const struct world w = far_away(0.3, 0.03, 0.2);
	struct score s = judge_all("far, and slopes differ", &w);

	(void)state;
	expect_honest(&s);
}

/* What cannot be known is not told as if it were: that layers with thirty times the bytes are as
 * the others in all else. Of all metrics the one that they are far in counts. */
static void what_no_slope_is_proven_for_may_be_far_as_well(void **state)
{
	const struct world w = far_away(0.1, 0.2, 0);
	struct score s = judge_all("far, and nothing proven", &w);

	(void)state;
	assert_true(s.within_3 > 0.95);
}

/* The error that is told where one layer of the first kernel has eight times the bytes of others,
 * and another so many. */
static double error_of_two(double times)
{
	const struct world w = {
		.noise = 0.2, .bytes_differ = 0.1, .others_alike = true, .large = { 1, 1 }, .met = 1
	};
	struct network n;
	struct estimate e;

	make(&n, 6, &w);
	for (unsigned layer = 0; layer < LAYERS; layer++) {
		n.bytes[layer * KERNELS] = layer == 0 ? 8e6 : layer == 1 ? times * 1e6 : 1e6;
		n.met[layer * KERNELS] = layer > 1;
		n.met[layer * KERNELS + 1] = false; /* of which nothing can be told */
	}
	run(&n);
	e = told(&n, 0, OPERATIONS);
	assert_int_equal(e.kind, ESTIMATE_GUESS);
	groups_free(n.groups);
	return e.error;
}

/* Whatever the slope is, one is then larger than was taken, and the other smaller. */
static void what_a_slope_is_off_by_cancels_on_both_sides(void **state)
{
	double apart = error_of_two(1.0 / 8), together = error_of_two(8);

	(void)state;
	assert_true(together > 2 * apart);
	assert_true(error_of_two(1e6) < 50 * together); /* which has a bound */
}

/* Bytes that are nearly the same in all layers, with operations that differ by as much a thousand
 * times over, and one kernel in which a layer's bytes are others: nothing is without bound. */
static void a_steep_slope_is_without_harm(void **state)
{
	const struct world w = {
		.slope = 1e4, .bytes_differ = 1e-4, .large = { 1, 1 }, .met = 0.5
	};
	struct network n;

	(void)state;
	for (unsigned seed = 0; seed < 5; seed++) {
		make(&n, seed, &w);
		n.exact = true;
		n.bytes[0] *= 5;
		n.met[0] = false;
		n.met[KERNELS] = n.met[2 * KERNELS] = true;
		run(&n);
		for (unsigned k = 0; k < KERNELS; k++) {
			struct estimate e = told(&n, k, OPERATIONS);

			if (count_met(&n, k) > 1) {
				assert_int_equal(e.kind, ESTIMATE_GUESS);
				assert_true(isfinite(e.value) && isfinite(e.error));
				assert_true(e.value < 1e4 * true_operations(&n, k));
				assert_true(k == 0 ||
					    fabs(e.value / true_operations(&n, k) - 1) < 0.05);
			}
		}
		groups_free(n.groups);
	}
}

/* Most strata did no operations, as was measured: a metric of the same group, which no stratum has
 * that is to be predicted, is of no help by telling of those. */
static void what_was_measured_as_nothing_needs_no_help(void **state)
{
	const struct world w = {
		.slope = 1, .noise = 0.3, .bytes_differ = 0.7, .large = { 1, 1 }, .met = 1
	};
	struct network n;
	double off = 0;

	(void)state;
	for (unsigned seed = 0; seed < 20; seed++) {
		make(&n, seed, &w);
		for (unsigned i = 0; i < STRATA / 2; i++) {
			n.operations[i] = i % KERNELS == 0 ? n.operations[i] : 0;
		}
		n.bytes[0] *= 10;
		n.operations[0] *= 10;
		n.met[0] = false;
		run(&n);
		off += log(told(&n, 0, OPERATIONS).value / true_operations(&n, 0)) / 20;
		groups_free(n.groups);
	}
	assert_true(fabs(off) < 0.2);
}

/* Without turns all metrics of a launch are measured at once. */
static void without_turns_there_are_no_sizes(void **state)
{
	struct network n;

	(void)state;
	make(&n, 3, &original);
	n.n_groups = 1;
	for (unsigned layer = 0; layer < LAYERS; layer++) {
		n.met[layer * KERNELS] = layer < 2;
		n.operations[layer * KERNELS] = layer < 2 ? 1 + layer : 9;
	}
	n.launches_differ[0] = 0;
	run(&n);
	assert_true(fabs(told(&n, 0, OPERATIONS).value / (SEEN * LAYERS * 1.5) - 1) < 1e-9);
	groups_free(n.groups);
}

/* What is the same in all layers stays so, whatever else is large in one of them. */
static void what_is_the_same_everywhere_stays_exact(void **state)
{
	struct network n;

	(void)state;
	make(&n, 1, &original);
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
	make(&n, 2, &original);
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

/* The first kernel's layers but the last were met, so many of them with bytes as well; the last has
 * bytes only. Each does ten operations, but for the first, which does a hundred. */
static struct estimate tell_last(unsigned layers, unsigned with_bytes)
{
	struct network n;
	struct estimate e;

	make(&n, 4, &original);
	for (unsigned layer = 0; layer < LAYERS; layer++) {
		unsigned i = layer * KERNELS;

		n.met[i] = layer < layers;
		n.known[i] = layer < with_bytes || layer >= layers;
		n.bytes[i] = 1e6;
		n.operations[i] = layer == 0 ? 100 : 10;
	}
	n.launches_differ[0] = 0;
	run(&n);
	e = told(&n, 0, OPERATIONS);
	groups_free(n.groups);
	return e;
}

/* One that has a size does not outvote many that have none; without any there is the mean. */
static void one_with_a_size_does_not_outvote_many(void **state)
{
	(void)state;
	assert_true(fabs(tell_last(5, 1).value / SEEN - 140 - 28) < 1e-6);
	assert_true(fabs(tell_last(5, 0).value / SEEN - 140 - 28) < 1e-6);
	assert_int_equal(tell_last(5, 0).kind, ESTIMATE_GUESS);
	assert_true(fabs(tell_last(5, 2).value / SEEN - 140 - 55) < 1e-6);
	assert_true(fabs(tell_last(2, 1).value / SEEN - 110 - 400) < 1e-6);
}

/* Two layers of the first kernel were met. Of the others so many have bytes, the same as these:
 * what all of them do is as sure as it would be if none had. */
static double error_with(unsigned n_known, double differ, double launches_differ)
{
	const struct world w = { .slope = 1, .bytes_differ = 0.005, .large = { 1, 1 }, .met = 1 };
	struct network n;
	struct estimate e;

	make(&n, 5, &w);
	for (unsigned layer = 0; layer < LAYERS; layer++) {
		unsigned i = layer * KERNELS;

		n.met[i] = layer < 2;
		n.known[i] = layer < 2 + n_known;
		n.bytes[i] = 1e6;
		n.operations[i] = layer == 0 ? 1e6 : 1e6 * (1 + differ);
	}
	for (unsigned k = 0; k < KERNELS; k++) {
		n.launches_differ[k] = 0;
	}
	n.launches_differ[0] = launches_differ;
	n.exact = true;
	/* Some layer of another kernel is to be predicted, for sizes to be asked for at all. */
	n.met[1] = false;
	run(&n);
	e = told(&n, 0, OPERATIONS);
	assert_int_equal(e.kind, ESTIMATE_GUESS);
	groups_free(n.groups);
	return e.error;
}

static void a_size_of_1_is_as_sure_as_none(void **state)
{
	double launches;

	(void)state;
	for (unsigned known = 1; known <= 4; known++) {
		double strata = error_with(known, 1, 0) / error_with(0, 1, 0);

		assert_true(strata > 0.97 && strata < 1.05);
	}
	launches = error_with(4, 0, 0.05) / error_with(0, 0, 0.05);
	assert_true(launches > 0.97 && launches < 1.05);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layers_are_as_large_as_another_metric_says),
		cmocka_unit_test(jitter_of_what_tells_is_in_the_error),
		cmocka_unit_test(metrics_that_do_not_go_together_say_nothing),
		cmocka_unit_test(what_a_slope_is_off_by_is_in_the_error),
		cmocka_unit_test(slopes_that_differ_are_in_the_error),
		cmocka_unit_test(what_no_slope_is_proven_for_may_be_far_as_well),
		cmocka_unit_test(what_a_slope_is_off_by_cancels_on_both_sides),
		cmocka_unit_test(a_steep_slope_is_without_harm),
		cmocka_unit_test(what_was_measured_as_nothing_needs_no_help),
		cmocka_unit_test(without_turns_there_are_no_sizes),
		cmocka_unit_test(what_is_the_same_everywhere_stays_exact),
		cmocka_unit_test(one_layer_is_enough),
		cmocka_unit_test(one_with_a_size_does_not_outvote_many),
		cmocka_unit_test(a_size_of_1_is_as_sure_as_none),
	};

	return cmocka_run_group_tests_name("sizes", tests, NULL, NULL);
}
