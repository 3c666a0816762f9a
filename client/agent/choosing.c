/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/choosing.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/agent/slowdown.h"
#include "client/agent/stream_captures.h"
#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/base/list.h"
#include "proto/wire/wire.h"

/* This file connects the agent with strata, which count launches, the chooser, which draws them,
 * and the budget, which limits their number. For each launch the agent looks up a stratum, draws a
 * random number and reads the coarse clock. Ten times a second one launch notes the cost of all
 * callbacks in the budget and takes a new pace from it.
 *
 * A process has one budget. With several contexts each fills batches of its own, while the budget
 * knows only the latest one; it notes the costs of all, and the window of ten seconds holds for all
 * together. The cost of a range on the GPU is assumed to be that of memory metrics on an H200; if
 * push and pop wait for the GPU, their time includes it.
 *
 * Several passes take turns (turns.c). A launch's reported chance is the product of two: that the
 * launch came during the turn of its pass, and that the chooser chose it.
 *
 * A stratum is reported to the client with the kernel and range of its first launch. */

enum { NAME_NONE, NAME_BEING_WRITTEN, NAME_WRITTEN };

#define NEWEST_OBSERVATION (1.0 / 32) /* weight of the latest observation */

#define GRANT_EVERY_NS (CLOCK_NS_PER_S / 10)
#define OBSERVE_NS (CLOCK_NS_PER_S / 2)
#define RANGE_GPU_NS 46e3
#define RANGE_CPU_NS 5e3	/* until the first range was timed */
#define BLOCKING_RANGE_NS 763e3 /* of a range whose push and pop wait, until one was timed */
#define CALLBACK_NS_MAX 20000
#define AHEAD_NS_MAX CLOCK_NS_PER_MS
/* From the first use of CUPTI's profiler until the program ends, a launch takes 0.5 us longer with
 * warm caches and 1.6 to 2.0 us longer with cold ones (H200, CUPTI 2025.3). This is the least
 * slowdown that is assumed. */
#define SLOWDOWN_CALL_NS 700
/* From the first range on, work on the GPU itself is slower by about this share: copies of 34.45 us
 * by 0.9 %, kernels of 10.4 us by 1.2 %, trainings whose GPU is never idle by 0.5 to 1.4 % (H200).
 */
#define SLOWDOWN_GPU_SHARE 0.008

_Static_assert((int)BUDGET_PASSES_MAX == (int)LIMIT_GROUPS, "a plan has no more groups");

int choosing_init(struct choosing *c, const struct choosing_options *o)
{
	struct chooser_options options = {
		.seed = o->seed,
		.metrics = o->columns < CHOOSER_METRICS_MAX ? (uint32_t)o->columns
							    : CHOOSER_METRICS_MAX,
	};
	int r;

	if (o->ppm == 0 || o->ppm >= WIRE_PPM) {
		return 0;
	}
	c->share = (double)o->ppm / WIRE_PPM;
	c->options = *o;
	turn_shares_init(&c->turns, o->passes);
	r = strata_init(&c->strata, STRATA_DEFAULT_MAX, o->passes);
	if (r < 0) {
		return r;
	}
	c->names = calloc(c->strata.max, sizeof(*c->names));
	r = c->names ? chooser_init(&c->chooser, &c->strata, &options) : -ENOMEM;
	if (r < 0) {
		free(c->names);
		c->names = NULL;
		strata_deinit(&c->strata);
		return r;
	}
	lock_init(&c->lock, LOCK_LEAF);
	c->critical.share = 1; /* until the first observation */
	c->on = true;
	return 0;
}

void choosing_deinit(struct choosing *c)
{
	if (c->on) {
		chooser_deinit(&c->chooser);
		strata_deinit(&c->strata);
		free(c->names);
		lock_deinit(&c->lock);
		c->on = false;
	}
}

/* --- a launch --- */

/* With the lock. */
static void begin(struct choosing *c, uint64_t now_ns)
{
	struct budget_options options = {
		.share = c->share,
		.now_ns = now_ns,
		.passes = c->options.passes,
		.range_ns = c->options.may_block[0] ? 1 : RANGE_GPU_NS,
	};

	for (uint32_t i = 0; i < c->options.passes; i++) {
		options.pass_range_ns[i] =
			c->options.may_block[i] ? BLOCKING_RANGE_NS : RANGE_CPU_NS + RANGE_GPU_NS;
	}
	budget_init(&c->budget, &options);
	chooser_begin(&c->chooser, now_ns);
	c->begun = true;
}

void choosing_end_callback(struct callback_times *t, uint64_t begin_ns)
{
	uint64_t ns = clock_now_ns() - begin_ns;

	/* A longer time means that the thread was not running, so it counts only up to the limit.
	 */
	t->ns += ns < CALLBACK_NS_MAX ? ns : CALLBACK_NS_MAX;
	t->n++;
}

static void add_cost(struct critical_cost *slots, uint32_t number, double ns, double calls)
{
	struct critical_cost *slot = &slots[number % CRITICAL_SLOTS];

	slot->callbacks_ns += ns;
	slot->calls += calls;
}

/* Each timed callback represents CHOOSING_TIMES_ONE_IN; CUPTI's own cost per callback is added, two
 * callbacks a launch. */
void choosing_note_callbacks(struct choosing *c, uint32_t thread, uint32_t stream,
			     enum critical critical, struct callback_times *t)
{
	double n = (double)t->n * CHOOSING_TIMES_ONE_IN, share;
	double ns = (double)t->ns * CHOOSING_TIMES_ONE_IN + n * c->telling_ns;
	struct critical_path *p = &c->critical;

	lock_acquire(&c->lock);
	if (critical != CRITICAL_UNKNOWN) {
		p->observations++;
		p->share += ((critical == CRITICAL) - p->share) *
			    fmax(1 / (double)p->observations, NEWEST_OBSERVATION);
	}
	share = critical == CRITICAL_UNKNOWN ? p->share : critical == CRITICAL;
	add_cost(p->by_thread, thread, share * ns, share * n / 2);
	add_cost(p->by_stream, stream, share * ns, share * n / 2);
	p->hidden_ns += (1 - share) * ns;
	p->callbacks += (uint64_t)n;
	lock_release(&c->lock);
	*t = (struct callback_times){ 0 };
}

static struct critical_cost longest(const struct critical_cost *slots, struct critical_cost longest)
{
	for (size_t i = 0; i < CRITICAL_SLOTS; i++) {
		longest = slots[i].callbacks_ns > longest.callbacks_ns ? slots[i] : longest;
	}
	return longest;
}

/* The slowdown of a launch on the critical path by CUPTI's profiler. */
static double slowdown_call_ns(enum budget_source *ret_source)
{
	double by = slowdown_by_ns();

	*ret_source = by > SLOWDOWN_CALL_NS ? BUDGET_CALIBRATED : BUDGET_ASSUMED;
	return by > SLOWDOWN_CALL_NS ? by : SLOWDOWN_CALL_NS;
}

/* With the lock held. Notes the cost of callbacks and of the slowdown of launches since the last
 * call. For the time that callbacks were off the critical path, the slowdown is that of the GPU's
 * work. */
static void note_overhead(struct choosing *c, uint64_t now_ns)
{
	struct critical_path *p = &c->critical;
	struct critical_cost cost =
		longest(p->by_stream, longest(p->by_thread, (struct critical_cost){ 0 }));
	uint64_t elapsed_ns = now_ns - c->reported_ns, most_ns = 2 * GRANT_EVERY_NS;
	enum budget_source source = BUDGET_ASSUMED;
	double slowdown_ns = 0;

	if (c->budget.costs[BUDGET_FIRST_START].n > 0) {
		slowdown_ns = cost.calls * slowdown_call_ns(&source);
		slowdown_ns += (1 - p->share) * SLOWDOWN_GPU_SHARE *
			       (double)(elapsed_ns < most_ns ? elapsed_ns : most_ns);
		source = p->share < 1 ? BUDGET_ASSUMED : source;
	}
	budget_note_callbacks(&c->budget, now_ns, p->callbacks, cost.callbacks_ns, slowdown_ns,
			      source);
	c->hidden_ns += p->hidden_ns;
	c->reported_ns = now_ns;
	*p = (struct critical_path){ .share = p->share, .observations = p->observations };
}

/* If the capture began while the program was running, its launches are first timed without the
 * profiler for a while, to compare with later. In a new program that is of no use: its first
 * launches differ from later ones. */
static bool is_observing(struct choosing *c, uint64_t now_ns)
{
	if (!c->options.late || c->begun) {
		return false;
	}
	c->met_ns = c->met_ns ? c->met_ns : now_ns;
	return now_ns <
	       c->met_ns + (slowdown_knows_plain() ? STREAM_CAPTURES_OBSERVE_NS : OBSERVE_NS);
}

/* With the lock. */
static void give(struct choosing *c, uint64_t now_ns, uint32_t pass)
{
	const struct budget_pace pace = budget_take_pace(&c->budget, now_ns);
	const struct chooser_grant grant = { pace.credit, pace.full, pace.per_s, now_ns, pass };

	chooser_grant(&c->chooser, &grant);
}

static void grant(struct choosing *c, uint64_t now_ns, uint32_t pass)
{
	lock_acquire(&c->lock);
	if (is_observing(c, now_ns)) {
		atomic_store(&c->grant_ns, now_ns + CLOCK_NS_PER_MS);
		lock_release(&c->lock);
		return;
	}
	if (!c->begun) {
		begin(c, now_ns);
	}
	note_overhead(c, now_ns);
	turn_shares_note(&c->turns, pass);
	give(c, now_ns, pass);
	lock_release(&c->lock);
}

/* When a grant is due, the first thread that gets here makes it. */
static void grant_if_due(struct choosing *c, uint32_t pass)
{
	/* The coarse clock is exact to a few ms, which suffices, and is cheaper because it does not
	 * read the hardware counter. */
	uint64_t now_ns = clock_read_ns(CLOCK_MONOTONIC_COARSE);
	uint64_t due_ns = atomic_load_explicit(&c->grant_ns, memory_order_relaxed);

	if (now_ns >= due_ns &&
	    atomic_compare_exchange_strong(&c->grant_ns, &due_ns, now_ns + GRANT_EVERY_NS)) {
		grant(c, clock_now_ns(), pass);
	}
}

static void name_stratum(struct choosing *c, uint32_t number,
			 uint32_t (*name_function)(void *userdata),
			 uint32_t (*name_range)(void *userdata), void *userdata)
{
	struct chosen_name *name = &c->names[number];
	enum stratum_level level = c->strata.v[number].level;
	uint8_t none = NAME_NONE;

	if (atomic_load_explicit(&name->state, memory_order_acquire) != NAME_NONE ||
	    !atomic_compare_exchange_strong(&name->state, &none, NAME_BEING_WRITTEN)) {
		return;
	}
	name->function = level >= STRATUM_KERNEL ? name_function(userdata) : 0;
	name->range = level == STRATUM_RANGE ? name_range(userdata) : 0;
	atomic_store_explicit(&name->state, NAME_WRITTEN, memory_order_release);
}

struct chosen choosing_take(struct choosing *c, const struct stratum_key *key, uint32_t pass,
			    uint32_t *before, uint32_t (*name_function)(void *userdata),
			    uint32_t (*name_range)(void *userdata), void *userdata)
{
	struct chosen chosen = { .pass = pass };
	uint32_t number;

	if (!c->on) {
		return (struct chosen){ 0, 0, { true, 1 } };
	}
	grant_if_due(c, pass);
	number = strata_find_again(&c->strata, key, *before);
	*before = number;
	name_stratum(c, number, name_function, name_range, userdata);
	chosen.stratum = number + 1;
	chosen.choice = chooser_take(&c->chooser, number, pass);
	if (chosen.choice.measure && c->options.passes > 1) {
		chosen.choice.chance *= turn_shares_of(&c->turns, pass);
	}
	return chosen;
}

/* --- costs --- */

/* Takes the lock if there is a budget and sampling has begun; else returns NULL. */
static struct budget *lock_budget(struct choosing *c)
{
	if (!c->on) {
		return NULL;
	}
	lock_acquire(&c->lock);
	if (c->begun) {
		return &c->budget;
	}
	lock_release(&c->lock);
	return NULL;
}

static void unlock_budget(struct budget **b)
{
	if (*b) {
		lock_release(&list_entry(*b, struct choosing, budget)->lock);
	}
}

/* b is the budget, locked to the end of the block; NULL: there is none yet. */
#define BUDGET_SCOPE(b, c) CLEAN(unlock_budget) struct budget *b = lock_budget(c)

void choosing_note_start(struct choosing *c, uint64_t begin_ns, uint32_t pass)
{
	uint64_t now_ns = clock_now_ns();

	BUDGET_SCOPE(b, c);
	if (b) {
		budget_note_start(b, now_ns, pass, (double)(now_ns - begin_ns));
	}
}

void choosing_note_first_start(struct choosing *c, uint64_t begin_ns, size_t size, uint32_t pass)
{
	uint64_t now_ns = clock_now_ns();

	BUDGET_SCOPE(b, c);
	if (b) {
		budget_note_first_start(b, now_ns, size, pass, (double)(now_ns - begin_ns));
		chooser_resume(&c->chooser, now_ns);
	}
}

void choosing_note_stop(struct choosing *c, uint64_t begin_ns)
{
	uint64_t now_ns = clock_now_ns();

	BUDGET_SCOPE(b, c);
	if (b) {
		budget_note_stop(b, now_ns, (double)(now_ns - begin_ns));
	}
}

void choosing_note_room(struct choosing *c, size_t room)
{
	BUDGET_SCOPE(b, c);
	if (b) {
		budget_note_room(b, room);
	}
}

void choosing_note_turn(struct choosing *c, uint32_t pass)
{
	BUDGET_SCOPE(b, c);
	if (b) {
		budget_note_turn(b, pass);
		give(c, clock_now_ns(), pass);
	}
}

void choosing_note_range(struct choosing *c, uint64_t cpu_ns, uint32_t pass)
{
	bool waited = c->options.may_block[pass] && (double)cpu_ns >= RANGE_GPU_NS;
	double gpu_ns = waited ? 0 : RANGE_GPU_NS;

	BUDGET_SCOPE(b, c);
	if (b) {
		budget_note_range(b, clock_now_ns(), pass, (double)cpu_ns, gpu_ns, BUDGET_ASSUMED);
	}
}

/* While a thread waits, the GPU executes work that was queued before. So waiting delays the program
 * by the time that a stream stalls. If launches are on the critical path, it also delays the
 * program by the time that the thread would have used to queue more work, up to AHEAD_NS_MAX. */
static double wait_cost_ns(const struct choosing *c, uint64_t waited_ns, uint64_t stalled_ns)
{
	double stalled = (double)stalled_ns;
	double ahead = (double)(waited_ns < AHEAD_NS_MAX ? waited_ns : AHEAD_NS_MAX);

	return ahead > stalled ? stalled + c->critical.share * (ahead - stalled) : stalled;
}

void choosing_note_wait(struct choosing *c, uint64_t waited_ns, uint64_t stalled_ns)
{
	uint64_t now_ns = clock_now_ns();

	BUDGET_SCOPE(b, c);
	if (b) {
		budget_note_wait(b, now_ns, wait_cost_ns(c, waited_ns, stalled_ns));
		give(c, now_ns, b->next);
	}
}

void choosing_note_values(struct choosing *c, const struct launch *launches, size_t n,
			  const double *values, size_t columns)
{
	for (size_t i = 0; c->on && i < n; i++) {
		if (launches[i].stratum > 0) {
			chooser_note(&c->chooser, launches[i].stratum - 1, launches[i].pass,
				     launches[i].chance, values + i * columns);
			atomic_store(&c->measured[launches[i].pass], true);
		}
	}
}

/* --- decisions --- */

bool choosing_may_turn(struct choosing *c)
{
	BUDGET_SCOPE(b, c);
	return !b || budget_may_turn(b, clock_now_ns());
}

bool choosing_may_leave_out(struct choosing *c)
{
	BUDGET_SCOPE(b, c);
	return !b || budget_may_leave_out(b);
}

bool choosing_may_take_over(struct choosing *c, size_t size)
{
	BUDGET_SCOPE(b, c);
	return !b || budget_may_take_over(b, clock_now_ns(), size);
}

bool choosing_batch_is_old(struct choosing *c)
{
	BUDGET_SCOPE(b, c);
	return !b || budget_batch_is_old(b, clock_now_ns());
}

size_t choosing_first_size(struct choosing *c)
{
	BUDGET_SCOPE(b, c);
	return b ? b->first : BUDGET_SIZE_FIRST;
}

size_t choosing_batch_size(struct choosing *c, uint32_t pass, size_t size)
{
	BUDGET_SCOPE(b, c);
	return b ? budget_batch_size(b, pass, size) : size;
}

size_t choosing_next_size(struct choosing *c, size_t most)
{
	BUDGET_SCOPE(b, c);
	if (!b) {
		return 0;
	}
	b->options.size_most = most;
	return budget_next_size(b, clock_now_ns());
}

/* --- telling --- */

static void fill(struct choosing *c, uint32_t number, uint64_t seen, struct pack_stratum *ret)
{
	const struct stratum *s = &c->strata.v[number];

	*ret = (struct pack_stratum){
		.id = number + 1,
		.function = c->names[number].function,
		.range = c->names[number].range,
		.shared_bytes = s->key.shared_bytes,
		.device = s->key.device,
		.merged = atomic_load(&s->merged),
		.seen = seen,
	};
	memcpy(ret->grid, s->key.grid, sizeof(ret->grid));
	memcpy(ret->block, s->key.block, sizeof(ret->block));
}

size_t choosing_tell(struct choosing *c, struct pack_stratum *v, size_t max)
{
	uint32_t strata = c->on ? strata_n(&c->strata) : 0;
	size_t n = 0;

	for (uint32_t i = 0; i < strata && n < max; i++) {
		struct chosen_name *name = &c->names[i];
		uint64_t seen = strata_seen(&c->strata, i);

		if (seen > name->told &&
		    atomic_load_explicit(&name->state, memory_order_acquire) == NAME_WRITTEN) {
			fill(c, i, seen, &v[n++]);
			name->told = seen;
		}
	}
	return n;
}

void choosing_describe_overhead(struct choosing *c, char *text, size_t bytes)
{
	double share;

	BUDGET_SCOPE(b, c);
	share = b ? budget_overhead_share(b, clock_now_ns()) : 0;
	text[0] = '\0';
	if (share > c->share) {
		snprintf(text, bytes,
			 "the budget of %.4g %% cannot be kept: CUPTI's callbacks, and work that "
			 "is slower under "
			 "its profiler, take %.3g %% of the time, whatever is measured",
			 100 * c->share, 100 * share);
	}
}

static size_t count_merged(struct choosing *c)
{
	size_t n = 0;

	for (uint32_t i = 0; i < strata_n(&c->strata); i++) {
		n += atomic_load(&c->strata.v[i].merged) && strata_seen(&c->strata, i) > 0;
	}
	return n;
}

/* The number of passes that measured nothing. */
static uint32_t count_unmeasured(struct choosing *c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->options.passes; i++) {
		n += !atomic_load(&c->measured[i]);
	}
	return n;
}

bool choosing_describe(struct choosing *c, char *text, size_t bytes)
{
	uint64_t now_ns = clock_now_ns(), withheld;
	double hidden_ns;
	uint32_t unmeasured = count_unmeasured(c);
	size_t merged, n;
	bool too_short;

	text[0] = '\0';
	if (!lock_budget(c)) {
		return false;
	}
	note_overhead(c, now_ns);
	too_short = budget_spent_share(&c->budget, now_ns) > c->share;
	budget_describe(&c->budget, now_ns, text, bytes);
	hidden_ns = c->hidden_ns;
	lock_release(&c->lock);
	n = strlen(text);
	withheld = chooser_withheld(&c->chooser);
	merged = count_merged(c);
	if (hidden_ns > 0 && n < bytes) {
		n += (size_t)snprintf(
			text + n, bytes - n,
			"; callbacks took another %.1f ms while the GPU had work, which "
			"is not counted",
			hidden_ns * 1e-6);
	}
	if (withheld > 0 && n < bytes) {
		n += (size_t)snprintf(text + n, bytes - n,
				      "; %llu launches passed while nothing could be paid for",
				      (unsigned long long)withheld);
	}
	if (unmeasured > 0 && c->options.passes > 1 && n < bytes) {
		n += (size_t)snprintf(text + n, bytes - n,
				      "; of %u of the %u groups of metrics nothing was measured: "
				      "their turn did not come",
				      unmeasured, c->options.passes);
	}
	if (merged > 0 && n < bytes) {
		snprintf(text + n, bytes - n,
			 "; there were too many kinds of launches: %zu of %u strata stand for "
			 "several",
			 merged, strata_n(&c->strata));
	}
	return too_short;
}
