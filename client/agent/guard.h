/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The guard prevents deadlocks: it decides when a range may be opened and closed, so that the
 * program never waits for itself. The guard polls the driver and never makes a call that blocks. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/agent/streams.h"

enum { GUARD_SUSPECTS_MAX = 64, GUARD_MARKS = 32 };

/* The functions and graphs of the process whose kernels once did not end by themselves. */
struct suspects {
	_Atomic(uintptr_t) v[GUARD_SUSPECTS_MAX];
	atomic_size_t n;
};

/* A launch as the guard sees it. */
struct guard_launch {
	CUstream stream;  /* streams_normal() */
	uintptr_t work;	  /* handle of the launch's function or graph */
	const char *name; /* borrowed for the launch */
	bool collective;  /* the kernel's name says that it waits for kernels on other GPUs */
	uint8_t *proofs;  /* how often such a kernel has ended by itself; counted per thread */
	uint64_t stream_number; /* the stream's number in records */
};

/* How long a thread waited for one range, and for turns before it. */
struct guard_wait {
	uint64_t waited_ns;  /* time that the measuring thread waited */
	uint64_t stalled_ns; /* part of that time in which a stream with pending work was idle, as
				far as known */
};

/* The guard of a context, protected by the context's lock. */
struct guard {
	struct streams streams;
	atomic_bool several;	    /* launches went into more than one stream */
	_Atomic(CUstream) used;	    /* stream of the last launch */
	bool stalled;		    /* the last wait timed out; the next one only polls once */
	uint64_t stalled_ns;	    /* when a thread last waited */
	CUevent marks[GUARD_MARKS]; /* events in the stream of the batch's launches, in order */
	unsigned n_marks, made_marks;
	CUstream last; /* stream of the last measured launch */
	CUevent probe; /* event after that launch, recorded by the thread that checks for its end */
	bool probed;   /* the event was recorded */
	bool holds;    /* a range was left open, because its kernel has not ended */
	bool crowded;  /* several streams had work when the range was to be opened */
	struct guard_wait wait;	  /* the wait that guard_take_wait() has not returned yet */
	struct guard_launch held; /* the launch whose range is held open; name is a copy */
};

struct capture;
struct ranges;

void guard_init(struct guard *g);
void guard_deinit(struct guard *g);
/* Destroys the events, while their context exists and no launch in it is measured any more.
 * Otherwise each capture of a program would leave events behind. */
void guard_give_back(struct guard *g, const struct profiler *p);

/* Has the GPU finished the last measured launch, and the work in its stream before the first call
 * of this function? Does not wait; has the same preconditions as streams_are_idle(). */
bool guard_is_past_last(struct capture *c, struct ranges *r);

bool guard_name_is_collective(const char *name);

/* All below: with the context's lock held and the context current. */

/* May a range be opened for this launch? */
bool guard_may_open(struct capture *c, struct ranges *r, const struct guard_launch *l);

/* To be called after the launch: may the range be closed? launched: the call has given the GPU a
 * kernel. False: the range stays open until guard_may_release() returns true. */
bool guard_may_close(struct capture *c, struct ranges *r, const struct guard_launch *l,
		     bool launched);
bool guard_may_release(struct capture *c, struct ranges *r);

/* After a range was closed: records an event behind some of the kernels. A wait for the end of the
 * batch sees by these events that the GPU makes progress. */
void guard_mark(struct capture *c, struct ranges *r, const struct guard_launch *l);

/* Is the context idle? patient: waits for that. */
bool guard_is_quiet(struct capture *c, struct ranges *r, bool patient);

/* The same with the gate shut, so that no work can come. Then the profiler may be started, stopped,
 * configured or disabled, which waits for the GPU. True: other work waits until gate_unblock(), or
 * until the watch finds that the call does not return. */
bool guard_may_block(struct capture *c, struct ranges *r, bool patient);

/* Waits until the context is idle, no longer than the patience of the process allows. The caller
 * has shut the gate. Works in every state of the capture, but not during a stream capture. */
void guard_drain(struct capture *c, struct ranges *r);

/* Returns the time waited since the last call of this function. */
struct guard_wait guard_take_wait(struct guard *g);

/* --- any thread, without the lock --- */

/* To be called before a thread waits for the context's lock with work for a stream (NULL: not known
 * which). True if that stream is idle; the wait then counts as a stall, and guard_end_stall() must
 * follow. */
bool guard_begin_stall(struct ranges *r, CUstream stream);
void guard_end_stall(struct ranges *r);

/* Takes the lock as gate_lock() does, and notes if the wait stalls the stream. */
bool guard_lock(struct capture *c, struct ranges *r, CUstream stream);

/* Work in this context that is not measured. */
struct guard_work {
	CUstream stream; /* streams_normal(); NULL: it is not known which */
	bool launch;	 /* a kernel or a graph, which may wait for another one */
};

/* The GPU gets other work: a range that is held open no longer counts one kernel only. */
void guard_disturb(struct ranges *r, const struct guard_work *work);

/* The same at the end of the call that gives the work. The second function is for a call whose
 * beginning was not seen, because it was before the capture: the call may have given the work at
 * any time until now. */
void guard_other_ends(struct ranges *r, const struct guard_work *work);
void guard_untracked_ends(struct ranges *r, const struct guard_work *work);
