/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <math.h>
#include <pthread.h>

#include "client/agent/choosing.h"
#include "client/agent/slowdown.h"
#include "proto/base/clock.h"

enum { COLUMNS = 2, KINDS = 5, THREADS = 4, LAUNCHES = 20000 };

static const struct choosing_options options = {
	.ppm = 50000, .seed = 7, .columns = COLUMNS, .passes = 1
};

static int setup(void **state)
{
	static struct choosing c;

	c = (struct choosing){ .on = false };
	*state = &c;
	slowdown_forget();
	return choosing_init(&c, &options);
}

static int teardown(void **state)
{
	choosing_deinit(*state);
	return 0;
}

static uint32_t name_function(void *userdata)
{
	return *(const uint32_t *)userdata + 1;
}

static uint32_t name_range(void *userdata)
{
	return *(const uint32_t *)userdata + 101;
}

static struct chosen take(struct choosing *c, uint32_t kind)
{
	const struct stratum_key key = {
		.kernel = kind + 1,
		.range = 9,
		.grid = { 1, 2, 3 },
		.block = { 4, 5, 6 },
		.shared_bytes = 77,
		.device = 3,
	};
	static _Thread_local uint32_t before; /* the one found last: of this kind, or of another */

	return choosing_take(c, &key, 0, &before, name_function, name_range, &kind);
}

static void *launch(void *userdata)
{
	for (uint32_t i = 0; i < LAUNCHES; i++) {
		take(userdata, i % KINDS);
	}
	return NULL;
}

static void every_launch_is_counted_and_told(void **state)
{
	struct choosing *c = *state;
	struct pack_stratum v[4 * KINDS];
	pthread_t threads[THREADS];
	uint64_t seen = 0;

	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_create(&threads[i], NULL, launch, c), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
	}
	assert_int_equal(choosing_tell(c, v, 4 * KINDS), KINDS);
	for (int i = 0; i < KINDS; i++) {
		assert_int_equal(v[i].seen, THREADS * LAUNCHES / KINDS);
		assert_in_range(v[i].function, 1, KINDS);
		assert_int_equal(v[i].range, v[i].function + 100);
		assert_int_equal(v[i].grid[2], 3);
		assert_int_equal(v[i].block[2], 6);
		assert_int_equal(v[i].shared_bytes, 77);
		assert_int_equal(v[i].device, 3);
		assert_true(v[i].id > 0);
		assert_false(v[i].merged);
		seen += v[i].seen;
	}
	assert_int_equal(seen, THREADS * LAUNCHES);
}

/* Only what has grown, and with all that were seen. */
static void what_was_told_is_told_again_when_it_grows(void **state)
{
	struct choosing *c = *state;
	struct pack_stratum v[KINDS];
	uint32_t id = take(c, 0).stratum;

	take(c, 1);
	assert_int_equal(choosing_tell(c, v, 1), 1); /* no more than there is room for */
	assert_int_equal(choosing_tell(c, v, KINDS), 1);
	assert_int_equal(choosing_tell(c, v, KINDS), 0);
	take(c, 0);
	assert_int_equal(choosing_tell(c, v, KINDS), 1);
	assert_int_equal(v[0].id, id);
	assert_int_equal(v[0].seen, 2);
}

/* n callbacks of a thread that launches into this stream are timed. */
static void time_callbacks_of(struct choosing *c, uint32_t n, uint32_t thread, uint32_t stream,
			      enum critical critical)
{
	struct callback_times times = { 0 };
	uint32_t counter = 0;

	for (uint32_t i = 0; i < n * CHOOSING_TIMES_ONE_IN; i++) {
		uint64_t begin_ns = choosing_begin_callback(c, &counter);

		if (begin_ns != 0) {
			choosing_end_callback(&times, begin_ns);
		}
	}
	assert_int_equal(times.n, n);
	choosing_note_callbacks(c, thread, stream, critical, &times);
	assert_int_equal(times.n + times.ns, 0);
}

static void time_callbacks(struct choosing *c, uint32_t n)
{
	time_callbacks_of(c, n, 1, 1, CRITICAL);
}

/* And until the budget was told of it. */
static void take_for(struct choosing *c, uint64_t ms)
{
	uint64_t until_ns = clock_now_ns() + ms * CLOCK_NS_PER_MS, granted_ns = c->chooser.now_ns;

	while (clock_now_ns() < until_ns || c->chooser.now_ns == granted_ns) {
		assert_true(clock_now_ns() < until_ns + 20 * CLOCK_NS_PER_S);
		take(c, 0);
	}
}

static double spent_on_callbacks(const struct choosing *c)
{
	return c->budget.costs[BUDGET_CALLBACKS].total_ns;
}

/* Callbacks delay a program where the GPU then runs out of work, and nowhere else. */
static void callbacks_off_the_critical_path_are_not_spent(void **state)
{
	struct choosing *c = *state;
	char text[1024];

	c->telling_ns = 1e5;
	take(c, 0);
	time_callbacks_of(c, 100, 1, 1, CRITICAL_NOT);
	take_for(c, 150);
	choosing_describe(c, text, sizeof(text));
	assert_non_null(strstr(text, "CUPTI callbacks 0.0 ms (6100, "));
	assert_non_null(strstr(text, "callbacks took another 61"));
	time_callbacks_of(c, 100, 1, 1, CRITICAL);
	take_for(c, 150);
	choosing_describe(c, text, sizeof(text));
	assert_non_null(strstr(text, "CUPTI callbacks 61"));
	assert_non_null(strstr(text, "callbacks took another 61"));
}

/* What nobody could ask about counts as those did that came before it: at first, all of it. */
static void unknown_callbacks_count_as_the_known_ones(void **state)
{
	struct choosing *c = *state;
	double spent;

	c->telling_ns = 1e5;
	take(c, 0);
	time_callbacks_of(c, 100, 1, 1, CRITICAL_UNKNOWN);
	take_for(c, 150);
	assert_true(spent_on_callbacks(c) > 6e8 && spent_on_callbacks(c) < 7e8);
	for (int i = 0; i < 1000; i++) {
		time_callbacks_of(c, 0, 1, 1, CRITICAL_NOT);
	}
	spent = spent_on_callbacks(c);
	time_callbacks_of(c, 100, 1, 1, CRITICAL_UNKNOWN);
	take_for(c, 150);
	assert_true(spent_on_callbacks(c) - spent < 1e5);
}

/* Threads with streams of their own delay the program at the same time, threads with a stream in
 * common one after the other; and so does one thread with several streams. */
static void the_longest_path_is_spent(void **state)
{
	static const struct {
		uint32_t threads, streams;
		double times; /* what one thread's callbacks take */
	} cases[] = { { 8, 8, 1 }, { 2, 1, 2 }, { 1, 4, 4 } };
	struct choosing *c = *state;

	c->telling_ns = 1e5;
	take(c, 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint32_t n =
			cases[i].threads > cases[i].streams ? cases[i].threads : cases[i].streams;
		double before = spent_on_callbacks(c), spent;

		for (uint32_t k = 0; k < n; k++) {
			time_callbacks_of(c, 10, 1000 + k % cases[i].threads,
					  77 + k % cases[i].streams, CRITICAL);
		}
		take_for(c, 150);
		spent = (spent_on_callbacks(c) - before) / (10 * CHOOSING_TIMES_ONE_IN * 1e5);
		print_message("%u threads, %u streams: %.2f times\n", cases[i].threads,
			      cases[i].streams, spent);
		assert_true(spent >= cases[i].times && spent < 1.3 * cases[i].times);
	}
}

static double spent_waiting(const struct choosing *c)
{
	return c->budget.costs[BUDGET_WAIT].total_ns;
}

/* While a thread waits the GPU goes on, unless a stream stands still; but a GPU that runs dry is
 * held up by the thread as well, which is never far ahead of it. */
static void waiting_costs_what_it_holds_up(void **state)
{
	struct choosing *c = *state;

	c->telling_ns = 1;
	take(c, 0);
	choosing_note_wait(c, 300000, 0);
	assert_true(spent_waiting(c) == 300000);
	choosing_note_wait(c, 80000000, 2000);
	assert_true(spent_waiting(c) == 1300000);
	choosing_note_wait(c, 80000000, 70000000);
	assert_true(spent_waiting(c) == 71300000);
	for (int i = 0; i < 1000; i++) {
		time_callbacks_of(c, 0, 1, 1, CRITICAL_NOT);
	}
	choosing_note_wait(c, 80000000, 2000);
	assert_true(fabs(spent_waiting(c) - 71302000) < 1);
	/* What it has cost is known to the chooser at once. */
	choosing_note_wait(c, 3000000000, 3000000000);
	assert_int_equal(c->chooser.now_ns, c->budget.now_ns);
}

/* CUPTI's profiler makes launches slower from its first Start on. */
static void slower_launches_are_spent(void **state)
{
	struct choosing *c = *state;
	char text[1024];

	for (int round = 0; round < 2; round++) {
		take(c, 0);
		time_callbacks(c, 100);
		take_for(c, 150);
		choosing_describe(c, text, sizeof(text));
		assert_int_equal(strstr(text, "slower launches and work 2.1 ms (3050, assumed)") !=
					 NULL,
				 round > 0);
		choosing_note_first_start(c, clock_now_ns(), 64, 0);
	}
}

static void note_calls(int n, uint64_t ns)
{
	for (int i = 0; i < n; i++) {
		slowdown_note(ns);
	}
}

/* By what launches that are not measured take before and after it, where that is more than is
 * assumed. */
static void slower_launches_are_seen(void **state)
{
	struct choosing *c = *state;
	char text[1024];

	note_calls(100, 3000);
	take(c, 0);
	slowdown_begins();
	choosing_note_first_start(c, clock_now_ns(), 64, 0);
	note_calls(100, 5000);
	time_callbacks(c, 100);
	take_for(c, 150);
	choosing_describe(c, text, sizeof(text));
	assert_non_null(strstr(text, "slower launches and work 6.1 ms (3050, calibrated)"));
}

/* How long it takes until a launch is measured; *ret_last_ns: until the last one that was not,
 * which says nothing of the time in which nobody has come with one. */
static uint64_t look_on_ns(struct choosing *c, uint64_t *ret_last_ns)
{
	uint64_t begin_ns = clock_now_ns(), came_ns = begin_ns;

	*ret_last_ns = 0;
	while (!take(c, 0).choice.measure) {
		*ret_last_ns = came_ns - begin_ns;
		came_ns = clock_now_ns();
		assert_true(came_ns - begin_ns < 30 * CLOCK_NS_PER_S);
	}
	return clock_now_ns() - begin_ns;
}

/* A program that runs already is not measured until it is known how fast it launches, or half a
 * second has passed. */
static void a_late_capture_looks_on_first(void **state)
{
	struct choosing_options late = options;
	struct choosing c = { .on = false };
	uint64_t last_ns;
	char text[1024];

	(void)state;
	late.late = true;
	assert_int_equal(choosing_init(&c, &late), 0);
	assert_false(take(&c, 0).choice.measure);
	note_calls(100, 3000);
	assert_true(look_on_ns(&c, &last_ns) >= 40 * CLOCK_NS_PER_MS);
	assert_true(last_ns <= 250 * CLOCK_NS_PER_MS); /* by far not half a second */
	choosing_describe(&c, text, sizeof(text));
	assert_null(strstr(text, "nothing could be paid for"));
	choosing_deinit(&c);
	slowdown_forget();
	c = (struct choosing){ .on = false };
	assert_int_equal(choosing_init(&c, &late), 0);
	assert_true(look_on_ns(&c, &last_ns) >= 500 * CLOCK_NS_PER_MS);
	choosing_deinit(&c);
}

/* One callback in so many is timed and stands for the others; what they take is spent, and when
 * that is more than the budget has, it is said. */
static void what_callbacks_cost_is_spent(void **state)
{
	struct choosing *c = *state;
	char text[1024];

	c->telling_ns = 1e5;
	take(c, 0);
	choosing_describe_overhead(c, text, sizeof(text));
	assert_string_equal(text, "");
	time_callbacks(c, 100);
	take_for(c, 300);
	choosing_describe(c, text, sizeof(text));
	assert_non_null(strstr(text, "CUPTI callbacks 6"));
	assert_non_null(strstr(text, "(6100, calibrated)"));
	choosing_describe_overhead(c, text, sizeof(text));
	assert_non_null(strstr(text, "the budget of 5 % cannot be kept"));
	/* Nothing is left for measuring. */
	assert_false(take(c, 1).choice.measure);
}

/* Measuring that costs more than the budget has to stop, and the rest is counted. */
static void costs_are_held_against_the_budget(void **state)
{
	struct choosing *c = *state;
	uint64_t chosen = 0;
	char text[1024];

	for (uint32_t i = 0; i < 1000; i++) {
		struct chosen one = take(c, i % KINDS);

		assert_true(one.choice.measure ? one.choice.chance > 0 : true);
		chosen += one.choice.measure;
		if (one.choice.measure) {
			choosing_note_range(c, 10 * CLOCK_NS_PER_MS, 0);
		}
	}
	assert_in_range(chosen, KINDS, 999);
	assert_true(choosing_describe(c, text, sizeof(text))); /* too short: all of it is a loan */
	assert_non_null(strstr(text, "(5 % granted)"));
	assert_non_null(strstr(text, "assumed"));
	assert_null(strstr(text, "stand for several"));
}

/* Whatever was timed so far, and however large batches have become. */
static void cheap_passes_stay_cheap(void **state)
{
	const struct choosing_options mixed = { .ppm = 50000,
						.seed = 7,
						.columns = COLUMNS,
						.passes = 3,
						.may_block = { true, false, false } };
	struct choosing c = { .on = false };

	(void)state;
	slowdown_forget();
	assert_int_equal(choosing_init(&c, &mixed), 0);
	assert_int_equal(choosing_first_size(&c),
			 64); /* nothing was launched: as without a budget */
	take(&c, 1);
	assert_int_equal(choosing_first_size(&c), 256);
	choosing_note_first_start(&c, clock_now_ns(), 256, 1);
	for (int i = 0; i < 20; i++) {
		choosing_note_range(&c, 5000, 1);
	}
	assert_int_equal(choosing_batch_size(&c, 0, 256), 64);
	assert_int_equal(choosing_batch_size(&c, 1, 256), 256);
	assert_int_equal(choosing_batch_size(&c, 2, 256), 256);
	/* Another context begins anew. */
	choosing_note_first_start(&c, clock_now_ns(), 1024, 1);
	assert_int_equal(choosing_first_size(&c), 256);
	assert_int_equal(choosing_batch_size(&c, 0, 256), 64);
	assert_int_equal(choosing_batch_size(&c, 0, 1024), 256);
	choosing_deinit(&c);
}

/* Each pass meets a stratum for the first time, and a launch stands for those in the turns
 * of the others as well. */
static void strata_lack_each_pass(void **state)
{
	const struct choosing_options two = {
		.ppm = 500000, .seed = 7, .columns = COLUMNS, .passes = 2
	};
	static const struct stratum_key key = { .kernel = 1, .grid = { 1 } };
	struct choosing c = { .on = false };
	uint32_t before = 0, kind = 0;
	char text[1024];

	(void)state;
	assert_int_equal(choosing_init(&c, &two), 0);
	for (uint32_t pass = 0; pass < 2; pass++) {
		struct chosen one =
			choosing_take(&c, &key, pass, &before, name_function, name_range, &kind);
		struct launch launch = { .stratum = one.stratum, .pass = (uint8_t)pass };
		const double values[COLUMNS] = { 1, 2 };

		assert_true(one.choice.measure);
		assert_int_equal(one.pass, pass);
		assert_in_range(one.choice.chance * 100, 40, 60);
		choosing_describe(&c, text, sizeof(text));
		assert_true((strstr(text, "of 1 of the 2 groups") != NULL) == (pass == 1));
		choosing_note_values(&c, &launch, 1, values, COLUMNS);
	}
	choosing_describe(&c, text, sizeof(text));
	assert_null(strstr(text, "groups of metrics"));
	choosing_deinit(&c);
}

/* A kernel in more ranges than a path has strata for. */
static void what_stands_for_several_is_told(void **state)
{
	struct stratum_key key = { .kernel = 1, .path = 5, .grid = { 1 } };
	struct choosing *c = *state;
	struct pack_stratum v[2 * STRATA_RANGES_MAX];
	uint32_t before = 0, kind = 0;
	char text[1024];
	size_t n, merged = 0;

	for (key.range = 1; key.range <= STRATA_RANGES_MAX + 10; key.range++) {
		choosing_take(c, &key, 0, &before, name_function, name_range, &kind);
	}
	n = choosing_tell(c, v, 2 * STRATA_RANGES_MAX);
	assert_int_equal(n, STRATA_RANGES_MAX + 1);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(v[i].seen, v[i].merged ? 10 : 1);
		merged += v[i].merged;
	}
	assert_int_equal(merged, 1);
	choosing_describe(c, text, sizeof(text));
	assert_non_null(strstr(text, "there were too many kinds of launches: 1 of "));
}

/* Each is counted once, however often it is asked; a thread that was not running took nothing. */
static void timed_callbacks_are_counted_once(void **state)
{
	static const char *const told[] = { "CUPTI callbacks 122.0 ms (6100, calibrated)",
					    "CUPTI callbacks 244.0 ms (12200, calibrated)" };
	struct callback_times times = { 0 };
	struct choosing *c = *state;
	char text[1024];

	take(c, 0);
	for (size_t round = 0; round < ARRAY_SIZE(told); round++) {
		for (int i = 0; i < 100; i++) {
			choosing_end_callback(&times, clock_now_ns() - CLOCK_NS_PER_S);
		}
		choosing_note_callbacks(c, 1, 1, CRITICAL, &times);
		take_for(c, 120);
		take_for(c, 120);
		choosing_describe(c, text, sizeof(text));
		/* 20 us at most, for each of 61. */
		assert_non_null(strstr(text, told[round]));
	}
}

/* Launches that find no credit have passed, and the end says how many. */
static void what_passed_is_told(void **state)
{
	struct choosing *c = *state;
	char text[1024];

	take(c, 0);
	chooser_grant(&c->chooser, &(struct chooser_grant){ .full = 100 });
	for (int i = 0; i < 12; i++) {
		assert_false(take(c, 1).choice.measure);
	}
	choosing_describe(c, text, sizeof(text));
	assert_non_null(strstr(text, "; 12 launches passed while nothing could be paid for"));
}

static const struct choosing_options in_turns = {
	.ppm = 100000, .seed = 7, .columns = COLUMNS, .passes = 2, .may_block = { true, false }
};

static struct chosen take_in(struct choosing *c, uint64_t kernel, uint32_t pass)
{
	const struct stratum_key key = { .kernel = kernel, .grid = { 1 } };
	uint32_t before = 0, kind = 0;

	return choosing_take(c, &key, pass, &before, name_function, name_range, &kind);
}

/* A pass that has all the time gets its part of it into the chances. */
static void chances_follow_the_turns(void **state)
{
	struct choosing c = { .on = false };
	uint64_t until_ns = clock_now_ns() + 400 * CLOCK_NS_PER_MS;

	(void)state;
	assert_int_equal(choosing_init(&c, &in_turns), 0);
	assert_int_equal(c.chooser.seed, in_turns.seed);
	while (clock_now_ns() < until_ns) {
		take_in(&c, 1, 1);
	}
	chooser_grant(&c.chooser, &(struct chooser_grant){ 100, 100, 0, 0, 0 });
	assert_true(take_in(&c, 2, 1).choice.chance > 0.53f);
	assert_true(take_in(&c, 2, 0).choice.chance < 0.47f);
	choosing_deinit(&c);
}

/* Ranges of the first pass wait for the GPU, those of the second do not: what the credit buys is
 * another thing after a turn. */
static void each_pass_has_its_price(void **state)
{
	struct choosing c = { .on = false };
	int64_t dear;

	(void)state;
	assert_int_equal(choosing_init(&c, &in_turns), 0);
	take_in(&c, 1, 0);
	choosing_note_first_start(&c, clock_now_ns(), 256, 0);
	assert_int_equal(c.budget.pass, 0);
	choosing_note_turn(&c, 0);
	dear = c.chooser.credit;
	choosing_note_turn(&c, 1);
	assert_true(c.chooser.credit > 2 * dear);
	choosing_note_start(&c, clock_now_ns(), 1);
	assert_int_equal(c.budget.pass, 1);
	choosing_note_first_start(&c, clock_now_ns(), 256, 1);
	assert_int_equal(c.budget.pass, 1);
	choosing_note_range(&c, 700000, 0);
	choosing_note_range(&c, 4000, 1);
	assert_true(c.budget.ranges[0].each_ns == 700000);
	assert_true(c.budget.ranges[1].each_ns == 50000); /* 46 us on the GPU are assumed */
	/* One whose ranges may wait, and has not: the GPU takes its time all the same. */
	choosing_note_range(&c, 4000, 0);
	assert_true(c.budget.ranges[0].each_ns == (700000 + 50000) / 2.0);
	choosing_deinit(&c);
	/* By itself, of ranges that wait nothing is added on the GPU. */
	c = (struct choosing){ .on = false };
	assert_int_equal(choosing_init(&c, &(struct choosing_options){ .ppm = 100000,
								       .passes = 1,
								       .may_block = { true } }),
			 0);
	take_in(&c, 1, 0);
	assert_true(c.budget.costs[BUDGET_RANGE_GPU].each_ns <= 1);
	choosing_deinit(&c);
}

/* A first Start holds the program up, and a turn has another pass looked at: both are said. */
static void the_chooser_knows_what_is_looked_at(void **state)
{
	struct choosing c = { .on = false };
	uint64_t before_ns;

	(void)state;
	assert_int_equal(choosing_init(&c, &in_turns), 0);
	take_in(&c, 1, 0);
	before_ns = clock_now_ns();
	assert_true(c.chooser.resumed_ns <= before_ns);
	choosing_note_first_start(&c, before_ns, 64, 0);
	assert_true(c.chooser.resumed_ns >= before_ns && c.chooser.looked_ns >= before_ns);
	assert_int_equal(c.chooser.pass, 0);
	choosing_note_turn(&c, 1);
	assert_int_equal(c.chooser.pass, 1);
	assert_true(c.chooser.passes[0].elapsed_ns > 0);
	choosing_note_room(&c, 10);
	assert_int_equal(c.budget.room, 10);
	choosing_deinit(&c);
}

/* A launch's own values go to its own stratum and pass. */
static void values_go_where_they_were_measured(void **state)
{
	const double values[2 * COLUMNS] = { 10, 10, 900, 900 };
	struct launch launches[2] = { { .chance = 1 }, { .chance = 1 } };
	struct choosing c = { .on = false };
	const struct chooser_state *s;

	(void)state;
	assert_int_equal(choosing_init(&c, &in_turns), 0);
	for (uint32_t i = 0; i < 2; i++) {
		launches[i].stratum = take_in(&c, 1 + i, i).stratum;
		launches[i].pass = (uint8_t)i;
	}
	choosing_note_values(&c, launches, 2, values, COLUMNS);
	s = &c.chooser.states[(size_t)(launches[0].stratum - 1) * 2];
	assert_true(s[0].gain < 1 && s[1].gain == 1); /* nothing is known of the second */
	s = &c.chooser.states[(size_t)(launches[1].stratum - 1) * 2];
	assert_true(s[0].gain == 1 && s[1].gain < 1);
	assert_true(c.chooser.moments[(launches[1].stratum - 1) * COLUMNS].mean == 900);
	choosing_deinit(&c);
}

/* Behind the first second the window of ten seconds decides. */
static void a_turn_waits_for_the_window(void **state)
{
	struct choosing *c = *state;

	take(c, 0);
	assert_false(choosing_batch_is_old(c)); /* nothing is in it */
	assert_true(choosing_may_turn(c));
	choosing_next_size(c, 300);
	assert_int_equal(c->budget.options.size_most, 300);
	c->budget.options.now_ns -= 2 * CLOCK_NS_PER_S;
	assert_true(choosing_may_turn(c));
	choosing_note_stop(c, clock_now_ns() - CLOCK_NS_PER_S);
	assert_false(choosing_may_turn(c));
}

static void without_a_budget_everything_is_measured(void **state)
{
	static const uint32_t none[] = { 0, 1000000, UINT32_MAX };
	struct choosing c = { .on = false };
	struct pack_stratum v;
	char text[64];

	(void)state;
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		struct chosen one;

		struct choosing_options all = options;

		all.ppm = none[i];
		assert_int_equal(choosing_init(&c, &all), 0);
		assert_false(c.on);
		one = take(&c, 1);
		assert_true(one.choice.measure && one.stratum == 0 && one.choice.chance == 1);
		assert_true(choosing_may_turn(&c) && choosing_batch_is_old(&c));
		assert_int_equal(choosing_next_size(&c, 100), 0);
		choosing_note_range(&c, 1, 0);
		assert_int_equal(choosing_tell(&c, &v, 1), 0);
		assert_false(choosing_describe(&c, text, sizeof(text)));
		assert_string_equal(text, "");
		choosing_deinit(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_launch_is_counted_and_told, setup, teardown),
		cmocka_unit_test_setup_teardown(what_was_told_is_told_again_when_it_grows, setup,
						teardown),
		cmocka_unit_test_setup_teardown(callbacks_off_the_critical_path_are_not_spent,
						setup, teardown),
		cmocka_unit_test_setup_teardown(unknown_callbacks_count_as_the_known_ones, setup,
						teardown),
		cmocka_unit_test_setup_teardown(the_longest_path_is_spent, setup, teardown),
		cmocka_unit_test_setup_teardown(waiting_costs_what_it_holds_up, setup, teardown),
		cmocka_unit_test_setup_teardown(slower_launches_are_spent, setup, teardown),
		cmocka_unit_test_setup_teardown(slower_launches_are_seen, setup, teardown),
		cmocka_unit_test_setup_teardown(a_late_capture_looks_on_first, setup, teardown),
		cmocka_unit_test_setup_teardown(what_callbacks_cost_is_spent, setup, teardown),
		cmocka_unit_test_setup_teardown(costs_are_held_against_the_budget, setup, teardown),
		cmocka_unit_test(cheap_passes_stay_cheap),
		cmocka_unit_test(strata_lack_each_pass),
		cmocka_unit_test_setup_teardown(what_stands_for_several_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(timed_callbacks_are_counted_once, setup, teardown),
		cmocka_unit_test_setup_teardown(what_passed_is_told, setup, teardown),
		cmocka_unit_test(chances_follow_the_turns),
		cmocka_unit_test(each_pass_has_its_price),
		cmocka_unit_test(the_chooser_knows_what_is_looked_at),
		cmocka_unit_test(values_go_where_they_were_measured),
		cmocka_unit_test_setup_teardown(a_turn_waits_for_the_window, setup, teardown),
		cmocka_unit_test(without_a_budget_everything_is_measured),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
