/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <math.h>

#include "tests/simulation/simulation.h"

/* The real chooser, controller and estimator on simulated programs. What is asserted is of many
 * strata and runs together; the runs are the same each time, so that nothing here fails by chance.
 * Wrong choices and wrong errors go through the same judgement, which has to notice them. */

#define RUN_S 60.0

enum { SEEDS = 3, SEEDS_FEW = 2 };

/* Of the strata of several runs. */
struct verdict {
	double strata, within_1, within_3, sum_z; /* of those with an error */
	double total_squares, total_told;	  /* relative, of the runs' totals */
	double total_off, runs;
	double withheld, launches;
	double once; /* strata without an error, because one launch or one turn was measured */
};

static void judge_stratum(struct verdict *v, const struct simulation_truth *t,
			  const struct estimate_total *told, double factor)
{
	struct estimate e = estimate_total_of(told, 0);
	double z = (e.value - t->total[0]) / (factor * e.error);

	v->once += e.kind == ESTIMATE_ONCE;
	if (e.kind != ESTIMATE_GUESS || e.error == 0) {
		return;
	}
	v->strata++;
	v->within_1 += fabs(z) <= 1;
	v->within_3 += fabs(z) <= 3;
	v->sum_z += fmax(-5, fmin(5, z)); /* two launches that are nearly alike make any z */
}

/* Errors are taken times factor: 1 but for the judgement's own test. */
static void judge_run(struct verdict *v, struct simulation *s, double factor)
{
	struct estimate_total total = simulation_total(s);
	struct estimate e = estimate_total_of(&total, 0);
	double truth = simulation_true_total(s, 0), off = e.value / truth - 1;

	for (uint32_t i = 0; i < s->strata.n; i++) {
		struct estimate_total one = simulation_stratum(s, i);

		judge_stratum(v, &s->strata_truth[i], &one, factor);
	}
	v->runs++;
	v->total_off += off;
	v->total_squares += off * off;
	v->total_told += factor * factor * e.error * e.error / (truth * truth);
	v->withheld += (double)chooser_withheld(&s->chooser);
	v->launches += (double)s->launches;
}

static void expect_budget_kept(const struct simulation *s)
{
	double worst = simulation_worst_window(s);

	if (worst > s->options.share) {
		fail_msg("%s: %.3f %% of ten seconds are spent, %.3f %% are granted",
			 s->options.program->name, 100 * worst, 100 * s->options.share);
	}
	/* But for what is still owed of the first Start. */
	assert_true(budget_spent_ns(&s->budget) - s->budget.loan_ns <=
		    s->options.share * (double)s->now_ns);
}

static struct verdict judge(const struct simulation_options *options, uint64_t seeds, double factor)
{
	struct simulation_options o = *options;
	struct verdict v = { 0 };

	for (uint64_t seed = 1; seed <= seeds; seed++) {
		struct simulation s;

		o.seed = seed;
		assert_int_equal(simulation_run(&s, &o), 0);
		assert_int_equal(strata_total(&s.strata), s.launches);
		if (o.choice != CHOICE_EVERY_NTH) {
			expect_budget_kept(&s);
		}
		judge_run(&v, &s, factor);
		simulation_deinit(&s);
	}
	return v;
}

static double rms(const struct verdict *v)
{
	return sqrt(v->total_squares / v->runs);
}

static double told(const struct verdict *v)
{
	return sqrt(v->total_told / v->runs);
}

static void print_verdict(const char *name, const struct verdict *v)
{
	print_message(
		"%-9s %5.1f %% of %4.0f strata within 1 error, %5.1f %% within 3, mean z %5.2f; "
		"%.1f %% once; total off by %.3f %%, told %.3f %%; %.2f %% withheld\n",
		name, 100 * v->within_1 / v->strata, v->strata, 100 * v->within_3 / v->strata,
		v->sum_z / v->strata, 100 * v->once / (v->strata + v->once), 100 * rms(v),
		100 * told(v), 100 * v->withheld / v->launches);
}

/* How a program's strata, and its totals, may be. */
static bool is_honest(const struct verdict *v)
{
	double within_1 = v->within_1 / v->strata;
	bool many = v->strata >= 100;

	return v->within_3 / v->strata > 0.9 && (within_1 < 0.95 || !many) &&
	       within_1 > (many ? 0.55 : 0.4) && fabs(v->sum_z / v->strata) < 0.8 &&
	       rms(v) < 2.5 * told(v);
}

static void add_verdict(struct verdict *all, const struct verdict *v)
{
	all->strata += v->strata;
	all->once += v->once;
	all->within_1 += v->within_1;
	all->within_3 += v->within_3;
	all->sum_z += v->sum_z;
	all->runs += v->runs;
	all->total_squares += v->total_squares;
	all->total_told += v->total_told;
	all->withheld += v->withheld;
	all->launches += v->launches;
}

static void every_program_is_estimated_honestly(void **state)
{
	struct verdict all = { 0 };

	(void)state;
	for (unsigned i = 0; i < programs_n; i++) {
		const struct simulation_options options = { .program = &programs[i],
							    .share = 0.02,
							    .seconds = RUN_S };
		struct verdict v = judge(&options, SEEDS, 1);

		print_verdict(programs[i].name, &v);
		assert_true(is_honest(&v));
		add_verdict(&all, &v);
	}
	print_verdict("all", &all);
	assert_true(all.within_3 / all.strata >= 0.95);
	assert_true(all.within_1 / all.strata > 0.6 && all.within_1 / all.strata < 0.85);
	assert_true(all.withheld / all.launches < 0.02);
}

/* A few launches each: errors are larger than they are known, and honest all together. Of a program
 * with phases a few launches of a stratum may all be of one. */
static void few_launches_are_estimated_honestly(void **state)
{
	struct verdict all = { 0 };

	(void)state;
	for (unsigned i = 0; i < programs_n; i++) {
		const struct simulation_options options = { .program = &programs[i],
							    .share = 0.005,
							    .seconds = RUN_S };
		struct verdict v = judge(&options, SEEDS, 1);

		print_verdict(programs[i].name, &v);
		assert_true(v.within_3 / v.strata > 0.8 && rms(&v) < 2.5 * told(&v));
		add_verdict(&all, &v);
	}
	print_verdict("all", &all);
	assert_true(is_honest(&all));
	assert_true(all.within_3 / all.strata >= 0.95);
}

/* Launches of one kernel and shape that do different work at different places of the step: what
 * came before a launch tells them apart. */
static void the_path_tells_launches_apart(void **state)
{
	struct simulation_options options = { .program = program_find("layers"),
					      .share = 0.02,
					      .seconds = RUN_S };
	struct verdict with = judge(&options, SEEDS, 1), without;

	(void)state;
	options.without_paths = true;
	without = judge(&options, SEEDS, 1);
	print_verdict("with", &with);
	print_verdict("without", &without);
	assert_true(told(&with) < told(&without) / 10 && rms(&with) < rms(&without) / 10);
}

static void wrong_choices_are_noticed(void **state)
{
	const struct simulation_options every = { .program = program_find("rhythm"),
						  .share = 0.02,
						  .seconds = RUN_S,
						  .choice = CHOICE_EVERY_NTH };
	const struct simulation_options by_value = { .program = program_find("data"),
						     .share = 0.02,
						     .seconds = RUN_S,
						     .choice = CHOICE_BY_VALUE };
	struct verdict v = judge(&every, SEEDS_FEW, 1);

	(void)state;
	print_verdict("every 100", &v);
	assert_false(is_honest(&v));
	v = judge(&by_value, SEEDS_FEW, 1);
	print_verdict("by value", &v);
	assert_false(is_honest(&v));
}

static void wrong_errors_are_noticed(void **state)
{
	const struct simulation_options options = { .program = program_find("training"),
						    .share = 0.02,
						    .seconds = RUN_S };
	struct verdict v = judge(&options, SEEDS_FEW, 0.4);

	(void)state;
	print_verdict("too small", &v);
	assert_false(is_honest(&v));
	v = judge(&options, SEEDS_FEW, 2.5);
	print_verdict("too large", &v);
	assert_false(is_honest(&v));
}

/* More budget, smaller error. */
static void a_larger_budget_buys_a_smaller_error(void **state)
{
	static const double shares[] = { 0.005, 0.02, 0.08 };
	double before = 1;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(shares); i++) {
		const struct simulation_options options = { .program = program_find("training"),
							    .share = shares[i],
							    .seconds = RUN_S };
		struct verdict v = judge(&options, SEEDS_FEW, 1);

		print_verdict("training", &v);
		assert_true(told(&v) < 0.7 * before);
		before = told(&v);
	}
}

/* A stratum of more than a hundred launches is measured within a minute of them. */
static void expect_measured_soon(const struct simulation *s)
{
	for (uint32_t i = 0; i < s->strata.n; i++) {
		const struct simulation_truth *t = &s->strata_truth[i];

		if (t->seen <= 100 || t->hundredth_ns + 60000000000u > s->now_ns) {
			continue;
		}
		if (t->measured == 0 || t->measured_ns > t->hundredth_ns + 60000000000u) {
			fail_msg("%s: stratum %u was launched %llu times and measured %llu times",
				 s->options.program->name, i, (unsigned long long)t->seen,
				 (unsigned long long)t->measured);
		}
	}
}

static void every_stratum_is_measured_within_a_minute(void **state)
{
	(void)state;
	for (unsigned i = 0; i < programs_n; i++) {
		const struct simulation_options options = {
			.program = &programs[i], .share = 0.01, .seconds = 2 * RUN_S, .seed = 9
		};
		struct simulation s;

		assert_int_equal(simulation_run(&s, &options), 0);
		expect_measured_soon(&s);
		expect_budget_kept(&s);
		simulation_deinit(&s);
	}
}

/* Kernels with 1 % of the bytes of which nothing was measured. */
static unsigned unknown_kernels(const struct simulation *s, unsigned *ret_large)
{
	enum { KERNELS = 64 };
	double total[KERNELS] = { 0 }, all = 0;
	uint64_t measured[KERNELS] = { 0 };
	unsigned unknown = 0;

	for (uint32_t i = 0; i < s->strata.n; i++) {
		const struct simulation_truth *t = &s->strata_truth[i];
		uint64_t kernel = s->strata.v[i].key.kernel;

		assert_true(kernel < KERNELS);
		total[kernel] += t->total[0];
		measured[kernel] += t->measured;
		all += t->total[0];
	}
	*ret_large = 0;
	for (size_t k = 0; k < KERNELS; k++) {
		*ret_large += total[k] >= 0.01 * all;
		unknown += total[k] >= 0.01 * all && measured[k] == 0;
	}
	return unknown;
}

/* Where a step begins with many launches of a few kernels, the first batch has some left for the
 * others: half of the credit for whatever came first left out 24 of these 64. */
static void first_kernels(double share, double seconds, double first_fixed_ns,
			  double overhead_share)
{
	unsigned large = 0, unknown = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		const struct simulation_options options = {
			.program = program_find("model"),
			.share = share,
			.seconds = seconds,
			.seed = seed,
			.first_fixed_ns = first_fixed_ns,
			.overhead_share = overhead_share,
		};
		struct simulation s;
		unsigned n;

		assert_int_equal(simulation_run(&s, &options), 0);
		unknown += unknown_kernels(&s, &n);
		large += n;
		simulation_deinit(&s);
	}
	print_message("model, %g %% of %g s: %u of %u kernels unknown\n", 100 * share, seconds,
		      unknown, large);
	assert_true(large > 0 && 10 * unknown <= large);
}

/* Also where the first Start is dear, and half of the budget is for being there: what follows the
 * first batch is paid for much later. */
static void the_first_batch_knows_the_kernels(void **state)
{
	(void)state;
	first_kernels(0.01, 2, 0, 0);
	first_kernels(0.02, 5, 170e6, 0.0105);
	first_kernels(0.02, 20, 170e6, 0.0105);
}

/* What two trainings took on an H200 for being seen, and for CUPTI being there, and their first
 * Starts: 1.2 % of 2 %, and 6.3 % of 10 %. What is left is measured with from the beginning, and
 * not only when the first Start is paid back: that took 40 s of the one, and for ever in the other.
 */
static void being_there_leaves_something_to_measure(void **state)
{
	static const struct {
		double share, overhead_share, first_fixed_ns, seconds;
		uint64_t least;
	} cases[] = {
		{ 0.02, 0.012, 220e6, 40, 200 },
		{ 0.1, 0.063, 190e6, 18, 700 },
		{ 0.1, 0.063, 190e6, 60, 3000 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct simulation_options options = {
			.program = program_find("model"),
			.share = cases[i].share,
			.seconds = cases[i].seconds,
			.seed = 1,
			.first_fixed_ns = cases[i].first_fixed_ns,
			.overhead_share = cases[i].overhead_share,
		};
		struct simulation s;

		assert_int_equal(simulation_run(&s, &options), 0);
		print_message("%.0f %%, of which being there takes %.1f %%: %llu in %.0f s, worst "
			      "ten seconds %.3f %%\n",
			      100 * cases[i].share, 100 * cases[i].overhead_share,
			      (unsigned long long)s.measured, cases[i].seconds,
			      100 * simulation_worst_window(&s));
		expect_budget_kept(&s);
		assert_true(s.measured > cases[i].least);
		assert_true(chooser_withheld(&s.chooser) < s.launches / 10);
		simulation_deinit(&s);
	}
}

/* Launches of strata of which nothing was measured. */
static uint64_t launches_without_value(const struct simulation *s)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < s->strata.n; i++) {
		const struct simulation_truth *t = &s->strata_truth[i];

		n += t->measured == 0 ? t->seen : 0;
	}
	return n;
}

/* A capture of six seconds: the first Start of an H200, and work that is 0.8 % slower. */
static void a_short_capture_measures_most_kinds(void **state)
{
	static const char *const names[] = { "training", "layers", "model", "network" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			const struct simulation_options options = {
				.program = program_find(names[i]),
				.share = 0.02,
				.seconds = 6,
				.seed = seed,
				.first_fixed_ns = 192e6,
				.overhead_share = 0.008,
			};
			struct simulation s;
			double without;

			assert_int_equal(simulation_run(&s, &options), 0);
			without = (double)launches_without_value(&s) / (double)s.launches;
			print_message("%s, 2 %% of 6 s: %llu of %llu measured, %.2f %% without a "
				      "value, spent %.2f %%\n",
				      names[i], (unsigned long long)s.measured,
				      (unsigned long long)s.launches, 100 * without,
				      100 * budget_spent_share(&s.budget, s.now_ns));
			assert_true(s.measured >= 500);
			assert_true(without <= 0.05);
			simulation_deinit(&s);
		}
	}
}

/* SM metrics wait for the GPU; a first Start may have a large fixed part. */
static void dear_measuring_keeps_the_budget(void **state)
{
	static const double shares[] = { 0.005, 0.01, 0.05 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(shares); i++) {
		const struct simulation_options options = { .program = program_find("training"),
							    .share = shares[i],
							    .seconds = RUN_S,
							    .seed = 3,
							    .range_gpu_ns = 763e3,
							    .first_fixed_ns = 160e6 };
		struct simulation s;

		assert_int_equal(simulation_run(&s, &options), 0);
		print_message("SM metrics at %.1f %%: worst ten seconds %.3f %%, %llu of %llu "
			      "launches\n",
			      100 * shares[i], 100 * simulation_worst_window(&s),
			      (unsigned long long)s.measured, (unsigned long long)s.launches);
		expect_budget_kept(&s);
		assert_true(s.measured > 50);
		simulation_deinit(&s);
	}
}

/* How far the total is off what the program does unmeasured, and off what a full capture says. */
static void run_cache(const struct simulation_cache *cache, unsigned window, double *ret_plain,
		      double *ret_full)
{
	const struct simulation_options options = { .program = program_find("training"),
						    .share = 0.05,
						    .seconds = RUN_S,
						    .seed = 1,
						    .cache = *cache,
						    .window = window };
	struct estimate_total total;
	struct simulation s;

	assert_int_equal(simulation_run(&s, &options), 0);
	expect_budget_kept(&s);
	total = simulation_total(&s);
	*ret_plain = total.value[0] / simulation_true_total(&s, 0) - 1;
	*ret_full = total.value[0] / simulation_full_total(&s) - 1;
	print_message(
		"spill %.1f, lost %.1f, windows of %u: %+.2f %% off plain, %+.2f %% off full\n",
		cache->spill, cache->lost, window, 100 * *ret_plain, 100 * *ret_full);
	simulation_deinit(&s);
}

/* What docs/internals/budget.md says of windows: they help where the launch before spills over, and
 * where the cache is what differs they only come nearer to a full capture. Without either they do
 * no harm. */
static void windows_help_against_one_of_two(void **state)
{
	static const struct simulation_cache none, spill = { .spill = 0.5 },
						   lost = { .hits = 0.5, .lost = 0.3 };
	double plain, full, alone_plain, alone_full;

	(void)state;
	run_cache(&none, 4, &plain, &full);
	assert_true(fabs(plain) < 0.01);
	run_cache(&spill, 1, &plain, &full);
	assert_true(plain > 0.3);
	run_cache(&spill, 4, &plain, &full);
	assert_true(fabs(plain) < 0.01);
	run_cache(&lost, 1, &alone_plain, &alone_full);
	assert_true(alone_plain > 0.2 && alone_full < -0.05);
	run_cache(&lost, 8, &plain, &full);
	assert_true(plain > alone_plain && fabs(full) < fabs(alone_full) / 2);
}

/* Eight passes in two minutes: each stratum that comes often has each of them. */
static void run_eight_passes(uint64_t seed)
{
	const struct simulation_options options = { .program = program_find("training"),
						    .share = 0.05,
						    .seconds = 2 * RUN_S,
						    .seed = seed,
						    .passes = 8 };
	struct simulation s;
	uint32_t often = 0;

	assert_int_equal(simulation_run(&s, &options), 0);
	expect_budget_kept(&s);
	for (uint32_t i = 1; i < s.strata.n; i++) {
		for (uint32_t pass = 0; pass < 8; pass++) {
			if (strata_seen(&s.strata, i) >= 1000) {
				often++;
				assert_true(s.chooser.states[i * 8 + pass].taken > 0);
			}
		}
	}
	assert_true(often >= 8 * 50);
	simulation_deinit(&s);
}

/* Also when some are left out: 3 of 24 seeds spent up to 5.1 % before there was room for that. */
static void passes_follow_each_other(void **state)
{
	(void)state;
	for (uint64_t seed = 16; seed < 24; seed++) {
		run_eight_passes(seed);
	}
}

/* Totals of the metrics of one pass of several, from its own turns, also of a program
 * whose phases last longer than turns. */
static void judge_turns(double share, uint32_t passes, double range_gpu_ns)
{
	struct verdict all = { 0 };

	for (unsigned i = 0; i < programs_n; i++) {
		const struct simulation_options options = { .program = &programs[i],
							    .share = share,
							    .seconds = RUN_S,
							    .passes = passes,
							    .range_gpu_ns = range_gpu_ns,
							    .first_fixed_ns = 170e6 };
		struct verdict v = judge(&options, SEEDS_FEW, 1);

		print_verdict(options.program->name, &v);
		assert_true(v.within_3 / v.strata >= 0.9);
		assert_true(v.once <= 0.2 * (v.strata + v.once));
		assert_true(rms(&v) < 2.5 * told(&v));
		add_verdict(&all, &v);
	}
	print_verdict("turns", &all);
	assert_true(all.once <= 0.05 * (all.strata + all.once));
	assert_true(all.within_1 / all.strata > 0.6 && all.within_1 / all.strata < 0.95);
}

static void totals_of_turns_are_honest(void **state)
{
	(void)state;
	judge_turns(0.05, 3, 0);
}

/* As of SM metrics: each stratum of some programs is met once or never. */
static void few_launches_of_turns_are_honest(void **state)
{
	(void)state;
	judge_turns(0.05, 4, 500e3);
}

/* Instructions of a kernel that does the same each time are exact from the first launch on. */
static void constant_counters_are_exact(void **state)
{
	const struct simulation_options options = {
		.program = program_find("training"), .share = 0.01, .seconds = 20, .seed = 5
	};
	struct simulation s;

	(void)state;
	assert_int_equal(simulation_run(&s, &options), 0);
	for (uint32_t i = 0; i < s.strata.n; i++) {
		const struct simulation_truth *t = &s.strata_truth[i];
		struct estimate_pair p = estimate_pair(&t->sample, t->seen);

		if (p.kind == ESTIMATE_GUESS) {
			assert_true(fabs(p.value[1] / t->total[1] - 1) < 1e-9);
			assert_true(sqrt(p.variance[1]) < 1e-9 * p.value[1]);
		}
	}
	simulation_deinit(&s);
}

/* A program that ends at once, and one that launches nothing for long. */
static void the_same_seed_is_the_same_run(void **state)
{
	const struct simulation_options options = {
		.program = program_find("rare"), .share = 0.02, .seconds = 10, .seed = 6
	};
	struct simulation a, b;

	(void)state;
	assert_int_equal(simulation_run(&a, &options), 0);
	assert_int_equal(simulation_run(&b, &options), 0);
	assert_int_equal(a.measured, b.measured);
	assert_true(simulation_total(&a).value[0] == simulation_total(&b).value[0]);
	simulation_deinit(&a);
	simulation_deinit(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_program_is_estimated_honestly),
		cmocka_unit_test(few_launches_are_estimated_honestly),
		cmocka_unit_test(the_path_tells_launches_apart),
		cmocka_unit_test(wrong_choices_are_noticed),
		cmocka_unit_test(wrong_errors_are_noticed),
		cmocka_unit_test(a_larger_budget_buys_a_smaller_error),
		cmocka_unit_test(every_stratum_is_measured_within_a_minute),
		cmocka_unit_test(the_first_batch_knows_the_kernels),
		cmocka_unit_test(being_there_leaves_something_to_measure),
		cmocka_unit_test(a_short_capture_measures_most_kinds),
		cmocka_unit_test(dear_measuring_keeps_the_budget),
		cmocka_unit_test(windows_help_against_one_of_two),
		cmocka_unit_test(passes_follow_each_other),
		cmocka_unit_test(totals_of_turns_are_honest),
		cmocka_unit_test(few_launches_of_turns_are_honest),
		cmocka_unit_test(constant_counters_are_exact),
		cmocka_unit_test(the_same_seed_is_the_same_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
