/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_CHOOSING_H
#define GPUCTR_AGENT_CHOOSING_H

/* The budget of one capture in one process: which launches are measured, what that has cost, and
 * what the client is to be told of those that are not. Thread-safe but for init and deinit.
 *
 * Without a budget nothing of it is there, and everything is measured. */

#include "client/agent/budget.h"
#include "client/agent/chooser.h"
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
	double telling_ns; /* that a callback takes before and after ours; constant */
	atomic_uint_fast64_t timed, timed_ns; /* callbacks of ours that were, and what they took */
	atomic_uint_fast64_t asked, idle;     /* streams, and those that had no work */
	uint64_t told_timed, told_timed_ns;   /* of those, to the budget; with its lock */
	uint64_t told_asked, told_idle;
	bool hidden;		  /* what callbacks take, behind the GPU's work; with the lock */
	struct turn_shares turns; /* noted with the lock */
	pthread_mutex_t lock;	  /* of the four below, and the innermost of all */
	struct budget budget;
	bool begun;	  /* there was a grant */
	uint64_t met_ns;  /* the first launch; 0: none yet */
	double hidden_ns; /* that seeing took while the GPU was at work */
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

/* --- what it costs that launches are seen ---
 *
 * Of each thread's callbacks one in CHOOSING_TIMES_ONE_IN is timed; a launch has two of them, so
 * that the number is odd. counter is the thread's own. */

enum { CHOOSING_TIMES_ONE_IN = 61 };

/* 0: this one is not timed. */
static inline uint64_t choosing_begin_callback(const struct choosing *c, uint32_t *counter)
{
	if (!c->on || ++*counter % CHOOSING_TIMES_ONE_IN != 0) {
		return 0;
	}
	return clock_now_ns();
}

void choosing_end_callback(struct choosing *c, uint64_t begin_ns);

/* Before a launch whose callback was timed: has its stream anything to do still? */
void choosing_note_gpu(struct choosing *c, bool busy);

/* What the budget cannot pay for, in words: seeing alone takes more, of the launches of so many
 * threads. Empty: it does not. */
void choosing_describe_seeing(struct choosing *c, unsigned threads, char *text, size_t bytes);

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
void choosing_note_wait(struct choosing *c, uint64_t waited_ns, uint64_t stood_ns);

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

/* What was spent, on what, and how that is known; empty: nothing was launched. True: more than the
 * budget, since the program was too short to pay back what measuring costs at first. */
bool choosing_describe(struct choosing *c, char *text, size_t bytes);

#endif
