/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <math.h>

#include "tests/unit/budget_fixture.h"

enum { LOG_MS = 400000 };

/* A process that does whatever it may: it measures as fast as the pace allows and turns at once.
 * Costs are those of an H200, times anything from 0.8 to 1.2. */
struct greedy {
	struct budget b;
	uint64_t now_ns, random;
	double range_ns, first_ns; /* true ones */
	double wait_ns;		   /* for each range, from nothing to twice that */
	double *spent;		   /* in each ms */
	size_t taken, largest, turns, n_first;
	size_t taken_of[BUDGET_PASSES_MAX];
	uint32_t pass;
};

static double vary(struct greedy *g, double ns)
{
	return ns * (0.8 + 0.4 * (double)(unit_random(&g->random) >> 11) * 0x1p-53);
}

static double spend(struct greedy *g, double ns)
{
	g->now_ns += (uint64_t)ns;
	if (g->now_ns / MS < LOG_MS) {
		g->spent[g->now_ns / MS] += ns;
	}
	return ns;
}

static void greedy_open(struct greedy *g, const struct budget_options *options)
{
	memset(g, 0, sizeof(*g));
	assert_int_equal(budget_init(&g->b, options), 0);
	g->random = 7 + (uint64_t)(options->share * 1e6);
	g->range_ns = options->range_ns > 0 ? options->range_ns : 46e3;
	g->first_ns = 9e5;
	g->spent = calloc(LOG_MS, sizeof(*g->spent));
	assert_non_null(g->spent);
}

static void greedy_close(struct greedy *g)
{
	free(g->spent);
}

static void first_start(struct greedy *g, size_t size)
{
	double ns = spend(g, vary(g, g->first_ns * (double)size));

	budget_note_first_start(&g->b, g->now_ns, size, g->pass, ns);
	g->largest = size;
	g->n_first++;
}

static bool turn(struct greedy *g)
{
	size_t size;

	if (!budget_may_turn(&g->b, g->now_ns)) {
		return false;
	}
	g->turns++;
	budget_note_stop(&g->b, g->now_ns, spend(g, vary(g, 8e6)));
	size = budget_next_size(&g->b, g->now_ns);
	g->pass = (g->pass + 1) % g->b.options.passes;
	if (size != 0) {
		first_start(g, size);
	} else {
		budget_note_start(&g->b, g->now_ns, g->pass, spend(g, vary(g, 6e6)));
	}
	return true;
}

static void wait(struct greedy *g)
{
	double ns = 2 * g->wait_ns * (double)(unit_random(&g->random) >> 11) * 0x1p-53;

	budget_note_wait(&g->b, g->now_ns, spend(g, ns));
}

static void greedy_tick(struct greedy *g)
{
	struct budget_pace pace = budget_take_pace(&g->b, g->now_ns);

	for (int64_t i = 0; i < pace.credit; i++) {
		double cpu, gpu;

		if (!g->b.open && g->n_first == 0) {
			first_start(g, g->b.size);
		}
		if (g->b.taken == g->b.room) {
			if (!turn(g)) {
				break;
			}
			if (g->b.options.passes > 1) { /* another price */
				pace = budget_take_pace(&g->b, g->now_ns);
				i = -1;
				continue;
			}
		}
		if (g->wait_ns > 0) {
			wait(g);
			pace = budget_take_pace(&g->b, g->now_ns);
			i = -1;
		}
		cpu = vary(g, 5e3);
		gpu = vary(g, g->b.options.pass_range_ns[g->pass] > 0
				      ? g->b.options.pass_range_ns[g->pass]
				      : g->range_ns);
		spend(g, cpu + gpu);
		budget_note_range(&g->b, g->now_ns, g->pass, cpu, gpu, BUDGET_CALIBRATED);
		g->taken++;
		g->taken_of[g->pass]++;
	}
}

static void greedy_run(struct greedy *g, uint64_t seconds)
{
	uint64_t end_ns = g->now_ns + seconds * S;

	while (g->now_ns < end_ns) {
		greedy_tick(g);
		g->now_ns += 100 * MS;
	}
}

/* The largest part of any ten seconds after the first one. */
static double worst_window(const struct greedy *g)
{
	double sum = 0, worst = 0;

	for (size_t i = 1000; i < LOG_MS; i++) {
		sum += g->spent[i];
		sum -= i >= 11000 ? g->spent[i - 10000] : 0;
		worst = sum > worst ? sum : worst;
	}
	return worst / 1e10;
}

static void any_ten_seconds_keep_the_budget(void **state)
{
	static const double shares[] = { 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 0.8 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(shares); i++) {
		const struct budget_options options = { .share = shares[i], .passes = 1 };
		struct greedy g;
		double all;

		greedy_open(&g, &options);
		greedy_run(&g, 120);
		all = budget_spent_share(&g.b, g.now_ns);
		print_message("%5.2f %%: worst ten seconds %.3f %%, all %.3f %%, %zu launches in "
			      "batches of up to %zu\n",
			      100 * shares[i], 100 * worst_window(&g), 100 * all, g.taken,
			      g.largest);
		assert_true(worst_window(&g) <= shares[i]);
		assert_true(all <= shares[i]);
		/* And it is used: two minutes pay the loan back. Where little more than a turn fits
		 * into ten seconds, some of it always waits for the next. */
		assert_true(all > (shares[i] < 0.01 ? 0.35 : 0.7) * shares[i]);
		greedy_close(&g);
	}
}

/* The same for SM metrics, whose ranges cost 17 times as much; and for a first Start that is dear.
 */
static void dear_ranges_and_starts_keep_it_too(void **state)
{
	static const double shares[] = { 0.01, 0.05 };

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(shares); i++) {
		const struct budget_options options = { .share = shares[i / 2],
							.passes = 1,
							.range_ns = i % 2 ? 763e3 : 0 };
		struct greedy g;

		greedy_open(&g, &options);
		g.first_ns = i % 2 ? 9e5 : 3.4e6;
		greedy_run(&g, 120);
		assert_true(worst_window(&g) <= options.share);
		assert_true(g.taken > 100);
		greedy_close(&g);
	}
}

/* What is assumed is far too little: the first ranges say so, and the promise holds from then on.
 */
static void a_wrong_assumption_is_corrected(void **state)
{
	const struct budget_options options = { .share = 0.02, .passes = 1 };
	struct greedy g;

	(void)state;
	greedy_open(&g, &options);
	g.range_ns = 700e3;
	greedy_run(&g, 120);
	assert_true(worst_window(&g) <= 0.02);
	greedy_close(&g);
}

/* A range that waits for other streams costs what these stand, which nobody knows before. */
static void what_is_waited_is_paid_for(void **state)
{
	static const double shares[] = { 0.02, 0.05 }, waits[] = { 0.2e6, 2e6, 20e6 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(shares) * ARRAY_SIZE(waits); i++) {
		const struct budget_options options = { .share = shares[i / ARRAY_SIZE(waits)],
							.passes = 1 };
		struct greedy g;
		double all;

		greedy_open(&g, &options);
		g.wait_ns = waits[i % ARRAY_SIZE(waits)];
		greedy_run(&g, 120);
		all = budget_spent_share(&g.b, g.now_ns);
		print_message("%.0f %%, %.1f ms waited for each range: worst ten seconds %.3f %%, "
			      "all %.3f %%, %zu launches\n",
			      100 * options.share, g.wait_ns * 1e-6, 100 * worst_window(&g),
			      100 * all, g.taken);
		assert_true(worst_window(&g) <= options.share);
		assert_true(all > 0.6 * options.share && all <= options.share);
		greedy_close(&g);
	}
}

/* From the moment on when it was waited, and until ranges come that were not waited for. */
static void who_was_waited_for_is_dear(void **state)
{
	struct budget b = open_at(0.05, 0);
	int64_t before, after;

	(void)state;
	before = budget_take_pace(&b, S / 2).credit;
	budget_note_wait(&b, S / 2, 5e6);
	budget_note_wait(&b, S / 2, 5e6);
	after = budget_take_pace(&b, S / 2).credit;
	assert_true(before > 100);
	assert_in_range(after, 1, before / 50);
	budget_note_range(&b, S / 2, 0, 5e3, 46e3, BUDGET_ASSUMED);
	assert_in_range(budget_take_pace(&b, S / 2).credit, 1, before / 50);
	for (int i = 0; i < 200; i++) {
		budget_note_range(&b, S / 2, 0, 5e3, 46e3, BUDGET_ASSUMED);
	}
	assert_true(b.wait_ns < 1e3);
	assert_true(b.costs[BUDGET_WAIT].total_ns == 10e6);
}

/* It is paid back, and then another one is tried, and shows whether it waits as long. */
static void one_long_wait_does_not_end_all_measuring(void **state)
{
	static const double shares[] = { 0.005, 0.01, 0.05 };

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(shares); i++) {
		double share = shares[i / 2];
		struct budget b = open_at(share, 0);
		uint64_t t = 20 * S;

		budget_note_first_start(&b, 0, 64, 0, 105e6);
		budget_note_wait(&b, t, 2e9); /* the patience of a process */
		if (i % 2 == 0) {	      /* which was in vain, or not */
			budget_note_range(&b, t, 0, 5e3, 46e3, BUDGET_ASSUMED);
		}
		for (; budget_take_pace(&b, t).credit == 0 && t < 3600 * S; t += 100 * MS) {
		}
		print_message("%.1f %%: measured again after %llu s\n", 100 * share,
			      (unsigned long long)(t / S - 20));
		assert_in_range(t, (uint64_t)(20e9 + 2e9 / share),
				(uint64_t)(20e9 + 2 * 2e9 / share));
		for (int k = 0; k < 200; k++) {
			budget_note_range(&b, t, 0, 5e3, 46e3, BUDGET_ASSUMED);
		}
		assert_true(b.wait_ns < 1e6);
	}
}

static void idle_time_is_no_savings_account(void **state)
{
	const struct budget_options options = { .share = 0.02, .passes = 1 };
	struct budget_pace pace;
	struct greedy g;

	(void)state;
	greedy_open(&g, &options);
	greedy_run(&g, 60);
	pace = budget_take_pace(&g.b, g.now_ns + 3600 * S);
	print_message("after an hour: %lld launches, %.0f a second\n", (long long)pace.credit,
		      pace.per_s);
	assert_true((double)pace.credit > pace.per_s);
	assert_true((double)pace.credit < 2.1 * pace.per_s);
	greedy_close(&g);
}

static void a_share_that_no_turn_fits_is_known(void **state)
{
	const struct budget_options options = { .share = 0.001, .passes = 1 };
	struct greedy g;

	(void)state;
	greedy_open(&g, &options);
	assert_true(budget_least_share(&g.b) > options.share);
	greedy_run(&g, 120);
	/* The first batch is measured, and is the last one. */
	assert_int_equal(g.taken, g.b.size);
	assert_int_equal(g.turns, 0);
	assert_int_equal(budget_take_pace(&g.b, g.now_ns).credit, 0);
	assert_true(worst_window(&g) <= 0.001);
	greedy_close(&g);
}

static void the_first_start_is_paid_back(void **state)
{
	const struct budget_options options = { .share = 0.05, .passes = 1 };
	struct budget b;
	double first, later;

	(void)state;
	assert_int_equal(budget_init(&b, &options), 0);
	budget_note_first_start(&b, 300 * MS, 64, 0, 300e6);
	first = budget_take_pace(&b, 2 * S).per_s;
	assert_true(b.loan_ns > 0);
	/* A quarter of 4.6 % pays back 300 ms, and the 92 that it began with, in 34 s. */
	assert_true(budget_take_pace(&b, 32 * S).per_s == first);
	later = budget_take_pace(&b, 36 * S).per_s;
	assert_true(b.loan_ns == 0);
	assert_true(fabs(later / first - 4.0 / 3) < 1e-6);
}

/* Also of one pass: the income of eight seconds, 372 ms, pays for 426 ranges of 763 us with their
 * part of a turn. */
static void dear_ranges_are_dear_from_the_first_one(void **state)
{
	const struct budget_options options = {
		.share = 0.05, .passes = 1, .range_ns = 1, .pass_range_ns = { 763e3 }
	};
	struct budget b;

	(void)state;
	assert_int_equal(budget_init(&b, &options), 0);
	assert_int_equal(budget_take_pace(&b, 0).credit, 426);
}

/* Each would cost a first Start again: 300 ms fit into ten seconds at 5 %, and are owed for as
 * long. */
static void contexts_take_over_when_the_last_start_is_paid(void **state)
{
	const struct budget_options options = { .share = 0.05, .passes = 1 };
	struct budget b;

	(void)state;
	assert_int_equal(budget_init(&b, &options), 0);
	budget_note_first_start(&b, 300 * MS, 64, 0, 300e6);
	assert_true(budget_may_first_start(&b, 500 * MS, 64));
	assert_false(budget_may_take_over(&b, 500 * MS, 64));
	assert_false(budget_may_take_over(&b, 8 * S, 64));
	assert_true(budget_may_take_over(&b, 40 * S, 64));
	budget_note_first_start(&b, 40 * S + 300 * MS, 64, 0, 300e6);
	assert_false(budget_may_take_over(&b, 41 * S, 64));
}

static void batches_grow_when_turns_have_cost_as_much(void **state)
{
	const struct budget_options options = { .share = 0.3, .passes = 1, .size_most = 400 };
	struct greedy g;

	(void)state;
	greedy_open(&g, &options);
	greedy_run(&g, 1);
	assert_int_equal(g.largest, 128);
	greedy_run(&g, 200);
	assert_int_equal(g.largest, 400);
	assert_int_equal(g.n_first, 2);
	greedy_close(&g);
	greedy_open(&g, &(struct budget_options){ .share = 0.6, .passes = 1 });
	greedy_run(&g, 200);
	assert_int_equal(g.n_first, 3); /* 128, 512, and what ten seconds have room for */
	assert_in_range(g.largest, 1024, 2048);
	greedy_close(&g);
}

/* Each in each minute, and several times soon: batches grow only so far. */
static void every_pass_comes_again_soon(void **state)
{
	const struct budget_options options = { .share = 0.02, .passes = 8 };
	struct greedy g;

	(void)state;
	greedy_open(&g, &options);
	greedy_run(&g, 120);
	print_message("8 passes at 2 %%: %zu turns in 120 s, batches of %zu\n", g.turns, g.b.size);
	assert_true(g.turns >= 8 * 8);
	greedy_run(&g, 1200);
	print_message("and %zu in 1320 s, batches of %zu\n", g.turns, g.b.size);
	assert_true(g.turns >= 8 * 22);
	assert_true(worst_window(&g) <= 0.02);
	greedy_close(&g);
}

/* What was granted for ranges of one price is no grant for those of another. */
static void the_pace_is_of_the_pass_that_launches_are_chosen_for(void **state)
{
	const struct budget_options options = { .share = 0.05,
						.passes = 2,
						.pass_range_ns = { 51e3, 763e3 } };
	int64_t cheap, dear;
	struct budget b;

	(void)state;
	assert_int_equal(budget_init(&b, &options), 0);
	budget_note_first_start(&b, 60 * MS, 64, 0, 60e6);
	cheap = budget_take_pace(&b, 30 * S).credit;
	budget_note_turn(&b, 1);
	dear = budget_take_pace(&b, 30 * S).credit;
	assert_true(dear > 0 && cheap > 3 * dear);
}

/* So that what costs little is measured often, and those that cost much wait no longer for it. */
static void batches_of_dear_passes_are_a_step_behind(void **state)
{
	const struct budget_options mixed = { .share = 0.05,
					      .passes = 4,
					      .pass_range_ns = { 51e3, 763e3, 51e3, 763e3 } };
	struct budget_options options = mixed;
	struct greedy g;

	(void)state;
	greedy_open(&g, &options);
	assert_int_equal(budget_batch_size(&g.b, 0, g.b.size), 256);
	assert_int_equal(budget_batch_size(&g.b, 1, g.b.size), 64);
	greedy_run(&g, 120);
	print_message("ranges of 51 us: %zu, of 763 us: %zu\n", g.taken_of[0], g.taken_of[1]);
	assert_true(g.taken_of[0] >= 3 * g.taken_of[1]);
	assert_true(g.taken_of[2] >= 3 * g.taken_of[3]);
	assert_true(g.turns >= 8 * 4);
	assert_true(worst_window(&g) <= 0.05);
	greedy_close(&g);
	/* A small budget would have to pay the larger first Start back for long. */
	options.share = 0.02;
	greedy_open(&g, &options);
	assert_int_equal(budget_batch_size(&g.b, 0, g.b.size), 64);
	assert_int_equal(budget_batch_size(&g.b, 1, g.b.size), 64);
	greedy_close(&g);
	/* Where all are dear none is. */
	options = (struct budget_options){
		.share = 0.05, .passes = 2, .size = 256, .pass_range_ns = { 763e3, 763e3 }
	};
	greedy_open(&g, &options);
	assert_int_equal(budget_batch_size(&g.b, 1, g.b.size), 256);
	greedy_close(&g);
}

/* Which has batches of one of them in mind: what the others take is not of its pass, nor more than
 * there is room for. */
static void contexts_share_an_account(void **state)
{
	const struct budget_options options = { .share = 0.05,
						.passes = 2,
						.pass_range_ns = { 51e3, 763e3 } };
	struct budget b;

	(void)state;
	assert_int_equal(budget_init(&b, &options), 0);
	budget_note_first_start(&b, 60 * MS, 256, 0, 60e6);
	budget_note_start(&b, 70 * MS, 1, 6e6); /* another's, of 64 */
	for (int i = 0; i < 300; i++) {
		budget_note_range(&b, 2 * S, 0, 5e3, 46e3, BUDGET_ASSUMED);
	}
	assert_true(b.ranges[1].each_ns == 763e3);
	assert_int_equal(budget_batch_size(&b, 1, 256), 64);
	waste(&b, 2 * S, 480e6); /* and there is no time for a turn */
	assert_true(budget_take_pace(&b, 2 * S).credit >= 0);
}

/* A kernel that is larger than those before makes its ranges dearer for as long as it comes. */
static void the_price_of_a_range_follows_the_program(void **state)
{
	const struct budget_options options = { .share = 0.05, .passes = 2 };
	struct budget b;

	(void)state;
	assert_int_equal(budget_init(&b, &options), 0);
	for (int i = 0; i < 2000; i++) {
		budget_note_range(&b, 2 * S, 0, i < 1000 ? 5e3 : 205e3, 46e3, BUDGET_ASSUMED);
	}
	assert_true(fabs(b.ranges[0].each_ns - 251e3) < 1e3);
	budget_note_range(&b, 2 * S, 0, 10e6, 46e3, BUDGET_ASSUMED);
	assert_true(b.ranges[0].each_ns < 1e6); /* one says little */
}

/* An image may have room for fewer ranges than a batch of its pass is to have by now: the turn that
 * comes so much sooner is set aside for all the same. */
static void the_turn_of_a_smaller_batch_is_set_aside(void **state)
{
	const struct budget_options options = { .share = 0.05, .passes = 1 };
	int64_t credit[2];

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct budget b;

		assert_int_equal(budget_init(&b, &options), 0);
		budget_note_first_start(&b, 60 * MS, 256, 0, 60e6);
		budget_note_room(&b, i == 0 ? 512 : 64); /* never more than it was to have */
		for (int k = 0; k < 64; k++) {
			budget_note_range(&b, 2 * S, 0, 5e3, 46e3, BUDGET_ASSUMED);
		}
		assert_int_equal(b.room, i == 0 ? 256 : 64);
		credit[i] = budget_take_pace(&b, 2 * S).credit;
	}
	/* three quarters of 14 ms, in launches of 51 us and their part of a turn */
	assert_in_range(credit[0] - credit[1], 90, 210);
}

static void an_old_batch_is_handed_over_when_it_can_be_paid(void **state)
{
	const struct budget_options options = { .share = 0.05, .passes = 1 };
	struct budget b;

	(void)state;
	assert_int_equal(budget_init(&b, &options), 0);
	budget_note_first_start(&b, 60 * MS, 64, 0, 60e6);
	assert_false(budget_batch_is_old(&b, 30 * S)); /* it is empty */
	budget_note_range(&b, 30 * S, 0, 5e3, 46e3, BUDGET_ASSUMED);
	assert_false(budget_batch_is_old(&b, 34 * S));
	assert_true(budget_batch_is_old(&b, 36 * S));
	waste(&b, 36 * S, 200e6);
	assert_false(budget_batch_is_old(&b, 36 * S));
}

/* The overhead is not there for measuring; a while in which it is too much is forgotten. */
static void overhead_is_paid_first(void **state)
{
	const struct budget_options options = { .share = 0.02, .passes = 1 };
	struct budget with, without;
	double per_s;

	(void)state;
	budget_init(&with, &options);
	budget_init(&without, &options);
	for (uint64_t t = 2 * S; t < 12 * S; t += 100 * MS) {
		budget_note_callbacks(&with, t, 5000, 0.6e6, 0.4e6,
				      BUDGET_ASSUMED); /* 1 % of the time */
		budget_take_pace(&without, t);
	}
	per_s = budget_take_pace(&with, 12 * S).per_s;
	assert_true(per_s > 0 && per_s < budget_take_pace(&without, 12 * S).per_s * 2 / 3);
	assert_true(budget_take_pace(&with, 12 * S).credit > 0);
	assert_true(budget_overhead_share(&with, 12 * S) > 0.008);
	assert_int_equal(with.costs[BUDGET_CALLBACKS].n, 100 * 5000);
	assert_int_equal(with.costs[BUDGET_SLOWDOWN].n, 100 * 5000 / 2);
	assert_true(fabs(with.costs[BUDGET_SLOWDOWN].total_ns - 40e6) < 1);
	for (uint64_t t = 12 * S; t < 22 * S; t += 100 * MS) {
		budget_note_callbacks(&with, t, 50000, 10e6, 0, BUDGET_ASSUMED);
	}
	assert_int_equal(budget_take_pace(&with, 22 * S).credit, 0);
	assert_true(budget_take_pace(&with, 35 * S).credit > 0);
}

/* A program that comes for one second in ten, in which the overhead is twice what comes in. It
 * takes a fifth of all that comes in, and the rest pays the first Start back and measures. */
static void pauses_pay_for_bursts(void **state)
{
	struct budget_options options = { .share = 0.05, .passes = 1 };
	struct budget b;

	(void)state;
	assert_int_equal(budget_init(&b, &options), 0);
	budget_note_first_start(&b, 0, 64, 0, 228e6);
	for (uint64_t burst = 2 * S; burst < 52 * S; burst += 10 * S) {
		for (uint64_t t = burst; t <= burst + S; t += 100 * MS) {
			budget_note_callbacks(&b, t, 1000, 10e6, 0, BUDGET_CALIBRATED);
			assert_true(budget_take_pace(&b, t).per_s > 0);
		}
	}
	budget_take_pace(&b, 52 * S);
	assert_true(b.loan_ns == 0);
}

/* However much it has taken: five seconds later a third of the pace is there. */
static void much_overhead_is_forgotten(void **state)
{
	struct budget_options options = { .share = 0.02, .passes = 1 };
	struct budget b;
	double before;

	(void)state;
	assert_int_equal(budget_init(&b, &options), 0);
	b.loan_ns = 0;
	before = budget_take_pace(&b, S).per_s;
	for (uint64_t t = S; t < 30 * S; t += 100 * MS) {
		budget_note_callbacks(&b, t, 1000, 50e6, 0, BUDGET_CALIBRATED);
	}
	assert_true(budget_take_pace(&b, 30 * S).per_s < before / 50);
	assert_true(budget_take_pace(&b, 35 * S).per_s > before / 3);
}

static void time_that_goes_back_is_the_latest(void **state)
{
	const struct budget_options options = { .share = 0.05, .passes = 1, .now_ns = 50 * S };
	struct budget_pace a, b;
	struct budget budget;

	(void)state;
	assert_int_equal(budget_init(&budget, &options), 0);
	a = budget_take_pace(&budget, 60 * S);
	b = budget_take_pace(&budget, 40 * S);
	assert_int_equal(a.credit, b.credit);
	assert_true(budget_spent_share(&budget, 40 * S) == 0);
}

static void what_was_spent_is_told_with_how_it_is_known(void **state)
{
	const struct budget_options options = { .share = 0.02, .passes = 1 };
	struct budget b;
	char text[512], small[16];
	int n;

	(void)state;
	assert_int_equal(budget_init(&b, &options), 0);
	budget_note_first_start(&b, 60 * MS, 64, 0, 60e6);
	budget_note_range(&b, 2 * S, 0, 5e3, 46e3, BUDGET_CALIBRATED);
	budget_note_range(&b, 2 * S, 0, 5e3, 46e3, BUDGET_ASSUMED);
	waste(&b, 2 * S, 1e6);
	n = budget_describe(&b, 10 * S, text, sizeof(text));
	assert_int_equal(n, strlen(text));
	assert_string_equal(text, "spent 0.611 % of 10.0 s (2 % granted): ranges on the CPU 0.0 ms "
				  "(2, timed), ranges on the GPU 0.1 ms (2, assumed), first starts "
				  "60.0 ms (1, timed), waiting for the GPU 1.0 ms (1, timed)");
	assert_int_equal(budget_describe(&b, 10 * S, small, sizeof(small)), n);
	assert_memory_equal(small, text, sizeof(small) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_ten_seconds_keep_the_budget),
		cmocka_unit_test(dear_ranges_and_starts_keep_it_too),
		cmocka_unit_test(a_wrong_assumption_is_corrected),
		cmocka_unit_test(what_is_waited_is_paid_for),
		cmocka_unit_test(who_was_waited_for_is_dear),
		cmocka_unit_test(one_long_wait_does_not_end_all_measuring),
		cmocka_unit_test(idle_time_is_no_savings_account),
		cmocka_unit_test(a_share_that_no_turn_fits_is_known),
		cmocka_unit_test(the_first_start_is_paid_back),
		cmocka_unit_test(dear_ranges_are_dear_from_the_first_one),
		cmocka_unit_test(contexts_take_over_when_the_last_start_is_paid),
		cmocka_unit_test(batches_grow_when_turns_have_cost_as_much),
		cmocka_unit_test(every_pass_comes_again_soon),
		cmocka_unit_test(the_pace_is_of_the_pass_that_launches_are_chosen_for),
		cmocka_unit_test(batches_of_dear_passes_are_a_step_behind),
		cmocka_unit_test(contexts_share_an_account),
		cmocka_unit_test(the_price_of_a_range_follows_the_program),
		cmocka_unit_test(the_turn_of_a_smaller_batch_is_set_aside),
		cmocka_unit_test(an_old_batch_is_handed_over_when_it_can_be_paid),
		cmocka_unit_test(overhead_is_paid_first),
		cmocka_unit_test(pauses_pay_for_bursts),
		cmocka_unit_test(much_overhead_is_forgotten),
		cmocka_unit_test(time_that_goes_back_is_the_latest),
		cmocka_unit_test(what_was_spent_is_told_with_how_it_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
