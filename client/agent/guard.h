/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The guard prevents deadlocks: it decides when a range may be opened and closed, so that the
 * program never waits for itself. The guard polls the driver and never makes a call that blocks. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/agent/streams.h"

enum { GUARD_MARKS = 32 };

/* A launch as the guard sees it. */
struct guard_launch {
	CUstream stream;  /* streams_normal() */
	uintptr_t work;	  /* handle of the launch's function or graph */
	const char *name; /* borrowed for the launch */
	bool collective;  /* the kernel's name says that it waits for kernels on other GPUs */
	uint8_t *proofs; /* counter: how often such a kernel has ended by itself; kept per thread */
	uint64_t stream_number; /* the stream's number in records */
};

/* Work whose end later launches look for: a launch waited for it in vain, or its range is held. */
struct awaited {
	uintptr_t work; /* handle of the function */
	CUevent end;	/* created when first needed */
	bool is_set;   /* the event was recorded, and the GPU had not passed it at the last query */
	bool waited;   /* a launch waited for the work in vain */
	bool is_alone; /* its range is held, and the pop of the measured metrics does not wait */
	uint64_t since_ns; /* when the event was recorded */
};

/* The guard of a context, protected by the context's lock. */
struct guard {
	struct streams streams;
	atomic_bool several;	  /* launches went into more than one stream */
	_Atomic(CUstream) used;	  /* stream of the last launch */
	unsigned in_vain;	  /* launches that waited in vain since streams were last idle */
	_Atomic(uintptr_t) other; /* work of the last launch without a range; 0: it has ended */
	_Atomic(CUstream) other_stream;
	atomic_bool elsewhere;	    /* another stream got work since the range was opened */
	bool stalled;		    /* a long wait was in vain: launches query without waiting */
	uint64_t stalled_ns;	    /* when a launch last waited */
	CUevent marks[GUARD_MARKS]; /* events behind some of the batch's launches, in order */
	size_t marked[GUARD_MARKS]; /* for each mark the launch before it, counted from 1 */
	unsigned n_marks;
	size_t doubtful;  /* number of the batch's last launch that may wait for the CPU; 0: none */
	CUstream last;	  /* stream of the last measured launch */
	CUevent probe;	  /* event after the last measured launch, recorded on request */
	bool probed;	  /* probe was recorded */
	bool holds;	  /* a range was left open, because its kernel had not ended */
	bool held_waited; /* a launch waited for that kernel in vain */
	struct awaited awaited;
	CUevent begin;		  /* event between the beginning of the last range and its launch */
	bool began;		  /* begin was recorded */
	struct guard_launch held; /* the launch whose range is held open; name is a copy */
};

struct capture;
struct ranges;

void guard_init(struct guard *g);
void guard_deinit(struct guard *g);
/* Destroys the guard's events, so that captures leave none behind. To be called while the context
 * exists, when no launch in it is measured any more. */
void guard_give_back(struct guard *g, const struct profiler *p);

/* Has the GPU finished the last measured launch, and the other work that its stream had got by the
 * first call of this function? Does not wait; has the same preconditions as streams_are_idle(). */
bool guard_is_past_last(struct capture *c, struct ranges *r);

bool guard_name_is_collective(const char *name);

/* The functions below need the context's lock held and the context current. */

/* May a range be opened for this launch? */
bool guard_may_open(struct capture *c, struct ranges *r, const struct guard_launch *l);

/* guard_note_begin() is to be called after a range was opened, before its launch.
 * guard_has_begun(): false: the range waits for earlier work. */
void guard_note_begin(struct capture *c, struct ranges *r, const struct guard_launch *l);
bool guard_has_begun(struct capture *c, const struct guard *g);

/* To be called after the launch: may the range be closed? launched: the call has given the GPU a
 * kernel. If false is returned, the range stays open until guard_may_release() returns true.
 * patient: the thread is about to launch, and may wait for a moment. */
bool guard_may_close(struct capture *c, struct ranges *r, const struct guard_launch *l,
		     bool launched);
bool guard_may_release(struct capture *c, struct ranges *r, bool patient);

/* To be called after a range was closed. Records an event behind some of the kernels; a wait for
 * the end of the batch sees by these events that the GPU makes progress. */
void guard_mark(struct capture *c, struct ranges *r, const struct guard_launch *l);

/* Is the context idle? patient: waits until it is, with a limit. */
bool guard_is_quiet(struct capture *c, struct ranges *r, bool patient);

/* As guard_is_quiet(), with the gate shut, so that no new work can begin. If true, the profiler may
 * be started, stopped, configured or disabled, which waits for the GPU: other work waits until
 * gate_unblock(), or until the watch finds that the call does not return. */
bool guard_may_block(struct capture *c, struct ranges *r, bool patient);

/* Waits until the context is idle, no longer than gate_patience_ns(). The caller has shut the gate.
 * Works in every state of the capture, but returns at once during a stream capture. */
void guard_drain(struct capture *c, struct ranges *r);

/* If the function is a certain suspect (guard_wait.h), reports it to the user, once. */
void guard_tell(struct capture *c, uintptr_t work, const char *name);

/* --- any thread, without the lock --- */

/* Work in this context that is not measured. */
struct guard_work {
	CUstream stream; /* streams_normal(); NULL: unknown */
	bool launch;	 /* the work is a kernel or a graph, which may wait for another launch */
	uintptr_t work;	 /* handle of the function or graph */
};

/* Notes that the GPU gets other work, so an open range no longer counts one kernel only. To be
 * called at the end of the call that gives the work, before gate_other_ends(). */
void guard_disturb(struct ranges *r, const struct guard_work *work);
