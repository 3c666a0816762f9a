/* SPDX-License-Identifier: Apache-2.0 */

/* What is left of a total's error at a budget: simulated runs of simulated programs, by the
 * agent's own chooser and controller. The figures of docs/internals/budget.md. Before it, what a
 * launch costs that is not measured, which is timed.
 *
 *	bench_budget [SECONDS [RUNS [PROGRAM]]]
 *	bench_budget cache [SECONDS [RUNS]]
 *	bench_budget turns [SECONDS [RUNS]]
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "tests/simulation/simulation.h"

/* Sums over the runs of a row. */
struct row {
	double squares, told, worst, spent, measured, launches, withheld;
	double strata, within_1, within_3, unknown;
};

static void add_strata(struct row *row, const struct simulation *s)
{
	for (uint32_t i = 0; i < s->strata.n; i++) {
		const struct simulation_truth *t = &s->strata_truth[i];
		struct estimate_total one = simulation_stratum(s, i);
		struct estimate e = estimate_total_of(&one, 0);

		if (e.kind == ESTIMATE_GUESS && e.error > 0) {
			double z = fabs(e.value - t->total[0]) / e.error;

			row->strata++;
			row->within_1 += z <= 1;
			row->within_3 += z <= 3;
		}
	}
}

static void add_run(struct row *row, struct simulation *s)
{
	struct estimate_total total = simulation_total(s);
	struct estimate e = estimate_total_of(&total, 0);
	double truth = simulation_true_total(s, 0), off = e.value / truth - 1;

	row->squares += off * off;
	row->told += e.error * e.error / (truth * truth);
	row->worst = fmax(row->worst, simulation_worst_window(s));
	row->spent += budget_spent_share(&s->budget, s->now_ns);
	row->measured += (double)s->measured;
	row->launches += (double)s->launches;
	row->withheld += (double)chooser_withheld(&s->chooser);
	row->unknown += (double)total.unknown;
	add_strata(row, s);
}

static void print_row(const struct row *r, const struct simulation_options *o, double runs)
{
	printf("%-8s %5.1f %% %7.3f %% %9.3f %% %8.1f %8.0f %7.3f %% %7.3f %% %6.1f %% %6.1f %% "
	       "%7.2f %% %7.2f %%\n",
	       o->program->name, 100 * o->share, 100 * r->spent / runs, 100 * r->worst,
	       r->measured / runs / o->seconds, r->launches / r->measured,
	       100 * sqrt(r->squares / runs), 100 * sqrt(r->told / runs),
	       100 * r->within_1 / r->strata, 100 * r->within_3 / r->strata,
	       100 * r->withheld / r->launches, 100 * r->unknown / r->launches);
}

static void run_row(const struct simulation_options *options, int seeds)
{
	struct simulation_options o = *options;
	struct row row = { 0 };

	for (int i = 0; i < seeds; i++) {
		struct simulation s;

		o.seed = (uint64_t)i + 1;
		if (simulation_run(&s, &o) == 0) {
			add_run(&row, &s);
		}
		simulation_deinit(&s);
	}
	print_row(&row, &o, seeds);
}

/* Of one program, or of all. */
static void print_table(double seconds, int seeds, const char *only)
{
	static const double shares[] = { 0.005, 0.01, 0.02, 0.05 };

	printf("simulated: %g s a run, %d runs a row, memory metrics\n", seconds, seeds);
	printf("program  budget     spent  worst 10 s measured/s   one in  off rms     told  "
	       "within 1 within 3  withheld   unknown\n");
	for (unsigned p = 0; p < programs_n; p++) {
		if (only && strcmp(only, programs[p].name) != 0) {
			continue;
		}
		for (size_t i = 0; i < ARRAY_SIZE(shares); i++) {
			const struct simulation_options o = { .program = &programs[p],
							      .share = shares[i],
							      .seconds = seconds };

			run_row(&o, seeds);
		}
	}
}

/* What a range does to the cache, and what windows help: the total against that of the program as
 * it runs unmeasured, and against that of a full capture. */
static void print_cache(double seconds, int seeds)
{
	static const struct {
		const char *name;
		struct simulation_cache cache;
	} caches[] = {
		{ "none", { 0, 0, 0 } },
		{ "spill", { 0.5, 0, 0 } },
		{ "lost", { 0, 0.5, 0.3 } },
		{ "both", { 0.5, 0.5, 0.3 } },
	};
	static const unsigned windows[] = { 1, 2, 4, 8 };

	printf("cache    window  off plain  off full  told by itself  within 3 of plain\n");
	for (size_t c = 0; c < ARRAY_SIZE(caches); c++) {
		for (size_t w = 0; w < ARRAY_SIZE(windows); w++) {
			struct simulation_options o = { .program = program_find("training"),
							.share = 0.02,
							.seconds = seconds,
							.cache = caches[c].cache,
							.window = windows[w] };
			struct row row = { 0 };
			double plain = 0, full = 0;

			for (int i = 0; i < seeds; i++) {
				struct simulation s;
				struct estimate_total total;

				o.seed = (uint64_t)i + 1;
				if (simulation_run(&s, &o) == 0) {
					total = simulation_total(&s);
					plain += total.value[0] / simulation_true_total(&s, 0) - 1;
					full += total.value[0] / simulation_full_total(&s) - 1;
					add_run(&row, &s);
				}
				simulation_deinit(&s);
			}
			printf("%-8s %6u %8.2f %% %7.2f %% %13.2f %% %16.1f %%\n", caches[c].name,
			       windows[w], 100 * plain / seeds, 100 * full / seeds,
			       100 * sqrt(row.told / seeds), 100 * row.within_3 / row.strata);
		}
	}
}

/* Groups that take turns, some of memory metrics and some of SM metrics at a millisecond a range:
 * what is known of one of them, and how many strata, of those that come often, were not met. */
static void print_turns_of(const char *title, uint32_t cheap, uint32_t judged, double seconds,
			   int seeds)
{
	printf("%s\nprogram    spent  measured  not met  off rms     told within 3\n", title);
	for (unsigned p = 0; p < programs_n; p++) {
		struct simulation_options o = { .program = &programs[p],
						.share = 0.04,
						.seconds = seconds,
						.passes = 10,
						.cheap_passes = cheap,
						.judged = judged,
						.range_gpu_ns = 1e6,
						.first_fixed_ns = 170e6 };
		double often = 0, missed = 0, taken = 0;
		struct row row = { 0 };

		for (int i = 0; i < seeds; i++) {
			struct simulation s;

			o.seed = (uint64_t)i + 1;
			if (simulation_run(&s, &o) == 0) {
				add_run(&row, &s);
			}
			for (uint32_t k = 1; k < s.strata.n; k++) {
				uint32_t n = s.chooser.states[k * o.passes + judged].taken;
				bool comes = strata_seen(&s.strata, k) >= 100;

				taken += n;
				often += comes;
				missed += comes && n == 0;
			}
			simulation_deinit(&s);
		}
		printf("%-8s %5.2f %% %9.0f %6.1f %% %6.2f %% %6.2f %% %6.1f %%\n", o.program->name,
		       100 * row.spent / seeds, taken / seeds, 100 * missed / often,
		       100 * sqrt(row.squares / seeds), 100 * sqrt(row.told / seeds),
		       100 * row.within_3 / row.strata);
	}
}

static void print_turns(double seconds, int seeds)
{
	print_turns_of("three cheap of ten groups, a cheap one", 3, 0, seconds, seeds);
	print_turns_of("three cheap of ten groups, a dear one", 3, 9, seconds, seeds);
	print_turns_of("ten dear groups", 0, 0, seconds, seeds);
}

enum { TIMED = 4000000 };

/* 300 strata, credit that never ends and chances that are nearly 0. */
static void time_takes(void)
{
	struct strata strata;
	struct chooser chooser;
	const struct chooser_options options = { .seed = 1, .metrics = 1 };
	struct stratum_key key = { .grid = { 64, 1, 1 }, .block = { 128, 1, 1 } };
	struct path path = { .next = 0 };
	uint64_t began, chosen, hash;

	if (strata_init(&strata, STRATA_DEFAULT_MAX, 1) != 0 ||
	    chooser_init(&chooser, &strata, &options) != 0) {
		return;
	}
	chooser_grant(&chooser, &(struct chooser_grant){ 1000, 1, 1, 0, 0 });
	chooser.rate = 1e-6f;
	began = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
	for (uint64_t i = 0; i < TIMED; i++) {
		key.kernel = i * 7919 % 300 + 1;
		hash = strata_hash_launch(&key);
		key.path = path_hash(&path);
		path_add(&path, hash);
		chooser_take(&chooser, strata_find(&strata, &key), 0);
	}
	chosen = chooser_chosen(&chooser);
	printf("a launch that is not measured: %.1f ns (timed; %u launches, %llu chosen)\n",
	       (double)(clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - began) / TIMED, (unsigned)TIMED,
	       (unsigned long long)chosen);
	chooser_deinit(&chooser);
	strata_deinit(&strata);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "cache") == 0) {
		print_cache(argc > 2 ? atof(argv[2]) : 60, argc > 3 ? atoi(argv[3]) : 10);
		return 0;
	}
	if (argc > 1 && strcmp(argv[1], "turns") == 0) {
		print_turns(argc > 2 ? atof(argv[2]) : 60, argc > 3 ? atoi(argv[3]) : 4);
		return 0;
	}
	time_takes();
	print_table(argc > 1 ? atof(argv[1]) : 60, argc > 2 ? atoi(argv[2]) : 10,
		    argc > 3 ? argv[3] : NULL);
	return 0;
}
