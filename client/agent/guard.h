/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_GUARD_H
#define GPUCTR_AGENT_GUARD_H

/* Keeps the measuring from making a program wait for itself: says when a range may be opened and
 * closed, and waits for that with patience, by asking and never by a call that waits. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/agent/streams.h"

enum { GUARD_SUSPECTS_MAX = 64, GUARD_MARKS = 32 };

/* Of the process. */
struct patience {
	atomic_uint_fast64_t spent_ns; /* on waiting in vain */
	/* What did not end by itself, functions and graphs. */
	_Atomic(uintptr_t) suspects[GUARD_SUSPECTS_MAX];
	atomic_size_t n_suspects;
};

/* A launch as the guard sees it. */
struct guard_launch {
	CUstream stream;	/* streams_normal() */
	uintptr_t work;		/* the handle of its function, or of its graph */
	const char *name;	/* borrowed for the launch */
	bool collective;	/* by its name it waits for kernels on other GPUs */
	uint8_t *proofs;	/* how often such a kernel has ended by itself; the thread's */
	uint64_t stream_number; /* as users see it */
};

/* What waiting has taken for one range, and for the turns before it. */
struct guard_wait {
	uint64_t waited_ns; /* the thread that measures */
	uint64_t stood_ns;  /* of that, while a stream that had work stood still, as far as known */
};

/* Of a context, under the context's lock. */
struct guard {
	struct streams streams;
	atomic_bool several;	/* launches went into more than one stream */
	_Atomic(CUstream) used; /* the last launch's */
	bool stalled;		/* waiting was in vain: nobody waits again until there is no need */
	uint64_t stalled_ns;	/* when somebody has waited last */
	CUevent marks[GUARD_MARKS]; /* in the stream of the batch's launches, in their order */
	unsigned n_marks, made_marks;
	CUstream last;		/* the last measured launch's */
	CUevent probe;		/* behind that launch, recorded by who looked after it */
	bool probed;		/* it was, since */
	bool holds;		/* a range was left open, because its kernel has not ended */
	bool crowded;		/* several streams had work when the range was to be opened */
	struct guard_wait wait; /* not taken yet */
	atomic_uint standing;	/* threads that wait with work for a stream that has none */
	atomic_bool shut;	/* a range is being opened or closed: other work waits */
	atomic_bool insisted;	/* since then some was let in that had waited for too long */
	atomic_bool blocking;	/* a call that waits for the GPU is being made: nobody may insist */
	atomic_bool disturbed;	/* other work was given to the GPU since */
	atomic_uint others;	/* calls that give it some, and have not returned */
	atomic_bool stranger;	/* such a call returned whose beginning nobody has seen */
	struct guard_launch held; /* name is its own copy */
};

struct capture;
struct ranges;

void guard_init(struct guard *g);
void guard_deinit(struct guard *g);
/* Gives the driver its events back, while their context is there and none of its launches is
 * measured any more. Otherwise a program that is captured again and again collects them. */
void guard_give_back(struct guard *g, const struct profiler *p);

/* Has the GPU come past the last measured launch, and what its stream was given until the first
 * time that this is asked after it? As streams_are_idle(), without waiting. */
bool guard_is_past_last(struct capture *c, struct ranges *r);

bool guard_name_is_collective(const char *name);

/* All below: with the context's lock held and the context current. */

/* May a range be opened for this launch? */
bool guard_may_open(struct capture *c, struct ranges *r, const struct guard_launch *l);

/* May the range around it be closed, after the launch, which has given the GPU a kernel or has
 * failed? False: it is held, and guard_may_release() says when it may be. */
bool guard_may_close(struct capture *c, struct ranges *r, const struct guard_launch *l,
		     bool launched);
bool guard_may_release(struct capture *c, struct ranges *r);

/* After a range was closed: leaves a mark behind its kernel now and then, by which waiting for the
 * end of a batch can tell that the GPU moves. */
void guard_mark(struct capture *c, struct ranges *r, const struct guard_launch *l);

/* Is nothing under way? patient: waits for it. */
bool guard_is_quiet(struct capture *c, struct ranges *r, bool patient);

/* The same, and does nothing come either, with all others shut out? Then the profiler may be
 * started, stopped, configured or disabled, which waits for the GPU. True: whatever comes waits for
 * guard_unblock(), or for the watch to find that the call does not return. */
bool guard_may_block(struct capture *c, struct ranges *r, bool patient);
void guard_unblock(struct guard *g);

/* Waits until nothing is under way, whether launches are looked at still or not, with the patience
 * of the process: for who has shut out all others. Not while a stream is captured. */
void guard_drain(struct capture *c, struct ranges *r);

/* What was waited since this was asked last. */
struct guard_wait guard_take_wait(struct guard *g);

/* Other work is not let in from here on, until it is: it would be counted as well, and what is
 * waited for would not end. Who holds the context's lock meanwhile is waited for with patience. */
void guard_shut(struct guard *g);
void guard_let_in(struct guard *g);

/* Around waiting for that lock with work for a stream (NULL: it is not known which). A stream that
 * has none stands still meanwhile: true, and an end follows. */
bool guard_begin_standing(struct guard *g, CUstream stream);
void guard_end_standing(struct guard *g);

/* For a lock that another launch holds: how long to wait for it, and that it was in vain. */
uint64_t guard_patience_ns(const struct patience *p);
void guard_spend(struct patience *p, uint64_t ns);

/* Work of this context that is not measured. */
struct guard_work {
	CUstream stream; /* streams_normal(); NULL: it is not known which */
	bool launch;	 /* a kernel or a graph, which may wait for another one */
};

/* The GPU gets it: a held range no longer counts one kernel. From any thread, without the lock. */
void guard_disturb(struct guard *g, const struct guard_work *work);

/* The same from the beginning of the call that gives it to its end. False: it is not let in, and
 * has not begun; insist: it begins anyway, unless the profiler waits for the GPU just now, and so
 * may all others until they are shut out again. A call whose beginning was not seen, because it was
 * made before the capture, may have given it at any time until now. */
bool guard_other_begins(struct guard *g, bool insist);
void guard_other_ends(struct guard *g, const struct guard_work *work);
void guard_stranger_ends(struct guard *g, const struct guard_work *work);

/* Does the range that is open count other work as well? */
bool guard_is_disturbed(const struct guard *g);

#endif
