/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The stream captures, by which CUDA makes graphs, that are under way in the process. While there
 * is one, the profiler is not started or stopped and no stream is queried, which would invalidate
 * it.
 *
 * A stream capture whose beginning CUPTI reports is counted before it begins. A late capture of
 * ours may meet earlier ones, in one stream or in several that have joined. Each becomes known, by
 * CUDA's id of it, at the first launch into one of its streams. A stream capture also ends, without
 * a call that ends it, when its stream or context is destroyed. Thread-safe. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/agent/lock.h"
#include "client/agent/profiler.h"
#include "proto/base/clock.h"

/* For this time after its first launch a late capture of ours does not call CUPTI's Start, which
 * invalidates stream captures. A launch into an unknown stream capture meanwhile makes it known. */
#define STREAM_CAPTURES_OBSERVE_NS (CLOCK_NS_PER_S / 20)

struct stream_capture {
	uint64_t id; /* CUDA's id; 0: unknown */
	CUcontext context;
	CUstream stream; /* stream in which it began; NULL: unknown */
	CUstream met;	 /* if stream is NULL: the only stream in which a launch met it; NULL: there
			    are several */
	uint32_t number; /* our own number of the stream capture, from 1 */
};

struct stream_captures {
	atomic_uint n; /* number of stream captures under way or about to begin */
	struct lock lock;
	struct stream_capture *known;
	size_t n_known, max_known;
	uint32_t last_number;
	unsigned unnamed; /* stream captures missing in known for lack of memory */
	atomic_bool has_observed;
	_Atomic uint64_t observe_by_ns; /* time of clock_now_ns(); 0: there was no launch yet */
};

void stream_captures_init(struct stream_captures *s);
void stream_captures_deinit(struct stream_captures *s);

static inline bool stream_captures_any(const struct stream_captures *s)
{
	return atomic_load(&s->n) > 0;
}

/* CUDA's id of the stream capture that the stream is part of; 0: none, or an invalidated one, whose
 * id CUDA does not return. */
uint64_t stream_captures_find(const struct profiler *p, CUstream stream, bool *ret_is_capturing);

/* To be called before and after the call that begins a stream capture. The first returns true if no
 * other is under way. of: its context and stream, and after a success its id. counted:
 * stream_captures_begin() was called for it. */
bool stream_captures_begin(struct stream_captures *s);
void stream_captures_began(struct stream_captures *s, const struct stream_capture *of, bool success,
			   bool counted);

/* To be called before a launch: waits until STREAM_CAPTURES_OBSERVE_NS are over. */
void stream_captures_observe(struct stream_captures *s);

/* A thread has found the stream of->stream in the stream capture of->id; 0: unknown id. */
void stream_captures_meet(struct stream_captures *s, const struct stream_capture *of);

/* A stream capture has ended. seen: the callback before the ending call was seen, and id is what
 * stream_captures_find() returned there. Does nothing for a stream capture that was never counted.
 */
void stream_captures_ended(struct stream_captures *s, CUstream stream, uint64_t id, bool seen);

/* The stream, part of the stream capture id (0: unknown), is about to be destroyed. Returns our
 * number of the stream capture that ends with it, to be given to stream_captures_destroyed()
 * afterwards; 0: none began in this stream. */
uint32_t stream_captures_find_in(struct stream_captures *s, CUstream stream, uint64_t id);
void stream_captures_destroyed(struct stream_captures *s, uint32_t number);

/* The context ends, and with it its stream captures. */
void stream_captures_end_context(struct stream_captures *s, CUcontext context);
