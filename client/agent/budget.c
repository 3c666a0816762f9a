/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/budget.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "proto/base/clock.h"

/* A turn is the Stop of a batch and the Start of the next one. With several passes, each turn
 * changes to the next pass.
 *
 * Two accounts.
 *
 * The balance makes spending steady: it grows by a little less than the share of the time that
 * passes, up to the income of two seconds, and every cost is subtracted. Callback overhead is paid
 * first; while there is a loan, a quarter of the rest pays it back. The loan covers large costs
 * that occur before enough has been saved: the first Start, larger batches, and the balance that a
 * program begins with.
 *
 * The window enforces the promise: it has the costs of each tenth of a second of the last ten
 * seconds. A large cost (a lump) that does not fit into the window is not allowed. In most cases
 * the balance decides; the window is the hard limit.
 *
 * The price of a range includes its part of the turn that ends the batch. The budget reserves that
 * part as the batch fills (the debt), so that it can pay for the turn when the batch is full.
 *
 * If the ranges of some passes cost many times those of others, batches of the expensive passes
 * stay one step smaller. With equal sizes cheap passes would be measured as rarely as the expensive
 * ones, though they cost next to nothing.
 *
 * Batches grow by the rule of ranges.c (when turns have cost as much as the first Start of the next
 * size), within the window: the first Start of a size may take at most LUMP of the budget of ten
 * seconds. Until it fits, half of the income is saved for it.
 *
 * Until the first costs are noted, those of an H200 with CUDA 13.0 are assumed. */

#define PLANNED 0.93	     /* of the share; the rest is for calls that cost more than expected */
#define WINDOW_USED 0.97     /* of the window, for the same reason */
#define RESERVE_NS 2e9	     /* the balance is at most the income of this time */
#define STEADY_NS 5e8	     /* and the income of this time in steady operation */
#define FIRST_NS 1000000000u /* costs before this time are not in the window */
#define SLOT_NS 100000000u
#define WINDOW_NS 1e10
#define FIRST_LAUNCHES 704 /* that the first balance shall pay for, */
#define FIRST_INCOMES 8	   /* if that is at most the income of this many seconds */
#define LUMP 0.3	   /* of the budget of ten seconds */
#define BESIDE 0.2	   /* of a lump, which stays free in the window in addition */
#define CYCLE_NS 6e10
#define CYCLES 8 /* cycles that a program must have had before cycles become longer */
#define OLD_NS (5 * CLOCK_NS_PER_S)
#define NEWEST 0.2	  /* weight of the latest call in the expected cost of the next */
#define NEWEST_RANGE 0.05 /* lower, because kernels differ more than calls do and are many */
#define EXPENSIVE 4	  /* a range is expensive if it costs more than this many of the cheapest */
#define FULL_LEAST 16	  /* less credit would often be 0, and chances would be unknown */

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
	return b->ranges[pass].each_ns > EXPENSIVE * least;
}

/* The size of a batch of this pass, if the largest batches have this size. */
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

/* The first batches are larger if the extra cost of their first Start is soon paid back: twice as
 * large with one pass, which saves half of the turns of the first seconds; SIZE_GROWTH times as
 * large with several passes of which some are expensive. */
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

/* Every batch that was started must be stopped, at the latest when the program ends, so the window
 * always keeps room for a Stop. */
static double least_room(const struct budget *b)
{
	return turn_price(b) + each(b, BUDGET_STOP);
}

/* A pass is skipped by a turn that measures no range. If ten seconds do not have room for that
 * turn, skipping would prevent every turn. */
bool budget_may_leave_out(const struct budget *b)
{
	double window = WINDOW_USED * b->options.share * WINDOW_NS;

	return b->options.passes > 1 && window >= least_room(b) + turn_price(b);
}

static double turn_room(const struct budget *b)
{
	return least_room(b) + (budget_may_leave_out(b) ? turn_price(b) : 0);
}

/* A new CUPTI range profiler begins with the first pass; turns that measure no range lead to the
 * wanted one. */
static double passes_room(const struct budget *b)
{
	return (b->options.passes - 1) * turn_price(b);
}

static double overhead_share(const struct budget *b);

/* The expected wait of the next range. The budget pays for a wait that exceeds the room of ten
 * seconds, but lowers the price of the next one, so that another range is tried: otherwise the
 * budget would never learn that waits became shorter. */
static double wait_price(const struct budget *b)
{
	double wait = b->waited_ns > b->wait_ns ? b->waited_ns : b->wait_ns;
	double share = WINDOW_USED * b->options.share - overhead_share(b);
	double room = share * WINDOW_NS - turn_room(b);

	return fmin(wait, fmax(room / 2, 0));
}

/* Passes have prices of their own: ranges of metrics that wait for the GPU cost many times as much
 * as others. */
static double range_price(const struct budget *b)
{
	double wait = wait_price(b);

	if (b->options.passes > 1) {
		return b->ranges[b->next].each_ns + wait;
	}
	return each(b, BUDGET_RANGE_CPU) + each(b, BUDGET_RANGE_GPU) + wait;
}

/* The price of the last first Start, and FIRST_START_NS_PER_RANGE for each additional range. */
static double first_start_price(const struct budget *b, size_t size)
{
	double last = each(b, BUDGET_FIRST_START);

	return last + FIRST_START_NS_PER_RANGE * ((double)size - (double)b->size);
}

/* The price of a range with its part of the turn at the end of its batch. */
static double whole_price(const struct budget *b)
{
	if (b->options.share < budget_least_share(b)) {
		return range_price(b); /* no turn follows the only batch */
	}
	return range_price(b) + turn_price(b) / (double)size_of_pass(b, b->next, b->size);
}

/* The income of one second, or up to FIRST_INCOMES seconds' if the first few batches, or the only
 * one, need that much: a program's first steps show most of its kinds of launches. */
static double first_balance_ns(const struct budget *b)
{
	bool only = b->options.share < budget_least_share(b);
	double income = PLANNED * b->options.share * FIRST_NS;
	double batches = whole_price(b) * (only ? (double)b->size : FIRST_LAUNCHES);

	return fmax(income, fmin(FIRST_INCOMES * income, batches));
}

/* Room left in the current batch. With several contexts each fills a batch of its own, but the
 * budget knows only the latest one: together they may take more ranges than that has room for. */
static size_t room_left(const struct budget *b)
{
	return b->taken < b->room ? b->room - b->taken : 0;
}

/* The part of the turn's price that is reserved for the end of the batch. */
static double debt(const struct budget *b)
{
	if (b->options.share < budget_least_share(b)) {
		return 0;
	}
	return turn_price(b) * (1 - (double)room_left(b) / (double)b->room);
}

/* --- time --- */

/* The window keeps room for the Stop of a batch, and on average for half of a turn. The planned
 * share leaves that room, else the window would interrupt measuring now and then. */
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

/* The time over which overhead is averaged: ten seconds, as in the promise. A bursty program has
 * more overhead in a burst than on average, and the pauses bring income too. */
static double averaged_ns(const struct budget *b)
{
	double age_ns = (double)(b->now_ns - b->options.now_ns);

	return WINDOW_NS * -expm1(-fmax(age_ns, FIRST_NS) / WINDOW_NS);
}

/* The recent overhead as a share of the time, at most the income. */
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

/* The part of the income that is kept back: a quarter to pay the loan back, or half to save for
 * larger batches, whose first Start must fit into the window. */
static double kept_back(const struct budget *b)
{
	return b->loan_ns > 0 ? 0.25 : wants_to_grow(b) ? 0.5 : 0;
}

/* The part of the first balance that a program did not spend in the first second expires, and the
 * loan becomes smaller by that part. */
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

/* What may still be spent in the ten seconds up to now. */
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
	note_many(b, BUDGET_SLOWDOWN, slowdown_source,
		  slowdown_ns <= 0 ? 0
		  : n > 1	   ? n / 2
				   : 1,
		  slowdown_ns);
	/* If overhead exceeded the income for a while, later launches do not pay for the excess. */
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

/* What may be spent on ranges from now on. */
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
	/* While a turn is not allowed, credit is at most the room in the batch. */
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

/* The largest cost that may occur at once: it must fit into ten seconds in which spending went on
 * at half the pace. So measuring does not pause; a pause would leave out the same time in all
 * strata. */
static double lump_ns(const struct budget *b)
{
	double window = b->options.share * WINDOW_NS, planned = PLANNED * window;
	double half = (planned + overhead_share(b) * WINDOW_NS) / 2;
	double turns = turn_room(b) + passes_room(b);
	double room = (WINDOW_USED * window - half - turns) / (1 + BESIDE) * 0.97;

	return room < LUMP * window ? room : LUMP * window;
}

/* The largest size whose first Start costs at most lump_ns(). */
static size_t affordable_size(const struct budget *b)
{
	double left = lump_ns(b) - each(b, BUDGET_FIRST_START);

	return left > 0 ? b->size + (size_t)(left / FIRST_START_NS_PER_RANGE) : b->size;
}

/* The duration of a cycle, in which each pass has one turn, with batches of this size. Larger
 * batches measure more launches, and each pass waits longer for its turn. */
static double cycle_ns(const struct budget *b, size_t size)
{
	double ns = 0;

	for (uint32_t i = 0; i < b->options.passes; i++) {
		ns += turn_price(b) + (double)size_of_pass(b, i, size) * b->ranges[i].each_ns;
	}
	return ns / (PLANNED * b->options.share);
}

/* The longest duration of a cycle. In a program that changes over time, the error of a metric
 * depends on how many turns its pass had rather than on the launches in them. So cycles become
 * longer only after CYCLES of them. */
static double longest_cycle_ns(const struct budget *b)
{
	double lasted_ns = (double)(b->now_ns - b->options.now_ns);

	return lasted_ns / CYCLES < CYCLE_NS ? lasted_ns / CYCLES : CYCLE_NS;
}

/* The next size if the budget can pay for it, else 0. */
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
