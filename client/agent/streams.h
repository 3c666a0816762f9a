/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The streams of one context, and which of them are busy. Queries never wait for the GPU. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "client/agent/lock.h"
#include "client/agent/profiler.h"

enum { STREAMS_MAX = 1024 };

/* A stream's creation or end. The driver reports it while the driver holds locks of its own. */
struct stream_note {
	struct stream_note *next; /* the note before this one */
	CUstream stream;
	bool ended;
};

struct streams {
	_Atomic(struct stream_note *) notes; /* notes that were not processed yet */
	atomic_bool unnoted;		     /* some notes are missing, because memory ran out */
	struct lock lock;		     /* held across cuStreamQuery(): see lock.h */
	CUstream *v;			     /* the legacy default stream is CU_STREAM_LEGACY */
	size_t n, room;
	size_t n_busy; /* the first n_busy of v may be busy: they got work since a query last found
			  them idle */
	bool incomplete;  /* streams are missing in v: out of memory, or more than STREAMS_MAX */
	bool late;	  /* there may be streams that the driver never reported; stays set */
	bool settled;	  /* these streams have finished their earlier work */
	bool per_thread;  /* per-thread default streams are in use, which only their threads can
			     query */
	CUevent anything; /* event after all work of the context; created when first needed */
	bool asked;	  /* anything was recorded */
	/* The last stream that got work, if not queried since: more work for it changes nothing.
	 * NULL: none. */
	_Atomic(CUstream) touched;
	atomic_uint given;   /* how often work was given */
	unsigned asked_at;   /* value of given when anything was recorded */
	atomic_bool unknown; /* some stream got work other than launches */
};

void streams_init(struct streams *s);
void streams_deinit(
	struct streams *s); /* needs streams_give_back() before, unless the context has ended */

/* Destroys the event. */
void streams_give_back(struct streams *s, const struct profiler *p);

/* The handle that identifies a launch's stream; per_thread: NULL means the per-thread default
 * stream. */
CUstream streams_normal(CUstream stream, bool per_thread);

/* The stream is known from now on; it got work; it is about to be destroyed and is not queried any
 * more. */
void streams_add(struct streams *s, CUstream stream);
void streams_touch(struct streams *s, CUstream stream);
void streams_remove(struct streams *s, CUstream stream);

/* The stream was created or destroyed. Takes no lock, because the calling thread may hold a lock of
 * the driver's that a query waits for. */
void streams_note(struct streams *s, CUstream stream, bool ended);

/* Some unknown stream got a copy or other work. Any thread may call this. */
void streams_touch_any(struct streams *s);

/* Does the context have a stream other than this one? */
bool streams_has_others(struct streams *s, CUstream stream);

/* Are all streams idle, except perhaps `except` (NULL: no exception)? The context must be current,
 * and no stream of the process may be in a stream capture, which the queries would invalidate.
 * False also if the answer is unknown. */
bool streams_are_idle(struct streams *s, const struct profiler *p, CUcontext context,
		      CUstream except);

/* As streams_are_idle(), for this stream only; for the whole context if the stream was destroyed.
 */
bool streams_is_idle(struct streams *s, const struct profiler *p, CUcontext context,
		     CUstream stream);

/* The number of busy streams at the last streams_are_idle(); SIZE_MAX: not known. */
size_t streams_count_busy(struct streams *s);

/* Records the event behind all work of the stream; behind all work of the context if the stream was
 * destroyed, has no usable handle, or is the legacy default stream. Makes no stream wait for
 * another. False: the driver refuses. Same preconditions as streams_are_idle(). */
bool streams_record(struct streams *s, const struct profiler *p, CUcontext context, CUstream stream,
		    CUevent event);
