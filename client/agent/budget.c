/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/budget.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "proto/base/clock.h"

/* A turn is the end of a batch: Stop, and the Start of the next, which is of the next pass where
 * there are several.
 *
 * Two accounts.
 *
 * The balance is for going steadily: it grows with the time, by a little less than the share, up to
 * what two seconds bring, and everything that is spent is taken from it. Seeing the launches is
 * paid first; while there is a loan, a quarter of what is left goes to it. The loan holds what
 * comes in lumps before it can be saved for: the first Start, larger batches, and the balance that
 * a program begins with.
 *
 * The window is for the promise: what was spent in each tenth of a second of the last ten seconds.
 * No lump is spent that does not fit in there. So the balance decides, and the window is the net
 * below.
 *
 * A range costs its own cost and its part of the turn at the batch's end, which is set aside as the
 * batch fills (the debt): when it is full, its turn can be paid.
 *
 * Where passes take turns and the ranges of some cost many times those of others, batches of the
 * expensive ones are a step of growth behind: otherwise cheap ones would be measured no more often,
 * though all of them together cost next to nothing.
 *
 * Sizes grow by the rule of ranges.c (as soon as turns have cost the price of the next size), but
 * for the window: no size is chosen whose first Start takes more than a third of what may be spent
 * in ten seconds, and it is saved for, at half the pace, until it fits.
 *
 * The costs that are assumed until the first ones are noted are those of an H200 with CUDA 13.0. */

#define PLANNED 0.93	 /* of the share: what is left is for calls that cost more than before */
#define WINDOW_USED 0.97 /* likewise, of the window */
#define RESERVE_NS 2e9	 /* the balance holds the income of so long */
#define STEADY_NS 5e8	 /* and is that of so long when all goes steadily */
#define FIRST_NS 1000000000u /* no window begins before */
#define SLOT_NS 100000000u
#define WINDOW_NS 1e10
#define FIRST_LAUNCHES 704
#define LUMP 0.3   /* of what may be spent in ten seconds */
#define BESIDE 0.2 /* of a lump, that is left in the window */
#define CYCLE_NS 6e10
#define CYCLES 8 /* that there are to be before they become longer */
#define OLD_NS (5 * CLOCK_NS_PER_S)
#define NEWEST 0.2	  /* part that the last call has in what is expected of the next */
#define NEWEST_RANGE 0.05 /* kernels differ more than calls do, and there are many of them */
#define DEAR 4		  /* times what the cheapest range costs */
#define FULL_LEAST 16	  /* fewer would often be none, and chances then nothing to go by */

#define RANGE_GPU_NS 46e3
#define RANGE_CPU_NS 5e3
#define START_NS 6e6
#define STOP_NS 8e6
#define FIRST_START_NS 170e6
#define FIRST_START_NS_PER_RANGE 9e5

enum { SIZE_FIRST = BUDGET_SIZE_FIRST, SIZE_LAST = 2048, SIZE_GROWTH = 4 };

/* --- sizes --- */

static bool is_expensive(const struct budget *b, uint32_t pass)
{
	double least = b->ranges[0].each_ns;

	for (uint32_t i = 1; i < b->options.passes; i++) {
		least = b->ranges[i].each_ns < least ? b->ranges[i].each_ns : least;
	}
	return b->ranges[pass].each_ns > DEAR * least;
}

/* Of a batch of this pass, where the largest have this size. */
static size_t size_of_pass(const struct budget *b, uint32_t pass, size_t size)
{
	bool behind = size > SIZE_FIRST && is_expensive(b, pass);

	if (!behind) {
		return size;
	}
	return size / SIZE_GROWTH > SIZE_FIRST ? size / SIZE_GROWTH : SIZE_FIRST;
}

size_t budget_batch_size(const struct budget *b, uint32_t pass, size_t size)
{
	return size_of_pass(b, pass < b->options.passes ? pass : 0, size);
}

/* Larger ones where what their first Start takes more is paid back soon. Of one pass twice as
 * large, which saves half of the turns of the first seconds; of several, of which some are
 * expensive, a step of growth. */
static size_t first_size(const struct budget *b)
{
	double share = b->options.share, affordable = LUMP * share * WINDOW_NS;
	size_t larger = b->options.passes == 1 ? 2 * SIZE_FIRST : SIZE_FIRST;

	for (uint32_t i = 0; i < b->options.passes; i++) {
		if (is_expensive(b, i)) {
			larger = SIZE_GROWTH * SIZE_FIRST;
			affordable = share / 2 * WINDOW_NS;
		}
	}
	return FIRST_START_NS_PER_RANGE * (double)(larger - SIZE_FIRST) <= affordable ? larger
										      : SIZE_FIRST;
}

static double first_balance_ns(const struct budget *b);

int budget_init(struct budget *b, const struct budget_options *options)
{
	memset(b, 0, sizeof(*b));
	if (!(options->share > 0 && options->share <= 1) || options->passes == 0 ||
	    options->passes > BUDGET_PASSES_MAX) {
		return -EINVAL;
	}
	b->options = *options;
	b->now_ns = options->now_ns;
	b->costs[BUDGET_RANGE_CPU].each_ns = RANGE_CPU_NS;
	b->costs[BUDGET_RANGE_GPU].each_ns =
		options->range_ns > 0 ? options->range_ns : RANGE_GPU_NS;
	b->costs[BUDGET_START].each_ns = START_NS;
	b->costs[BUDGET_STOP].each_ns = STOP_NS;
	for (uint32_t i = 0; i < options->passes; i++) {
		double ns = options->pass_range_ns[i];

		b->ranges[i].each_ns = ns > 0 ? ns
					      : b->costs[BUDGET_RANGE_CPU].each_ns +
							b->costs[BUDGET_RANGE_GPU].each_ns;
	}
	if (options->passes == 1) {
		b->costs[BUDGET_RANGE_CPU].each_ns =
			fmax(b->ranges[0].each_ns - b->costs[BUDGET_RANGE_GPU].each_ns, 0);
	}
	b->first = options->size ? options->size : first_size(b);
	b->size = b->room = b->first;
	b->costs[BUDGET_FIRST_START].each_ns =
		FIRST_START_NS + FIRST_START_NS_PER_RANGE * (double)b->size;
	b->balance_ns = first_balance_ns(b);
	b->loan_ns = b->balance_ns;
	b->first_ns = fmax(b->balance_ns - PLANNED * options->share * RESERVE_NS, 0);
	return 0;
}

/* --- prices --- */

static double each(const struct budget *b, enum budget_item item)
{
	return b->costs[item].each_ns;
}

static double turn_price(const struct budget *b)
{
	return each(b, BUDGET_STOP) + each(b, BUDGET_START);
}

/* A batch that is started is stopped at some time, at the program's end if not before: whatever is
 * spent, the window keeps room for that. */
static double least_room(const struct budget *b)
{
	return turn_price(b) + each(b, BUDGET_STOP);
}

/* By a turn without a range. Where ten seconds have no room for it there would be no turn at all.
 */
bool budget_may_leave_out(const struct budget *b)
{
	double window = WINDOW_USED * b->options.share * WINDOW_NS;

	return b->options.passes > 1 && window >= least_room(b) + turn_price(b);
}

static double turn_room(const struct budget *b)
{
	return least_room(b) + (budget_may_leave_out(b) ? turn_price(b) : 0);
}

/* A new object begins with the first pass, from which it gets to the next one by such turns. */
static double passes_room(const struct budget *b)
{
	return (b->options.passes - 1) * turn_price(b);
}

static double overhead_share(const struct budget *b);

/* What the next range is expected to wait. One that has waited longer than ten seconds have room
 * for is paid back all the same; but then another one is tried: if that were never paid for, nobody
 * would ever hear that it waits no longer. */
static double wait_price(const struct budget *b)
{
	double wait = b->waited_ns > b->wait_ns ? b->waited_ns : b->wait_ns;
	double share = WINDOW_USED * b->options.share - overhead_share(b);
	double room = share * WINDOW_NS - turn_room(b);

	return fmin(wait, fmax(room / 2, 0));
}

/* Metrics whose ranges wait for the GPU cost many times those of others. */
static double range_price(const struct budget *b)
{
	double wait = wait_price(b);

	if (b->options.passes > 1) {
		return b->ranges[b->next].each_ns + wait;
	}
	return each(b, BUDGET_RANGE_CPU) + each(b, BUDGET_RANGE_GPU) + wait;
}

/* The last one, and what is added for each range more. */
static double first_start_price(const struct budget *b, size_t size)
{
	double last = each(b, BUDGET_FIRST_START);

	return last + FIRST_START_NS_PER_RANGE * ((double)size - (double)b->size);
}

/* A range, and its part of what comes after it. */
static double whole_price(const struct budget *b)
{
	if (b->options.share < budget_least_share(b)) {
		return range_price(b); /* nothing will come after it */
	}
	return range_price(b) + turn_price(b) / (double)size_of_pass(b, b->next, b->size);
}

/* The income of one second; or of six, if that is for no more than the first few batches, or the
 * only one. A program shows most of its kinds of launches in its first steps. */
static double first_balance_ns(const struct budget *b)
{
	bool only = b->options.share < budget_least_share(b);
	double income = PLANNED * b->options.share * FIRST_NS;
	double batches = whole_price(b) * (only ? (double)b->size : FIRST_LAUNCHES);

	return fmax(income, fmin(6 * income, batches));
}

/* Of the batch under way. Several contexts have batches of their own, of which this knows one: what
 * they take together may be more than it has room for. */
static size_t room_left(const struct budget *b)
{
	return b->taken < b->room ? b->room - b->taken : 0;
}

/* What is set aside for the end of the batch. */
static double debt(const struct budget *b)
{
	if (b->options.share < budget_least_share(b)) {
		return 0;
	}
	return turn_price(b) * (1 - (double)room_left(b) / (double)b->room);
}

/* --- time --- */

/* The window keeps room for the end of a batch, and on average for half of a turn: an income that
 * did not leave it would be stopped by the window now and then, instead of going steadily. */
static double planned_share(const struct budget *b)
{
	double room = each(b, BUDGET_STOP) + turn_price(b) / 2;
	double share = WINDOW_USED * b->options.share - room / WINDOW_NS;
	double most = PLANNED * b->options.share;

	return share > most ? most : share > most / 2 ? share : most / 2;
}

static double income_ns(const struct budget *b, double elapsed_ns)
{
	return planned_share(b) * elapsed_ns;
}

/* The time over which overhead is averaged: ten seconds, as in the promise. A program that comes in
 * bursts sees more in each of them than with the pauses between them, in which there is an income
 * as well. */
static double averaged_ns(const struct budget *b)
{
	double age_ns = (double)(b->now_ns - b->options.now_ns);

	return WINDOW_NS * -expm1(-fmax(age_ns, FIRST_NS) / WINDOW_NS);
}

/* Of the time, that it has lately taken, at most what comes in. */
static double overhead_share(const struct budget *b)
{
	return b->overhead_ns / averaged_ns(b);
}

/* The income pays for the overhead first. */
static double free_income_ns(const struct budget *b, double elapsed_ns)
{
	return fmax(income_ns(b, elapsed_ns) - overhead_share(b) * elapsed_ns, 0);
}

static bool is_beginning(const struct budget *b)
{
	return b->now_ns - b->options.now_ns < FIRST_NS;
}

static double reserve_ns(const struct budget *b)
{
	double least = is_beginning(b) ? first_balance_ns(b) : 2 * FULL_LEAST * whole_price(b);

	return fmax(least, income_ns(b, RESERVE_NS)) + debt(b);
}

static bool wants_to_grow(const struct budget *b);

/* The part of what comes in that is kept back: a quarter to pay the loan back, or a half to save
 * for larger batches, whose first Start has to fit into the window. */
static double kept_back(const struct budget *b)
{
	return b->loan_ns > 0 ? 0.25 : wants_to_grow(b) ? 0.5 : 0;
}

/* What a program has not spent of its first balance in the first second, and may not keep, it does
 * not owe either. */
static void give_back(struct budget *b, double ns)
{
	if (!is_beginning(b)) {
		b->loan_ns = fmax(b->loan_ns - fmin(ns, b->first_ns), 0);
		b->first_ns = 0;
	}
}

static void earn(struct budget *b, uint64_t elapsed_ns)
{
	double income = income_ns(b, (double)elapsed_ns);

	if (kept_back(b) > 0) {
		double kept = free_income_ns(b, (double)elapsed_ns) * kept_back(b);

		b->loan_ns = b->loan_ns > kept ? b->loan_ns - kept : 0;
		income -= kept;
	}
	b->balance_ns += income;
	if (b->balance_ns > reserve_ns(b)) {
		give_back(b, b->balance_ns - reserve_ns(b));
		b->balance_ns = reserve_ns(b);
	}
}

static void slide_window(struct budget *b)
{
	uint64_t slot = (b->now_ns - b->options.now_ns) / SLOT_NS;
	uint64_t steps = slot - b->slot;

	if (steps > BUDGET_WINDOW_SLOTS) {
		steps = BUDGET_WINDOW_SLOTS;
	}
	for (uint64_t i = 0; i < steps; i++) {
		b->window_ns[(slot - i) % BUDGET_WINDOW_SLOTS] = 0;
	}
	b->slot = slot;
}

static void advance(struct budget *b, uint64_t now_ns)
{
	if (now_ns > b->now_ns) {
		b->overhead_ns *= exp(-(double)(now_ns - b->now_ns) / WINDOW_NS);
		earn(b, now_ns - b->now_ns);
		b->now_ns = now_ns;
		slide_window(b);
	}
}

/* What may still be spent in the ten seconds that end now. */
static double window_left_ns(const struct budget *b)
{
	double left = WINDOW_USED * b->options.share * WINDOW_NS;

	for (size_t i = 0; i < BUDGET_WINDOW_SLOTS; i++) {
		left -= b->window_ns[i];
	}
	return left;
}

static bool fits(const struct budget *b, double price_ns)
{
	return is_beginning(b) || window_left_ns(b) >= price_ns;
}

/* --- spending --- */

static void note(struct budget *b, enum budget_item item, enum budget_source source, double ns)
{
	struct budget_cost *c = &b->costs[item];

	c->each_ns += (ns - c->each_ns) * (c->n == 0 ? 1 : NEWEST);
	c->total_ns += ns;
	c->n++;
	c->source = source > c->source ? source : c->source;
	if (!is_beginning(b)) {
		b->window_ns[b->slot % BUDGET_WINDOW_SLOTS] += ns;
	}
}

static void begin_batch(struct budget *b, uint32_t pass)
{
	b->pass = b->next = pass < b->options.passes ? pass : 0;
	b->room = size_of_pass(b, b->pass, b->size);
	b->open = true;
	b->taken = 0;
}

void budget_note_start(struct budget *b, uint64_t now_ns, uint32_t pass, double ns)
{
	advance(b, now_ns);
	note(b, BUDGET_START, BUDGET_TIMED, ns);
	b->balance_ns -= ns;
	b->turned_ns += ns;
	begin_batch(b, pass);
}

void budget_note_first_start(struct budget *b, uint64_t now_ns, size_t size, uint32_t pass,
			     double ns)
{
	advance(b, now_ns);
	note(b, BUDGET_FIRST_START, BUDGET_TIMED, ns);
	b->costs[BUDGET_FIRST_START].each_ns = ns;
	b->loan_ns += ns;
	b->turned_ns = ns;
	b->size = size;
	begin_batch(b, pass);
}

void budget_note_room(struct budget *b, size_t room)
{
	b->room = room > 0 && room < b->room ? room : b->room;
}

void budget_note_turn(struct budget *b, uint32_t pass)
{
	b->next = pass < b->options.passes ? pass : 0;
}

void budget_note_stop(struct budget *b, uint64_t now_ns, double ns)
{
	advance(b, now_ns);
	note(b, BUDGET_STOP, BUDGET_TIMED, ns);
	b->balance_ns -= ns;
	b->turned_ns += ns;
	b->open = false;
	b->taken = 0;
}

static void note_range_of_pass(struct budget *b, uint32_t pass, double ns)
{
	struct budget_range *r = &b->ranges[pass < b->options.passes ? pass : 0];

	r->n++;
	r->each_ns += (ns - r->each_ns) * fmax(1 / (double)r->n, NEWEST_RANGE);
}

void budget_note_range(struct budget *b, uint64_t now_ns, uint32_t pass, double cpu_ns,
		       double gpu_ns, enum budget_source gpu_source)
{
	advance(b, now_ns);
	note(b, BUDGET_RANGE_CPU, BUDGET_TIMED, cpu_ns);
	note(b, BUDGET_RANGE_GPU, gpu_source, gpu_ns);
	note_range_of_pass(b, pass, cpu_ns + gpu_ns);
	b->wait_ns += (b->waited_ns - b->wait_ns) *
		      fmax(1 / (double)b->costs[BUDGET_RANGE_CPU].n, NEWEST_RANGE);
	b->waited_ns = 0;
	b->balance_ns -= cpu_ns + gpu_ns;
	if (b->taken == 0) {
		b->batch_ns = now_ns;
	}
	b->taken++;
}

static void note_many(struct budget *b, enum budget_item item, enum budget_source source,
		      uint64_t n, double ns)
{
	if (n > 0) {
		note(b, item, source, ns);
		b->costs[item].n += n - 1;
		b->costs[item].each_ns = ns / (double)n;
	}
}

void budget_note_callbacks(struct budget *b, uint64_t now_ns, uint64_t n, double callbacks_ns,
			   double slowdown_ns, enum budget_source slowdown_source)
{
	double floor_ns = -income_ns(b, RESERVE_NS), ns = callbacks_ns + slowdown_ns;

	advance(b, now_ns);
	note_many(b, BUDGET_CALLBACKS, BUDGET_CALIBRATED, n, callbacks_ns);
	note_many(b, BUDGET_SLOWER, slowdown_source,
		  slowdown_ns <= 0 ? 0
		  : n > 1	   ? n / 2
				   : 1,
		  slowdown_ns);
	/* A time in which the overhead is more than the income is not held against all that
	 * follows. */
	b->overhead_ns = fmin(b->overhead_ns + ns, income_ns(b, averaged_ns(b)));
	if (b->balance_ns > floor_ns) {
		b->balance_ns = b->balance_ns - ns > floor_ns ? b->balance_ns - ns : floor_ns;
	}
}

void budget_note_wait(struct budget *b, uint64_t now_ns, double ns)
{
	advance(b, now_ns);
	note(b, BUDGET_WAIT, BUDGET_TIMED, ns);
	b->balance_ns -= ns;
	b->waited_ns += ns;
}

/* --- deciding --- */

/* The time that ranges may take from now on. */
static double left_for_ranges(const struct budget *b)
{
	double left = b->balance_ns - debt(b), end = b->open ? each(b, BUDGET_STOP) : 0, window;

	if (is_beginning(b)) {
		return left;
	}
	window = window_left_ns(b) - debt(b) - end;
	return window < left ? window : left;
}

struct budget_pace budget_take_pace(struct budget *b, uint64_t now_ns)
{
	double price = whole_price(b), left;
	struct budget_pace pace;

	advance(b, now_ns);
	left = left_for_ranges(b);
	pace.credit = left > 0 ? (int64_t)(left / price) : 0;
	pace.full = (int64_t)(income_ns(b, STEADY_NS) / price);
	pace.full = pace.full > FULL_LEAST ? pace.full : FULL_LEAST;
	pace.per_s = free_income_ns(b, 1e9) * (1 - kept_back(b)) / price;
	/* A batch that cannot be turned now takes no more than it has room for. */
	if (b->open && !fits(b, turn_room(b)) && pace.credit > (int64_t)room_left(b)) {
		pace.credit = (int64_t)room_left(b);
	}
	return pace;
}

bool budget_may_turn(struct budget *b, uint64_t now_ns)
{
	advance(b, now_ns);
	return b->options.share >= budget_least_share(b) && fits(b, turn_room(b));
}

bool budget_batch_is_old(struct budget *b, uint64_t now_ns)
{
	advance(b, now_ns);
	return b->taken > 0 && now_ns > b->batch_ns + OLD_NS && b->balance_ns >= turn_price(b) &&
	       fits(b, turn_room(b));
}

bool budget_may_first_start(struct budget *b, uint64_t now_ns, size_t size)
{
	advance(b, now_ns);
	return fits(b, first_start_price(b, size) + each(b, BUDGET_STOP));
}

bool budget_may_take_over(struct budget *b, uint64_t now_ns, size_t size)
{
	return budget_may_first_start(b, now_ns, size) && b->loan_ns <= 0;
}

/* The most that is spent at once: with a little beside it, it fits into ten seconds in which as
 * much was spent as at half the pace. So measuring does not pause, which would leave out the same
 * time in all strata. */
static double lump_ns(const struct budget *b)
{
	double window = b->options.share * WINDOW_NS, planned = PLANNED * window;
	double half = (planned + overhead_share(b) * WINDOW_NS) / 2;
	double turns = turn_room(b) + passes_room(b);
	double room = (WINDOW_USED * window - half - turns) / (1 + BESIDE) * 0.97;

	return room < LUMP * window ? room : LUMP * window;
}

/* The largest size whose first Start is no larger lump. */
static size_t affordable_size(const struct budget *b)
{
	double left = lump_ns(b) - each(b, BUDGET_FIRST_START);

	return left > 0 ? b->size + (size_t)(left / FIRST_START_NS_PER_RANGE) : b->size;
}

/* How long it takes until each pass had its turn, with batches of this size. Larger ones measure
 * more and have each pass wait longer. */
static double cycle_ns(const struct budget *b, size_t size)
{
	double ns = 0;

	for (uint32_t i = 0; i < b->options.passes; i++) {
		ns += turn_price(b) + (double)size_of_pass(b, i, size) * b->ranges[i].each_ns;
	}
	return ns / (PLANNED * b->options.share);
}

/* How long it may take. A metric is known from its own turns, and however many launches each of
 * them measures, of a program that changes they say no more than their number does: so turns become
 * longer only when there were several, as the program lasts. */
static double longest_cycle_ns(const struct budget *b)
{
	double lasted_ns = (double)(b->now_ns - b->options.now_ns);

	return lasted_ns / CYCLES < CYCLE_NS ? lasted_ns / CYCLES : CYCLE_NS;
}

/* The next size if there is one that can be paid for, else 0. */
static size_t larger_size(const struct budget *b)
{
	size_t most = affordable_size(b), size = b->size * SIZE_GROWTH;

	most = most < SIZE_LAST ? most : SIZE_LAST;
	if (b->options.size_most && most > b->options.size_most) {
		most = b->options.size_most;
	}
	size = size < most ? size : most;
	if (b->options.passes > 1 && cycle_ns(b, size) > longest_cycle_ns(b)) {
		return 0;
	}
	return size >= b->size + b->size / 2 ? size : 0;
}

static bool wants_to_grow(const struct budget *b)
{
	size_t size = larger_size(b);

	return size != 0 && b->turned_ns >= first_start_price(b, size);
}

size_t budget_next_size(struct budget *b, uint64_t now_ns)
{
	size_t size;

	advance(b, now_ns);
	size = larger_size(b);
	if (!wants_to_grow(b) || b->loan_ns > 0 ||
	    window_left_ns(b) <
		    first_start_price(b, size) * (1 + BESIDE) + turn_room(b) + passes_room(b)) {
		return 0;
	}
	return size;
}

double budget_least_share(const struct budget *b)
{
	return least_room(b) / (WINDOW_USED * WINDOW_NS);
}
