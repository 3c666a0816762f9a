/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>

#include "client/agent/chooser.h"

struct fixture {
	struct strata strata;
	struct chooser chooser;
	uint64_t now_ns;
};

enum { TICK_NS = 100000000 };

static void fixture_open(struct fixture *f, uint64_t seed, uint32_t passes)
{
	const struct chooser_options options = { .seed = seed, .metrics = 1 };

	f->now_ns = 0;
	assert_int_equal(strata_init(&f->strata, STRATA_DEFAULT_MAX, passes), 0);
	assert_int_equal(chooser_init(&f->chooser, &f->strata, &options), 0);
}

static void fixture_close(struct fixture *f)
{
	chooser_deinit(&f->chooser);
	strata_deinit(&f->strata);
}

static uint32_t fixture_stratum(struct fixture *f, uint64_t kernel)
{
	const struct stratum_key key = { .kernel = kernel, .grid = { 1, 1, 1 } };

	return strata_find(&f->strata, &key);
}

/* As much credit as anybody wants, at this rate for each unit of gain. */
static void fixture_rate(struct fixture *f, float rate)
{
	chooser_grant(&f->chooser, &(struct chooser_grant){ INT64_MAX / 2, 1, 0, 0, 0 });
	f->chooser.rate = rate;
	f->chooser.few = 0;
}

static void nothing_is_chosen_that_was_not_granted(void **state)
{
	struct fixture f;
	uint32_t stratum;

	(void)state;
	fixture_open(&f, 1, 1);
	stratum = fixture_stratum(&f, 1);
	for (int i = 0; i < 100; i++) {
		struct choice c = chooser_take(&f.chooser, stratum, 0);

		assert_false(c.measure);
		assert_true(c.chance == 0);
	}
	assert_int_equal(chooser_withheld(&f.chooser), 100);
	assert_int_equal(strata_seen(&f.strata, stratum), 100); /* counted all the same */
	fixture_close(&f);
}

static void the_first_launch_of_each_stratum_and_pass_is_certain(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f, 1, 3);
	fixture_rate(&f, 0);
	for (uint32_t pass = 0; pass < 3; pass++) {
		for (uint64_t kernel = 1; kernel <= 50; kernel++) {
			struct choice c =
				chooser_take(&f.chooser, fixture_stratum(&f, kernel), pass);

			assert_true(c.measure);
			assert_true(c.chance == 1);
			c = chooser_take(&f.chooser, fixture_stratum(&f, kernel), pass);
			assert_false(c.measure);
		}
	}
	assert_int_equal(chooser_chosen(&f.chooser), 150);
	fixture_close(&f);
}

enum { SEQUENCE = 4000, SEQUENCE_STRATA = 5 };

/* Which of each stratum's launches are chosen, when strata take turns of this length. */
static void choose_sequence(uint64_t seed, int turn, bool chosen[SEQUENCE_STRATA][SEQUENCE])
{
	struct fixture f;

	fixture_open(&f, seed, 1);
	fixture_rate(&f, 0.1f);
	for (int i = 0; i < SEQUENCE; i += turn) {
		for (uint32_t s = 0; s < SEQUENCE_STRATA; s++) {
			for (int j = 0; j < turn; j++) {
				uint32_t stratum = fixture_stratum(&f, s + 1);

				chosen[s][i + j] = chooser_take(&f.chooser, stratum, 0).measure;
			}
		}
	}
	fixture_close(&f);
}

static void the_seed_decides_and_not_the_order_of_strata(void **state)
{
	static bool a[SEQUENCE_STRATA][SEQUENCE], b[SEQUENCE_STRATA][SEQUENCE];

	(void)state;
	choose_sequence(42, 1, a);
	choose_sequence(42, 50, b);
	assert_memory_equal(a, b, sizeof(a));
	choose_sequence(43, 1, b);
	assert_memory_not_equal(a, b, sizeof(a));
	assert_memory_not_equal(a[0], a[1], sizeof(a[0]));
}

/* Where passes take turns, each chooses by itself. */
static void passes_choose_each_for_itself(void **state)
{
	unsigned both = 0, one = 0;
	struct fixture f;
	uint32_t stratum;

	(void)state;
	fixture_open(&f, 42, 2);
	fixture_rate(&f, 0.2f); /* behind the first one a launch is worth half a gain */
	stratum = fixture_stratum(&f, 1);
	for (int i = 0; i < SEQUENCE; i++) {
		bool a = chooser_take(&f.chooser, stratum, 0).measure;
		bool b = chooser_take(&f.chooser, stratum, 1).measure;

		both += a && b;
		one += a != b;
	}
	/* 1 and 18 of 100. */
	assert_in_range(both, 10, 100);
	assert_in_range(one, 500, 1000);
	fixture_close(&f);
}

/* Chances are what they say: chosen launches are as many as the chances add up to. */
static void chances_are_what_they_say(void **state)
{
	static const float rates[] = { 0.5f, 0.01f, 1e-3f, 1e-5f };
	struct fixture f;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rates); i++) {
		double expected = 0, variance = 0;
		uint32_t stratum;

		fixture_open(&f, i, 1);
		fixture_rate(&f, rates[i]);
		stratum = fixture_stratum(&f, 9);
		for (int n = 0; n < 1000000; n++) {
			double p = (double)chooser_take(&f.chooser, stratum, 0).chance;

			expected += p;
			variance += p * (1 - p);
		}
		print_message("chance %g: %llu chosen, %.1f expected\n", (double)rates[i],
			      (unsigned long long)chooser_chosen(&f.chooser), expected);
		assert_true(fabs((double)chooser_chosen(&f.chooser) - expected) <
			    4 * sqrt(variance) + 1);
		fixture_close(&f);
	}
}

/* No place of a step is chosen more often than the others, whatever the step's length. */
static void no_rhythm_meets_the_choice(void **state)
{
	static const unsigned periods[] = { 2, 3, 10, 64, 97, 100, 128, 356 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(periods); i++) {
		unsigned counts[356] = { 0 }, period = periods[i], n = 0;
		double chi = 0, expected;
		struct fixture f;
		uint32_t stratum;

		fixture_open(&f, 5, 1);
		fixture_rate(&f, 0.02f);
		stratum = fixture_stratum(&f, 1);
		for (unsigned k = 0; k < 400000; k++) {
			if (chooser_take(&f.chooser, stratum, 0).measure) {
				counts[k % period]++;
				n++;
			}
		}
		expected = (double)n / period;
		for (unsigned k = 0; k < period; k++) {
			chi += (counts[k] - expected) * (counts[k] - expected) / expected;
		}
		/* The mean of chi is period - 1, its deviation sqrt(2 (period - 1)). */
		assert_true(chi < period - 1 + 5 * sqrt(2.0 * (period - 1)));
		fixture_close(&f);
	}
}

static void note_values(struct fixture *f, uint64_t kernel, double mean, double deviation)
{
	for (int i = 0; i < 100; i++) {
		double value = mean + (i % 2 ? deviation : -deviation);

		chooser_note(&f->chooser, fixture_stratum(f, kernel), 0, 1, &value);
	}
}

static double gain_of(struct fixture *f, uint64_t kernel)
{
	uint32_t stratum = fixture_stratum(f, kernel);

	return (double)f->chooser.states[stratum * f->strata.passes].gain;
}

static double chance_of(struct fixture *f, uint64_t kernel)
{
	struct choice c = chooser_take(&f->chooser, fixture_stratum(f, kernel), 0);

	if (c.chance == 1) { /* its first launch */
		c = chooser_take(&f->chooser, fixture_stratum(f, kernel), 0);
	}
	return (double)c.chance;
}

static void what_varies_more_is_chosen_more(void **state)
{
	const double nan = (double)NAN;
	struct fixture f;

	(void)state;
	fixture_open(&f, 1, 1);
	fixture_rate(&f, 0.001f);
	note_values(&f, 1, 1000, 300);
	note_values(&f, 2, 1000, 30);
	note_values(&f, 3, 10, 3); /* as 1 in its own measure, but with little part in the total */
	chooser_note(&f.chooser, fixture_stratum(&f, 3), 0, 1, &nan);
	/* What they have in common, 25 % of the mean, counts as one launch of 101. */
	assert_true(fabs(chance_of(&f, 1) / chance_of(&f, 2) / 7.9 - 1) < 0.1);
	assert_true(chance_of(&f, 1) / chance_of(&f, 3) > 50);
	assert_true(chance_of(&f, 3) > 0);
	fixture_close(&f);
}

/* Where launches of a stratum turn out to be alike, strata that were never measured come before
 * large ones that were measured once; where they differ, they do not. */
static void strata_that_are_alike_leave_room_for_new_ones(void **state)
{
	static const struct {
		double deviation;
		bool new_first;
	} cases[] = { { 0.001, true }, { 0.5, false } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const double large = 10000;
		struct fixture f;

		fixture_open(&f, 1, 1);
		fixture_rate(&f, 0.001f);
		for (uint64_t kernel = 1; kernel <= 50; kernel++) {
			note_values(&f, kernel, 1000, cases[i].deviation * 1000);
		}
		f.chooser.credit = 0; /* nothing is certain, and nothing taken */
		chooser_note(&f.chooser, fixture_stratum(&f, 51), 0, 1, &large);
		assert_int_equal(gain_of(&f, 51) < gain_of(&f, 52), cases[i].new_first);
		fixture_close(&f);
	}
}

/* Launches of a stratum that come before its first value has are not all measured. */
static void a_stratum_is_new_once(void **state)
{
	struct fixture f;
	double before;

	(void)state;
	fixture_open(&f, 1, 1);
	fixture_rate(&f, 0.001f);
	before = gain_of(&f, 1);
	assert_true(chooser_take(&f.chooser, fixture_stratum(&f, 1), 0).measure);
	assert_true(gain_of(&f, 1) <= before / 2 && gain_of(&f, 1) > 0);
	fixture_close(&f);
}

/* So long after the last one. */
static void grant_after(struct fixture *f, uint64_t ns, const struct chooser_grant *grant)
{
	struct chooser_grant g = *grant;

	f->now_ns += ns;
	g.now_ns = f->now_ns;
	chooser_grant(&f->chooser, &g);
}

static void look_at_many(struct fixture *f, uint32_t pass, double per_s)
{
	for (int tick = 0; tick < 30; tick++) {
		grant_after(f, TICK_NS, &(struct chooser_grant){ 100, 100, per_s, 0, pass });
		for (uint64_t i = 0; i < 640; i++) {
			chooser_take(&f->chooser, fixture_stratum(f, i % 10), pass);
		}
	}
}

/* Contexts that are at different passes have grants in turns: the rate is found all the same. */
static void passes_at_once_share_the_demand(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f, 1, 2);
	for (uint32_t tick = 0; tick < 60; tick++) {
		grant_after(&f, TICK_NS, &(struct chooser_grant){ 100, 100, 10, 0, tick % 2 });
		for (uint64_t i = 0; i < 640; i++) {
			chooser_take(&f.chooser, fixture_stratum(&f, i % 10), (uint32_t)i % 2);
		}
	}
	/* 6,400 launches a second, half a gain each */
	assert_true(f.chooser.rate > 0.5f * 10 / 3200 && f.chooser.rate < 4 * 10 / 3200.0f);
	fixture_close(&f);
}

/* Strata that come once a step each are of the same age: what they offer is seen as it comes, and
 * not all at once every so many steps. */
static void strata_of_one_age_are_not_counted_together(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f, 1, 1);
	fixture_rate(&f, 0);
	for (uint64_t step = 0; step < 200; step++) {
		const uint64_t before = f.chooser.offered;

		for (uint64_t kernel = 0; kernel < 320; kernel++) {
			chooser_take(&f.chooser, fixture_stratum(&f, kernel), 0);
		}
		assert_in_range(f.chooser.offered - before, 0, 2 * 320 + 64);
	}
	assert_in_range(f.chooser.offered, 0.9 * 200 * 320, 1.1 * 200 * 320);
	fixture_close(&f);
}

/* Nothing is chosen for want of any demand that was seen. */
static void no_demand_is_no_reason_to_choose_all(void **state)
{
	struct fixture f;
	float before;

	(void)state;
	fixture_open(&f, 1, 1);
	before = f.chooser.rate;
	/* a quarter of a second in which the program was held up */
	grant_after(&f, 250000000, &(struct chooser_grant){ 1000, 10, 100, 0, 0 });
	assert_true(f.chooser.rate <= before);
	look_at_many(&f, 0, 100);
	before = f.chooser.rate;
	f.now_ns += 5 * (uint64_t)TICK_NS;
	chooser_resume(&f.chooser, f.now_ns);
	grant_after(&f, TICK_NS / 100, &(struct chooser_grant){ 100, 100, 100, 0, 0 });
	assert_true(f.chooser.rate < 1.1f * before);
	fixture_close(&f);
}

/* Programs whose launches all are of strata that have few would spend all on them. */
static void strata_that_have_few_take_a_tenth_of_the_income(void **state)
{
	const double per_s = 100;
	struct fixture f;
	uint64_t taken;

	(void)state;
	fixture_open(&f, 1, 1);
	for (uint64_t tick = 0; tick < 600; tick++) {
		grant_after(&f, TICK_NS, &(struct chooser_grant){ 10, 100, per_s, 0, 0 });
		for (uint64_t i = 0; i < 300; i++) {
			chooser_take(&f.chooser, fixture_stratum(&f, i + tick / 50 * 300), 0);
		}
	}
	taken = f.chooser.few_taken;
	print_message("%llu of %llu\n", (unsigned long long)taken,
		      (unsigned long long)chooser_chosen(&f.chooser));
	assert_in_range(taken, 0.05 * 60 * per_s, 0.15 * 60 * per_s);
	fixture_close(&f);
}

/* One launch a second is offered to an income of ten: all of them may be measured, though none is
 * looked at before the 64th. */
static void launches_that_are_few_are_all_chosen(void **state)
{
	struct fixture f;
	uint64_t n = 0;

	(void)state;
	fixture_open(&f, 1, 1);
	for (int tick = 0; tick < 600; tick++) {
		grant_after(&f, TICK_NS, &(struct chooser_grant){ 10, 16, 10, 0, 0 });
		if (tick % 10 == 0) {
			n += chooser_take(&f.chooser, fixture_stratum(&f, 0), 0).measure;
		}
	}
	assert_in_range(n, 50, 60);
	fixture_close(&f);
}

/* Where turns follow each other faster than the demand is reckoned, it is found all the same, with
 * the time and launches of each of them. */
static void short_turns_show_the_demand(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f, 1, 2);
	for (uint32_t turn = 0; turn < 600; turn++) {
		grant_after(&f, TICK_NS / 5, &(struct chooser_grant){ 0, 100, 10, 0, turn % 2 });
		for (uint64_t i = 0; i < 128; i++) {
			chooser_take(&f.chooser, fixture_stratum(&f, i % 4), turn % 2);
		}
	}
	for (size_t pass = 0; pass < 2; pass++) {
		assert_true(fabs(f.chooser.passes[pass].per_s / 6400 - 1) < 0.1);
	}
	fixture_close(&f);
}

/* What a pass with cheap launches was granted is no measure of one whose launches are dear. */
static void what_first_launches_leave_is_of_their_own_pass(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f, 1, 2);
	grant_after(&f, TICK_NS, &(struct chooser_grant){ 1000, 10, 100, 0, 0 });
	assert_int_equal(f.chooser.most, 1000);
	grant_after(&f, TICK_NS, &(struct chooser_grant){ 40, 10, 4, 0, 1 });
	assert_true(chooser_take(&f.chooser, fixture_stratum(&f, 1), 1).chance == 1);
	grant_after(&f, 1, &(struct chooser_grant){ 700, 10, 100, 0, 0 });
	assert_in_range(f.chooser.most, 900, 1000);
	grant_after(&f, 100 * (uint64_t)TICK_NS, &(struct chooser_grant){ 5, 10, 100, 0, 0 });
	assert_in_range(f.chooser.most, 10, 11); /* and is forgotten */
	fixture_close(&f);
}

/* Clocks that are read by several threads come in any order. */
static void a_grant_that_is_late_takes_no_time(void **state)
{
	struct fixture f;
	float before;

	(void)state;
	fixture_open(&f, 1, 1);
	f.now_ns = 1000 * (uint64_t)TICK_NS;
	chooser_begin(&f.chooser, f.now_ns);
	look_at_many(&f, 0, 100);
	before = f.chooser.rate;
	chooser_resume(&f.chooser, f.now_ns + 5);
	grant_after(&f, 0, &(struct chooser_grant){ 100, 100, 100, 0, 0 });
	assert_true(f.chooser.rate < 1.1f * before);
	look_at_many(&f, 0, 100);
	assert_true(f.chooser.rate < 2 * before && f.chooser.rate > before / 2);
	fixture_close(&f);
}

/* Of many launches that are alike, one that is not does not have all strata taken for unlike. */
static void one_launch_does_not_speak_for_all(void **state)
{
	const double none = 0, one = 1, large = 10000;
	struct fixture f;

	(void)state;
	fixture_open(&f, 1, 1);
	f.chooser.credit = 0;
	for (uint64_t kernel = 1; kernel <= 50; kernel++) {
		note_values(&f, kernel, 1000, 1);
	}
	for (int i = 0; i < 1000; i++) {
		chooser_note(&f.chooser, fixture_stratum(&f, 60), 0, 1, &none);
	}
	chooser_note(&f.chooser, fixture_stratum(&f, 60), 0, 1, &one);
	assert_true(f.chooser.scales[0].degrees > 5900);
	assert_true(f.chooser.scales[0].squares < 5);
	chooser_note(&f.chooser, fixture_stratum(&f, 51), 0, 1, &large);
	assert_true(gain_of(&f, 51) < gain_of(&f, 52));
	fixture_close(&f);
}

/* What a stratum is worth of which one launch was measured is found out, for each pass. */
static void what_is_worth_less_once_it_was_met_is_learned(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f, 1, 2);
	for (uint64_t kernel = 1; kernel <= 50; kernel++) {
		note_values(&f, kernel, 1000, 1);
	}
	fixture_rate(&f, 0);
	assert_true(chooser_take(&f.chooser, fixture_stratum(&f, 51), 0).measure);
	assert_true(gain_of(&f, 51) < 0.05);
	assert_true(chooser_take(&f.chooser, fixture_stratum(&f, 52), 1).measure);
	assert_true((double)f.chooser.states[2 * fixture_stratum(&f, 52) + 1].gain > 0.4);
	fixture_close(&f);
}

/* Of a pass of which all is known, little gain is offered; that says nothing of another, and is not
 * forgotten meanwhile. */
static void passes_have_demands_of_their_own(void **state)
{
	const struct chooser_grant back = { 100, 100, 10, 0, 0 }, forth = { 100, 100, 10, 0, 1 };
	struct fixture f;
	float first;

	(void)state;
	fixture_open(&f, 1, 2);
	look_at_many(&f, 0, 10);
	for (uint64_t kernel = 0; kernel < 10; kernel++) {
		note_values(&f, kernel, 1000, 1);
	}
	look_at_many(&f, 0, 10);
	first = f.chooser.rate;
	grant_after(&f, 0, &forth); /* nothing is known of it: each launch is worth one */
	assert_true(fabsf(f.chooser.rate / (10 / 6400.0f) - 1) < 0.1f);
	assert_true(first > 10 * f.chooser.rate);
	look_at_many(&f, 1, 10);
	grant_after(&f, 0, &back);
	assert_true(fabsf(f.chooser.rate / first - 1) < 0.2f);
	fixture_close(&f);
}

/* Launches that were alike say little of a stratum whose launches differ: it is looked at all the
 * same. */
static void merged_strata_are_not_believed_to_be_constant(void **state)
{
	struct fixture f;
	uint32_t merged = STRATA_REST, alone;

	(void)state;
	fixture_open(&f, 1, 1);
	fixture_rate(&f, 0.001f);
	for (uint32_t i = 1; i <= STRATA_SHAPES_OF_A_KERNEL_MAX + 1; i++) {
		const struct stratum_key key = { .kernel = 1, .grid = { i, 1, 1 } };

		merged = strata_find(&f.strata, &key);
	}
	assert_true(f.strata.v[merged].merged);
	alone = fixture_stratum(&f, 2);
	for (int i = 0; i < 1000; i++) {
		const double value = 1000;

		chooser_note(&f.chooser, merged, 0, 1, &value);
		chooser_note(&f.chooser, alone, 0, 1, &value);
	}
	chooser_take(&f.chooser, merged, 0);
	chooser_take(&f.chooser, alone, 0);
	assert_true((double)chooser_take(&f.chooser, alone, 0).chance < 0.00005);
	assert_true((double)chooser_take(&f.chooser, merged, 0).chance > 0.00009);
	fixture_close(&f);
}

enum { NEW_PATHS, NEW_SHAPES, NEW_KERNELS };

/* A hundred strata, a launch of each; how many were chosen by then. */
static uint64_t take_once(struct fixture *f, int what)
{
	for (uint32_t i = 1; i <= 100; i++) {
		const struct stratum_key key = {
			.kernel = what == NEW_KERNELS ? 1 + i : 1,
			.grid = { what == NEW_SHAPES ? 1 + i : 1, 1, 1 },
			.block = { 1, 1, 1 },
			.path = i,
		};

		chooser_take(&f->chooser, strata_find(&f->strata, &key), 0);
	}
	return chooser_chosen(&f->chooser);
}

static void strata_that_come_once_leave_credit_for_others(void **state)
{
	struct fixture f;
	uint32_t known;

	(void)state;
	fixture_open(&f, 1, 1);
	chooser_grant(&f.chooser, &(struct chooser_grant){ 100, 100, 0, 0, 0 });
	f.chooser.rate = 0;
	f.chooser.few = 0;
	assert_int_equal(take_once(&f, NEW_PATHS), 25);
	assert_int_equal(take_once(&f, NEW_SHAPES), 50);
	assert_int_equal(take_once(&f, NEW_KERNELS), 75);
	/* With the rate they are chosen like all others. */
	f.chooser.rate = 1e6f;
	known = fixture_stratum(&f, 1);
	for (int i = 0; i < 200; i++) {
		chooser_take(&f.chooser, known, 0);
	}
	assert_int_equal(chooser_chosen(&f.chooser), 100);
	fixture_close(&f);
}

/* A launch of a hundred and one of a hundred thousand: few / k looks at both alike. */
static void rare_strata_are_looked_at_as_often_by_their_launches(void **state)
{
	struct fixture f;
	double chances[2] = { 0, 0 };
	uint32_t rare, often;

	(void)state;
	fixture_open(&f, 1, 1);
	fixture_rate(&f, 0);
	f.chooser.few = 1;
	rare = fixture_stratum(&f, 1);
	often = fixture_stratum(&f, 2);
	for (int i = 0; i < 100000; i++) {
		chances[0] += i % 1000 == 0 ? (double)chooser_take(&f.chooser, rare, 0).chance : 0;
		chances[1] += (double)chooser_take(&f.chooser, often, 0).chance;
	}
	assert_true(fabs(chances[0] - (0.5772 + log(100))) < 0.1); /* the harmonic series */
	assert_true(fabs(chances[1] - (0.5772 + log(100000))) < 0.1);
	fixture_close(&f);
}

/* The rate follows the demand: as many are chosen as come in. */
static void as_many_are_chosen_as_come_in(void **state)
{
	static const int launches[] = { 100, 1000, 100000 }; /* in a tenth of a second */
	const double per_s = 200;
	uint32_t strata[30]; /* looked up once: 60 million launches are the chooser's, not the
				table's */

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(launches); i++) {
		struct fixture f;
		uint64_t before = 0;

		fixture_open(&f, 3, 1);
		for (size_t k = 0; k < ARRAY_SIZE(strata); k++) {
			strata[k] = fixture_stratum(&f, 1 + k);
		}
		for (int tick = 0; tick < 600; tick++) {
			int64_t left = tick ? f.chooser.credit : 0, full = 100;

			before = tick == 100 ? chooser_chosen(&f.chooser) : before;
			left += (int64_t)(per_s / 10);
			left = left < 2 * full ? left : 2 * full;
			grant_after(&f, TICK_NS,
				    &(struct chooser_grant){ left, full, per_s, 0, 0 });
			for (int n = 0; n < launches[i]; n++) {
				chooser_take(&f.chooser, strata[(size_t)n % ARRAY_SIZE(strata)], 0);
			}
		}
		print_message("%d launches: %.1f chosen a second\n", launches[i] * 10,
			      (double)(chooser_chosen(&f.chooser) - before) / 50);
		assert_true((double)(chooser_chosen(&f.chooser) - before) / 50 > 0.9 * per_s);
		assert_true((double)(chooser_chosen(&f.chooser) - before) / 50 < 1.05 * per_s);
		fixture_close(&f);
	}
}

enum { THREADS = 8, THREAD_LAUNCHES = 100000 };

static void *take_many(void *argument)
{
	struct fixture *f = argument;

	for (uint64_t i = 0; i < THREAD_LAUNCHES; i++) {
		uint32_t stratum = fixture_stratum(f, 1 + i % 40);
		double value = i % 3 ? 1 : 10;
		struct choice c = chooser_take(&f->chooser, stratum, 0);

		if (c.measure) {
			chooser_note(&f->chooser, stratum, 0, c.chance, &value);
		}
	}
	return NULL;
}

static void threads_take_no_more_than_is_granted(void **state)
{
	pthread_t threads[THREADS];
	struct fixture f;

	(void)state;
	fixture_open(&f, 1, 1);
	chooser_grant(&f.chooser, &(struct chooser_grant){ 5000, 1, 0, 0, 0 });
	f.chooser.rate = 0.5f;
	for (size_t i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_create(&threads[i], NULL, take_many, &f), 0);
	}
	for (size_t i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
	}
	assert_int_equal(chooser_chosen(&f.chooser), 5000);
	assert_int_equal(f.chooser.credit, 0);
	assert_int_equal(strata_total(&f.strata), THREADS * THREAD_LAUNCHES);
	fixture_close(&f);
}

static void too_many_metrics_are_refused(void **state)
{
	const struct chooser_options options = { .metrics = CHOOSER_METRICS_MAX + 1 };
	struct chooser c;

	(void)state;
	assert_int_equal(chooser_init(&c, NULL, &options), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_chosen_that_was_not_granted),
		cmocka_unit_test(the_first_launch_of_each_stratum_and_pass_is_certain),
		cmocka_unit_test(the_seed_decides_and_not_the_order_of_strata),
		cmocka_unit_test(passes_choose_each_for_itself),
		cmocka_unit_test(chances_are_what_they_say),
		cmocka_unit_test(no_rhythm_meets_the_choice),
		cmocka_unit_test(what_varies_more_is_chosen_more),
		cmocka_unit_test(strata_that_are_alike_leave_room_for_new_ones),
		cmocka_unit_test(a_stratum_is_new_once),
		cmocka_unit_test(passes_have_demands_of_their_own),
		cmocka_unit_test(passes_at_once_share_the_demand),
		cmocka_unit_test(strata_of_one_age_are_not_counted_together),
		cmocka_unit_test(no_demand_is_no_reason_to_choose_all),
		cmocka_unit_test(strata_that_have_few_take_a_tenth_of_the_income),
		cmocka_unit_test(launches_that_are_few_are_all_chosen),
		cmocka_unit_test(short_turns_show_the_demand),
		cmocka_unit_test(what_first_launches_leave_is_of_their_own_pass),
		cmocka_unit_test(a_grant_that_is_late_takes_no_time),
		cmocka_unit_test(one_launch_does_not_speak_for_all),
		cmocka_unit_test(what_is_worth_less_once_it_was_met_is_learned),
		cmocka_unit_test(merged_strata_are_not_believed_to_be_constant),
		cmocka_unit_test(strata_that_come_once_leave_credit_for_others),
		cmocka_unit_test(rare_strata_are_looked_at_as_often_by_their_launches),
		cmocka_unit_test(as_many_are_chosen_as_come_in),
		cmocka_unit_test(threads_take_no_more_than_is_granted),
		cmocka_unit_test(too_many_metrics_are_refused),
	};
#ifdef __SANITIZE_THREAD__ /* has nothing to see where there are none */
	const struct CMUnitTest with_threads[] = {
		cmocka_unit_test(threads_take_no_more_than_is_granted),
	};

	(void)tests;
	return cmocka_run_group_tests(with_threads, NULL, NULL);
#endif

	return cmocka_run_group_tests(tests, NULL, NULL);
}
