/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_GATE_H
#define GPUCTR_AGENT_GATE_H

/* The gate of a CUDA context: which thread measures, which calls give the GPU other work, when that
 * work is kept out, and how long each thread waits for another.
 *
 * Two kinds of threads come to it. One measures a launch, or hands over a batch: it holds the lock
 * and shuts the gate. The others make calls that are not measured: they say when such a call begins
 * and ends, and wait outside while the gate is shut. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/agent/lock.h"

/* What waiting in vain has cost the process so far: it shortens the next wait. */
struct patience {
	atomic_uint_fast64_t spent_ns;
};

struct gate {
	/* Held from the push to the pop of a range, across the launch: ranges of two threads must
	 * not overlap. */
	struct lock lock;
	/* What the holder has called last, and when; NULL: nothing. Read without the lock when the
	 * holder does not come back. */
	_Atomic(const char *) call;
	_Atomic(uint64_t) call_since_ns;
	atomic_bool lost;      /* that call has not returned for long: nobody waits for it */
	atomic_uint stalled;   /* threads that wait with work for a stream that has none */
	atomic_bool shut;      /* other work waits outside */
	atomic_bool insisted;  /* since then a call went in that had waited for too long */
	atomic_bool blocking;  /* a call that waits for the GPU is being made: none may insist */
	atomic_bool disturbed; /* since the range was opened the GPU was given other work */
	atomic_uint others;    /* calls that give the GPU other work, and have not returned */
	atomic_bool untracked; /* such a call returned whose beginning was before the capture */
};

/* How long a thread waits for another one: at most 2 s of a program's life in all, and after that
 * 10 ms each time. A thread that has waited in vain reports it. */
#define GATE_PATIENCE_LATER_NS (10 * CLOCK_NS_PER_MS)
uint64_t gate_patience_ns(const struct patience *p);
void gate_spend(struct patience *p, uint64_t ns);

/* --- the lock --- */

/* For a thread of the program, which may launch what the holder waits for: waits with patience, and
 * as long as the holder is within CUPTI. False: not locked. */
bool gate_lock(struct gate *g, struct patience *p);

/* The holder calls this function, which may take long; NULL: it has returned. */
void gate_enter_call(struct gate *g, const char *call);
void gate_enter_launch(struct gate *g);

/* After a launch: whoever waits comes in, and the lock is released. */
void gate_leave(struct gate *g);

/* The call that has been under way for longer than this; NULL: none, or it was told before. From
 * then on nobody waits for it. Without the lock. */
const char *gate_lose_call(struct gate *g, uint64_t ns);

/* --- for the holder: other work is kept out --- */

/* No call begins from here on, but one that insists; and all may again. */
void gate_shut(struct gate *g);
void gate_let_in(struct gate *g);

/* Waits a moment for the calls that had begun before. False: one has not returned. The time is
 * added to *waited_ns. */
bool gate_others_have_ended(struct gate *g, uint64_t *waited_ns);

/* Has none begun since the gate was shut? */
bool gate_nobody_came(const struct gate *g);

/* The same, and from here on none may insist, until gate_unblock(). */
bool gate_block(struct gate *g);
void gate_unblock(struct gate *g);

/* A range is opened; does it count other work as well by now? */
void gate_begin_range(struct gate *g);
bool gate_is_disturbed(const struct gate *g);

/* Has an untracked call returned since this was asked last? */
bool gate_take_untracked(struct gate *g);

/* --- for calls that are not measured; without the lock --- */

/* False: the gate is shut, and the call must not begin. insist: it begins all the same, unless the
 * holder blocks, and so may all others until the gate is shut again. */
bool gate_other_begins(struct gate *g, bool insist);

/* The GPU was given work by a call; by one whose beginning was not seen. */
void gate_disturb(struct gate *g);
void gate_other_ends(struct gate *g);
void gate_untracked_ends(struct gate *g);

#endif
