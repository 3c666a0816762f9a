/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The gate of a CUDA context: which thread measures a launch, which calls give the GPU other work,
 * when the gate keeps that work out, and how long each thread waits for another.
 *
 * One thread at a time measures a launch or ends a batch: the holder. It holds the lock and shuts
 * the gate. Other threads make calls that are not measured: they note the beginning and the end of
 * each such call, and wait before it while the gate is shut. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/agent/lock.h"

struct patience {
	atomic_uint_fast64_t spent_ns; /* time of waits that timed out; shortens later ones */
	atomic_uint_fast64_t moves_ns; /* longest wait for a sign of progress */
};

struct gate {
	/* Held from the push to the pop of a range, across the launch: ranges of two threads must
	 * not overlap. */
	struct lock lock;
	/* The function that the holder has called, and since when; NULL: none. Other threads read
	 * this without the lock when the holder does not return. */
	_Atomic(const char *) call;
	_Atomic(uint64_t) call_since_ns;
	atomic_bool lost; /* the call has not returned for so long that no thread waits for it any
			     more */
	atomic_bool shut; /* other work must wait */
	atomic_bool insisted; /* a call that had waited too long began with the gate shut */
	atomic_bool
		blocking; /* the holder is in a call that waits for the GPU: no call may insist */
	atomic_bool disturbed; /* the GPU got other work since the range was opened */
	atomic_uint others;    /* calls that give the GPU other work and have not returned yet */
	atomic_bool unwatched; /* calls may go unnoticed, and no thread waits for them */
	atomic_bool untracked; /* a call that had begun before the capture gave the GPU work and
				  returned */
};

/* How long a thread may wait for another one: 2 s altogether in the process's life, after that 10
 * ms each time. A thread whose wait times out adds its time with gate_spend(). */
#define GATE_PATIENCE_LATER_NS (10 * CLOCK_NS_PER_MS)
uint64_t gate_patience_ns(const struct patience *p);
void gate_spend(struct patience *p, uint64_t ns);

/* --- the lock --- */

/* Takes the lock for a thread of the program. The holder may be waiting for that thread's launch,
 * so the thread waits no longer than gate_patience_ns(), except while the holder is in a call of
 * CUPTI's. False: not locked. */
bool gate_lock(struct gate *g, struct patience *p);

/* The holder notes that it is about to call this function, which may take long; NULL: the call has
 * returned. */
void gate_enter_call(struct gate *g, const char *call);
void gate_enter_launch(struct gate *g);

/* After a launch: opens the gate and releases the lock. */
void gate_leave(struct gate *g);

/* If the holder's call has taken longer than ns since from_ns, returns its name once and marks it
 * as lost: no thread waits for it any more. Else NULL. The caller does not hold the lock. */
const char *gate_lose_call(struct gate *g, uint64_t from_ns, uint64_t ns);

/* --- for the holder: other work is kept out --- */

/* gate_shut() keeps out new calls, except those that insist; gate_let_in() lets them in again. */
void gate_shut(struct gate *g);
void gate_let_in(struct gate *g);

/* Waits a moment until all other calls have returned. False: one has not. */
bool gate_others_have_ended(struct gate *g);

/* True if no other call has begun since the gate was shut. */
bool gate_nobody_came(const struct gate *g);

/* As gate_nobody_came(); if true, no call may insist until gate_unblock(). */
bool gate_block(struct gate *g);
void gate_unblock(struct gate *g);

/* gate_begin_range() notes that a range is opened; gate_is_disturbed() returns whether it counts
 * other work as well. */
void gate_begin_range(struct gate *g);
bool gate_is_disturbed(const struct gate *g);

/* The capture stops waiting for the program's threads: from now on their calls may go unnoticed,
 * each range counts as disturbed, and no thread waits for a call that has begun. */
void gate_unwatch(struct gate *g);

/* Has an untracked call returned since the last call of this function? */
bool gate_take_untracked(struct gate *g);

/* --- for calls that are not measured; without the lock --- */

/* Notes that another call begins. False: the gate is shut, and the call must wait. With insist the
 * call may begin unless the holder blocks, and opens the gate for all until it is shut again. */
bool gate_other_begins(struct gate *g, bool insist);

/* A call has given the GPU other work; a call that gate_other_begins() let in has returned; a call
 * whose beginning the agent missed has returned. */
void gate_disturb(struct gate *g);
void gate_other_ends(struct gate *g);
void gate_untracked_ends(struct gate *g);
