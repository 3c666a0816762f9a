/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The budget of one capture in one process: it decides which launches are measured, notes the cost,
 * and counts the launches that are not sampled for the client. Thread-safe but for init and deinit.
 * Without a budget every launch is measured, and none of this is allocated. */

#include "client/agent/budget.h"
#include "client/agent/chooser.h"
#include "client/agent/lock.h"
#include "client/agent/pack.h"
#include "client/agent/strata.h"
#include "client/agent/turns.h"
#include "proto/base/clock.h"
#include "proto/wire/limits.h"

/* How the client knows a stratum: by numbers of intern.h. The thread that launches the first launch
 * of the stratum writes them, once. */
struct chosen_name {
	_Atomic uint8_t state; /* enum in choosing.c */
	uint32_t function, range;
	uint64_t told; /* launches reported to the client; used by the delivering thread only */
};

struct choosing_options {
	uint32_t ppm; /* the share of the time in millionths; 0 or WIRE_PPM: there is no budget */
	uint64_t seed;
	size_t columns;
	uint32_t passes;	      /* passes, which take turns; 1 to LIMIT_GROUPS */
	bool may_block[LIMIT_GROUPS]; /* for each pass: its ranges wait for the GPU */
	bool late;		      /* the capture began while the program was running */
};

/* The cost of callbacks since it was last noted in the budget, summed for each thread and for each
 * stream. Delays of threads that launch into different streams overlap; delays of threads that
 * launch into the same stream add up. So the largest of all these sums is the cost. Protected by
 * the lock of struct choosing. */
enum { CRITICAL_SLOTS = 64 };

struct critical_path {
	struct critical_cost {
		double callbacks_ns;
		double calls; /* launches on the critical path */
	} by_thread[CRITICAL_SLOTS], by_stream[CRITICAL_SLOTS];
	double share;	       /* the share of recent callbacks that were on the critical path */
	uint64_t observations; /* observations of the critical path */
	double hidden_ns;      /* time of callbacks off the critical path */
	uint64_t callbacks;    /* callbacks on and off the critical path */
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
	atomic_bool measured[LIMIT_GROUPS]; /* by pass: some launch was measured */
	double telling_ns;		    /* CUPTI's own time for one callback; constant */
	struct turn_shares turns;	    /* noted with the lock */
	struct lock lock; /* protects all below; no other lock is taken while it is held */
	struct budget budget;
	bool begun;	 /* sampling has begun: there was a grant */
	uint64_t met_ns; /* when the program made its first launch; 0: not yet */
	struct critical_path critical;
	double hidden_ns;     /* time of callbacks off the critical path */
	uint64_t reported_ns; /* when callbacks were last noted in the budget; 0: never */
};

/* -ENOMEM. */
int choosing_init(struct choosing *c, const struct choosing_options *options);
void choosing_deinit(struct choosing *c);

struct chosen {
	uint32_t stratum; /* from 1; 0: there is no budget */
	uint32_t pass;	  /* the pass for which the launch was chosen */
	struct choice choice;
};

/* To be called at every launch that may be measured, with the pass that would measure it. *before
 * is a cache of the caller's, one a capture, 0 at first: the stratum of the last similar launch,
 * which is tried first. For a new stratum the function calls name_function() for the number of the
 * kernel's name, and name_range() for that of the innermost range whose name recurs. */
struct chosen choosing_take(struct choosing *c, const struct stratum_key *key, uint32_t pass,
			    uint32_t *before, uint32_t (*name_function)(void *userdata),
			    uint32_t (*name_range)(void *userdata), void *userdata);

/* --- what callbacks cost ---
 *
 * One callback in CHOOSING_TIMES_ONE_IN of each thread is timed. The number is odd, so that
 * callbacks before and after launches are both timed: a launch has one of each. Each thread has a
 * counter of its own. */

enum { CHOOSING_TIMES_ONE_IN = 61 };

/* What one thread's timed callbacks took since it last reported them. */
struct callback_times {
	uint32_t n;
	uint64_t ns;
};

/* The time if this callback is to be timed, else 0. */
static inline uint64_t choosing_begin_callback(const struct choosing *c, uint32_t *counter)
{
	if (!c->on || ++*counter % CHOOSING_TIMES_ONE_IN != 0) {
		return 0;
	}
	return clock_now_ns();
}

void choosing_end_callback(struct callback_times *t, uint64_t begin_ns);

/* Were the callbacks that a thread has timed on the program's critical path? */
enum critical {
	CRITICAL,	  /* the GPU ran out of work before the thread waited for the GPU */
	CRITICAL_NOT,	  /* the GPU had work all the while */
	CRITICAL_UNKNOWN, /* the stream could not be queried */
};

/* Adds the times of a thread that launches into this stream, and sets them to zero. thread and
 * stream are any numbers that distinguish threads and streams. */
void choosing_note_callbacks(struct choosing *c, uint32_t thread, uint32_t stream,
			     enum critical critical, struct callback_times *t);

/* Writes why the budget cannot be kept: callbacks and the slowdown of launches alone take more than
 * the share. Empty if they do not. */
void choosing_describe_overhead(struct choosing *c, char *text, size_t bytes);

/* --- what it has cost; begin_ns as clock_now_ns() --- */

/* A Start of this pass; the time includes passes that were skipped before it. */
void choosing_note_start(struct choosing *c, uint64_t begin_ns, uint32_t pass);
void choosing_note_first_start(struct choosing *c, uint64_t begin_ns, size_t size, uint32_t pass);
void choosing_note_stop(struct choosing *c, uint64_t begin_ns);

/* The batch that was started has room for this many ranges. */
void choosing_note_room(struct choosing *c, size_t room);

/* Launches are chosen for this pass from now on. */
void choosing_note_turn(struct choosing *c, uint32_t pass);
void choosing_note_range(struct choosing *c, uint64_t cpu_ns, uint32_t pass);

/* Notes that the thread waited for the GPU before the next range. For stalled_ns of that time a
 * stream with pending work was idle. */
void choosing_note_wait(struct choosing *c, uint64_t waited_ns, uint64_t stalled_ns);

/* Notes the measured values of launches, one row for each launch. */
void choosing_note_values(struct choosing *c, const struct launch *launches, size_t n,
			  const double *values, size_t columns);

/* --- what may be done; without a budget, anything --- */

bool choosing_may_turn(struct choosing *c);

/* May the agent skip a pass at the next turn? */
bool choosing_may_leave_out(struct choosing *c);

/* May a context take the counters from another one of the process, for batches of this size? */
bool choosing_may_take_over(struct choosing *c, size_t size);

/* Should the caller end a batch that is not full? */
bool choosing_batch_is_old(struct choosing *c);

/* The size of the first batches; and the size of a batch of this pass, if the largest batches have
 * the given size. */
size_t choosing_first_size(struct choosing *c);
size_t choosing_batch_size(struct choosing *c, uint32_t pass, size_t size);

/* The new size of batches, not above most; 0: the size does not change. */
size_t choosing_next_size(struct choosing *c, size_t most);

/* --- what is told --- */

/* Writes up to max strata whose number of launches has grown since it was last reported to the
 * client; returns how many. */
size_t choosing_tell(struct choosing *c, struct pack_stratum *v, size_t max);

/* Writes what was spent, on what, and how the costs are known; empty: the program launched nothing.
 * Returns true if more than the budget was spent because the program was too short to pay back the
 * first Start. */
bool choosing_describe(struct choosing *c, char *text, size_t bytes);
