/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_GUARD_H
#define GPUCTR_AGENT_GUARD_H

/* Keeps ranges from making a program wait for itself: tells when a range may be opened and closed.
 * It waits for that by asking the driver again and again, never by a call that blocks. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/agent/streams.h"

enum { GUARD_SUSPECTS_MAX = 64, GUARD_MARKS = 32 };

/* Of the process: functions and graphs that did not end by themselves. */
struct suspects {
	_Atomic(uintptr_t) v[GUARD_SUSPECTS_MAX];
	atomic_size_t n;
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
	uint64_t
		stalled_ns; /* of that, while a stream that had work stood still, as far as known */
};

/* Of a context, under the context's lock. */
struct guard {
	struct streams streams;
	atomic_bool several;	    /* launches went into more than one stream */
	_Atomic(CUstream) used;	    /* the last launch's */
	bool stalled;		    /* the last wait was in vain; the next one only looks */
	uint64_t stalled_ns;	    /* when a thread has waited last */
	CUevent marks[GUARD_MARKS]; /* in the stream of the batch's launches, in their order */
	unsigned n_marks, made_marks;
	CUstream last;		  /* the last measured launch's */
	CUevent probe;		  /* behind that launch, recorded by who looked after it */
	bool probed;		  /* it was, since */
	bool holds;		  /* a range was left open, because its kernel has not ended */
	bool crowded;		  /* several streams had work when the range was to be opened */
	struct guard_wait wait;	  /* not taken yet */
	struct guard_launch held; /* name is its own copy */
};

struct capture;
struct ranges;

void guard_init(struct guard *g);
void guard_deinit(struct guard *g);
/* Gives the driver its events back, while their context is there and none of its launches is
 * measured any more. Otherwise a program that is captured again and again collects them. */
void guard_give_back(struct guard *g, const struct profiler *p);

/* Has the GPU finished the last measured launch, and what its stream was given until this was first
 * asked? Does not wait; the same conditions as for streams_are_idle(). */
bool guard_is_past_last(struct capture *c, struct ranges *r);

bool guard_name_is_collective(const char *name);

/* All below: with the context's lock held and the context current. */

/* May a range be opened for this launch? */
bool guard_may_open(struct capture *c, struct ranges *r, const struct guard_launch *l);

/* After the launch: may the range around it be closed? launched: the call has given the GPU a
 * kernel. False: the range is held open, until guard_may_release() allows to close it. */
bool guard_may_close(struct capture *c, struct ranges *r, const struct guard_launch *l,
		     bool launched);
bool guard_may_release(struct capture *c, struct ranges *r);

/* After a range was closed: records an event behind some of the kernels. A wait for the end of the
 * batch sees by these events that the GPU makes progress. */
void guard_mark(struct capture *c, struct ranges *r, const struct guard_launch *l);

/* Is nothing under way? patient: waits for it. */
bool guard_is_quiet(struct capture *c, struct ranges *r, bool patient);

/* The same, and does nothing come either, with the gate shut? Then the profiler may be started,
 * stopped, configured or disabled, which waits for the GPU. True: whatever comes waits for
 * gate_unblock(), or for the watch to find that the call does not return. */
bool guard_may_block(struct capture *c, struct ranges *r, bool patient);

/* Waits until nothing is under way, whether launches are measured still or not, with the patience
 * of the process: for who has shut the gate. Not while a stream is captured. */
void guard_drain(struct capture *c, struct ranges *r);

/* What was waited since this was asked last. */
struct guard_wait guard_take_wait(struct guard *g);

/* --- any thread, without the lock --- */

/* Around waiting for the context's lock with work for a stream (NULL: it is not known which). True
 * if that stream has no other work; the wait then counts as a stall, and guard_end_stall() must
 * follow. */
bool guard_begin_stall(struct ranges *r, CUstream stream);
void guard_end_stall(struct ranges *r);

/* Waits for the lock as gate_lock() does, and notes whether that stalls the stream. */
bool guard_lock(struct capture *c, struct ranges *r, CUstream stream);

/* Work of this context that is not measured. */
struct guard_work {
	CUstream stream; /* streams_normal(); NULL: it is not known which */
	bool launch;	 /* a kernel or a graph, which may wait for another one */
};

/* The GPU gets it: a held range no longer counts one kernel. */
void guard_disturb(struct ranges *r, const struct guard_work *work);

/* The same at the end of the call that gives it; of one whose beginning was not seen, because it
 * was made before the capture: that may have given it at any time until now. */
void guard_other_ends(struct ranges *r, const struct guard_work *work);
void guard_untracked_ends(struct ranges *r, const struct guard_work *work);

#endif
