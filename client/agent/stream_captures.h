/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The stream captures that are under way in the process, by which CUDA makes graphs. While there is
 * one nothing may be started or stopped, and no stream asked: it would be invalidated.
 *
 * Stream captures that begin while we observe are counted before they begin. A late capture of ours
 * may find some that no callback has reported, in one stream or in several that have joined: these
 * become known at the first launch into one of these streams, by CUDA's number of the stream
 * capture. One whose stream or context is destroyed ends without a call that ends it. Thread-safe.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/agent/lock.h"
#include "client/agent/profiler.h"
#include "proto/base/clock.h"

/* A late capture of ours starts nothing for so long after its first launch: CUPTI's Start
 * invalidates stream captures, and those that are not known yet have time for a launch, which makes
 * them known. */
#define STREAM_CAPTURES_OBSERVE_NS (CLOCK_NS_PER_S / 20)

struct stream_capture {
	uint64_t id; /* CUDA's; 0: not known */
	CUcontext context;
	CUstream stream; /* that it began in; NULL: not known */
	CUstream met;	 /* then the one it was met in; NULL: there are several */
	uint32_t number; /* ours, from 1 */
};

struct stream_captures {
	atomic_uint n; /* with those that are about to begin */
	struct lock lock;
	struct stream_capture *known;
	size_t n_known, max_known;
	uint32_t last_number;
	unsigned unnamed; /* that there was no memory for */
	atomic_bool has_observed;
	_Atomic uint64_t observe_by_ns; /* clock_now_ns(); 0: nobody has begun to */
};

void stream_captures_init(struct stream_captures *s);
void stream_captures_deinit(struct stream_captures *s);

static inline bool stream_captures_any(const struct stream_captures *s)
{
	return atomic_load(&s->n) > 0;
}

/* CUDA's number of the stream capture that the stream is part of; 0: it is part of none, or of an
 * invalidated one, whose number CUDA does not tell. */
uint64_t stream_captures_find(const struct profiler *p, CUstream stream, bool *ret_is_capturing);

/* Before and after the call that begins a stream capture. True: it is the only one. of: its
 * context and stream, and after a success its id. counted: stream_captures_begin() was called for
 * it. */
bool stream_captures_begin(struct stream_captures *s);
void stream_captures_began(struct stream_captures *s, const struct stream_capture *of, bool success,
			   bool counted);

/* Before a launch: waits until that time is over; afterwards returns at once. */
void stream_captures_observe(struct stream_captures *s);

/* A thread has found this stream capture in this stream; id 0: one without a number. */
void stream_captures_meet(struct stream_captures *s, const struct stream_capture *of);

/* A stream capture has ended. seen: its end was seen from the call's beginning, and id is the
 * number that the stream had then. A stream capture that was never counted changes nothing. */
void stream_captures_ended(struct stream_captures *s, CUstream stream, uint64_t id, bool seen);

/* The stream, which has this number of CUDA's or 0, is about to be destroyed: returns our number of
 * the stream capture that ends with it, for the function that is called when it has been; 0: none
 * does, because none began in it. */
uint32_t stream_captures_find_in(struct stream_captures *s, CUstream stream, uint64_t id);
void stream_captures_destroyed(struct stream_captures *s, uint32_t number);

/* The context ends, and with it its stream captures. */
void stream_captures_end_context(struct stream_captures *s, CUcontext context);
