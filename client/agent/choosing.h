/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_CHOOSING_H
#define GPUCTR_AGENT_CHOOSING_H

/* The budget of one capture in one process: which launches are measured, what that has cost, and
 * what the client learns of the launches that are not sampled. Thread-safe but for init and deinit.
 * Without a budget every launch is measured, and none of this is allocated. */

#include "client/agent/budget.h"
#include "client/agent/chooser.h"
#include "client/agent/lock.h"
#include "client/agent/pack.h"
#include "client/agent/strata.h"
#include "client/agent/turns.h"
#include "proto/base/clock.h"
#include "proto/wire/limits.h"

/* A stratum as the client knows it, by numbers of intern.h. Written once, by whoever met it first.
 */
struct chosen_name {
	_Atomic uint8_t state; /* enum in choosing.c */
	uint32_t function, range;
	uint64_t told; /* launches that the client knows of; the delivering thread's */
};

struct choosing_options {
	uint32_t ppm; /* millionths of the time; 0, or all of them: there is no budget */
	uint64_t seed;
	size_t columns;
	uint32_t passes;	      /* that take turns, from 1 to LIMIT_GROUPS */
	bool may_block[LIMIT_GROUPS]; /* the ranges of each of them wait for the GPU */
	bool late;		      /* the program runs already */
};

/* What callbacks have cost the program since the budget was last told, along each thread and along
 * each stream. Threads that launch into streams of their own delay the program at the same time,
 * and threads that launch into one stream one after the other: the longest of all these paths
 * counts. With the lock of struct choosing. */
enum { CRITICAL_SLOTS = 64 };

struct critical_path {
	struct critical_cost {
		double callbacks_ns;
		double calls; /* that were on the critical path */
	} by_thread[CRITICAL_SLOTS], by_stream[CRITICAL_SLOTS];
	double share;	       /* of the latest callbacks, that were on it */
	uint64_t observations; /* in which that was seen */
	double hidden_ns;      /* that the others took */
	uint64_t callbacks;    /* all of them */
};

struct choosing {
	bool on; /* there is a budget; constant, as are the options */
	struct choosing_options options;
	double share;
	struct strata strata;
	struct chooser chooser;
	struct chosen_name *names; /* by stratum */
	_Atomic uint64_t
		grant_ns; /* when the next launch is to ask for the pace; 0: none was made */
	atomic_bool measured[LIMIT_GROUPS]; /* something, in each pass */
	double telling_ns;	  /* that a callback takes before and after ours; constant */
	struct turn_shares turns; /* noted with the lock */
	struct lock lock;	  /* of all below; no other lock is taken while it is held */
	struct budget budget;
	bool begun;	 /* there was a grant */
	uint64_t met_ns; /* the first launch; 0: none yet */
	struct critical_path critical;
	double hidden_ns;     /* that callbacks took off the critical path */
	uint64_t reported_ns; /* when the budget was last told of callbacks; 0: never */
};

/* -ENOMEM. */
int choosing_init(struct choosing *c, const struct choosing_options *options);
void choosing_deinit(struct choosing *c);

struct chosen {
	uint32_t stratum; /* from 1; 0: there is no budget */
	uint32_t pass;	  /* for which it was chosen */
	struct choice choice;
};

/* At every launch that may be measured, and would be in this pass. *before is the
 * caller's, of this capture, and 0 at first: the stratum of a launch that was like this one, to
 * look there first. name_function() gives the number of the kernel's name, and name_range() that of
 * the innermost range that recurs; they are called when the stratum is new. */
struct chosen choosing_take(struct choosing *c, const struct stratum_key *key, uint32_t pass,
			    uint32_t *before, uint32_t (*name_function)(void *userdata),
			    uint32_t (*name_range)(void *userdata), void *userdata);

/* --- what callbacks cost ---
 *
 * Of each thread's callbacks one in CHOOSING_TIMES_ONE_IN is timed; a launch has two of them, so
 * that the number is odd. counter is the thread's own. */

enum { CHOOSING_TIMES_ONE_IN = 61 };

/* What one thread's timed callbacks took since it last reported them. */
struct callback_times {
	uint32_t n;
	uint64_t ns;
};

/* 0: this one is not timed. */
static inline uint64_t choosing_begin_callback(const struct choosing *c, uint32_t *counter)
{
	if (!c->on || ++*counter % CHOOSING_TIMES_ONE_IN != 0) {
		return 0;
	}
	return clock_now_ns();
}

void choosing_end_callback(struct callback_times *t, uint64_t begin_ns);

/* Where a thread's callbacks were while it took these times: did the program wait for them? */
enum critical {
	CRITICAL,	  /* the GPU ran out of work before the thread waited for the GPU */
	CRITICAL_NOT,	  /* the GPU had work all the while */
	CRITICAL_UNKNOWN, /* no stream could be asked */
};

/* Reports the times of a thread that launches into this stream, and sets them to zero. thread and
 * stream are any numbers that tell threads and streams apart. */
void choosing_note_callbacks(struct choosing *c, uint32_t thread, uint32_t stream,
			     enum critical critical, struct callback_times *t);

/* What the budget cannot pay for, in words: callbacks and slower launches alone take more. Empty:
 * they do not. */
void choosing_describe_overhead(struct choosing *c, char *text, size_t bytes);

/* --- what it has cost; begin_ns as clock_now_ns() --- */

/* Of pass, with the passes that were left out before it. */
void choosing_note_start(struct choosing *c, uint64_t begin_ns, uint32_t pass);
void choosing_note_first_start(struct choosing *c, uint64_t begin_ns, size_t size, uint32_t pass);
void choosing_note_stop(struct choosing *c, uint64_t begin_ns);

/* The batch that was started has room for so many ranges. */
void choosing_note_room(struct choosing *c, size_t room);

/* Launches are chosen for this pass from now on. */
void choosing_note_turn(struct choosing *c, uint32_t pass);
void choosing_note_range(struct choosing *c, uint64_t cpu_ns, uint32_t pass);

/* For the range that is noted next the thread has waited for the GPU, and of that so long while a
 * stream that had work stood still. */
void choosing_note_wait(struct choosing *c, uint64_t waited_ns, uint64_t stalled_ns);

/* What was measured of launches, a row of values each. */
void choosing_note_values(struct choosing *c, const struct launch *launches, size_t n,
			  const double *values, size_t columns);

/* --- what may be done; without a budget, anything --- */

bool choosing_may_turn(struct choosing *c);

/* May the next turn leave a pass out? */
bool choosing_may_leave_out(struct choosing *c);

/* May a context take the counters from another one of the process, for batches of this size? */
bool choosing_may_take_over(struct choosing *c, size_t size);

/* Is a batch to be handed over that is not full? */
bool choosing_batch_is_old(struct choosing *c);

/* The size of the first batches, and how many ranges one of this pass is to have where the largest
 * have that size. */
size_t choosing_first_size(struct choosing *c);
size_t choosing_batch_size(struct choosing *c, uint32_t pass, size_t size);

/* The size that the next batches are to have, at most most; 0: the present one. */
size_t choosing_next_size(struct choosing *c, size_t most);

/* --- what is told --- */

/* Strata with more launches than were told, at most max of them. */
size_t choosing_tell(struct choosing *c, struct pack_stratum *v, size_t max);

/* What was spent, on what, and how that is known; empty: nothing was launched. True: it was more
 * than the budget, because the program was too short to pay back the first Start. */
bool choosing_describe(struct choosing *c, char *text, size_t bytes);

#endif
