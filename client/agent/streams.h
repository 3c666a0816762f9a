/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_STREAMS_H
#define GPUCTR_AGENT_STREAMS_H

/* The streams of one context, and whether they have work to do. Asking never waits for the GPU. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "client/agent/lock.h"
#include "client/agent/profiler.h"

enum { STREAMS_MAX = 1024 };

/* What the driver has told of a stream, with locks of its own held. */
struct stream_note {
	struct stream_note *next; /* told before */
	CUstream stream;
	bool ended;
};

struct streams {
	_Atomic(struct stream_note *) notes; /* that nobody has read yet */
	atomic_bool unnoted;		     /* out of memory: some are missing */
	struct lock lock;		     /* a leaf: nothing else is locked while it is held */
	CUstream *v;			     /* the legacy default stream is CU_STREAM_LEGACY */
	size_t n, room;
	size_t n_busy;	  /* the first ones, which were given work since they were seen idle */
	bool incomplete;  /* out of memory, or more than STREAMS_MAX */
	bool late;	  /* there may be streams that nobody has told of; until deinit */
	bool settled;	  /* the work that such streams had before the capture has ended */
	bool per_thread;  /* default streams of threads are in use: only their threads can ask */
	CUevent anything; /* of all work of the context; made when it is first needed */
	bool asked;	  /* it was recorded */
	/* Given work last, and not looked at since: giving it more changes nothing. NULL: none. */
	_Atomic(CUstream) touched;
	atomic_uint given;   /* work, counted */
	unsigned asked_at;   /* the count when it was recorded */
	atomic_bool unknown; /* work other than launches was given to any of them */
};

void streams_init(struct streams *s);
void streams_deinit(struct streams *s); /* the event was given back, or goes with its context */

/* Gives the driver its event back. */
void streams_give_back(struct streams *s, const struct profiler *p);

/* The handle that stands for a launch's stream; per_thread: NULL means the thread's own. */
CUstream streams_normal(CUstream stream, bool per_thread);

/* Given a launch; about to be ended: it is not asked from here on. */
void streams_add(struct streams *s, CUstream stream);
void streams_touch(struct streams *s, CUstream stream);
void streams_remove(struct streams *s, CUstream stream);

/* Made, or ended, by a thread that may hold what a stream's query waits for: takes no lock. */
void streams_note(struct streams *s, CUstream stream, bool ended);

/* Some stream, it is not known which, was given a copy or the like. From any thread. */
void streams_touch_any(struct streams *s);

/* Has the program another stream than this one? */
bool streams_has_others(struct streams *s, CUstream stream);

/* Is there no work under way in any of them, but perhaps in except (NULL: none excepted)? With the
 * context current, and while no stream of the process captures a graph: both queries would spoil
 * the capture. False as well when it cannot be told. */
bool streams_are_idle(struct streams *s, const struct profiler *p, CUcontext context,
		      CUstream except);

/* The same of this one alone; of the context, when the stream has been ended. */
bool streams_is_idle(struct streams *s, const struct profiler *p, CUcontext context,
		     CUstream stream);

/* How many had work when streams_are_idle() has looked last; SIZE_MAX: that cannot be told. */
size_t streams_count_busy(struct streams *s);

/* Had this one work then, or was it given some since? */
bool streams_has_work(struct streams *s, CUstream stream);

/* Records the event behind all that the stream was given; behind all of the context, when the
 * stream has been ended, cannot be named, or is the legacy default one. Nothing comes to wait that
 * did not. False: the driver refuses. As above. */
bool streams_record(struct streams *s, const struct profiler *p, CUcontext context, CUstream stream,
		    CUevent event);

#endif
