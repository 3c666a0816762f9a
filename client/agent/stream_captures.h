/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The stream captures that are under way in the process, by which CUDA makes graphs. While there is
 * one nothing may be started or stopped, and no stream asked: it would be invalidated.
 *
 * Stream captures that begin while we observe are counted before they begin. A late capture of ours
 * may find some that no callback has reported, in one stream or in several that have joined: these
 * become known at the first launch into one of these streams, by CUDA's number of the stream
 * capture. Thread-safe. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/agent/lock.h"
#include "client/agent/profiler.h"
#include "proto/base/clock.h"

enum { STREAM_CAPTURES_MAX = 64 }; /* that are known by number; more are only counted */

/* A late capture of ours starts nothing for so long after its first launch: CUPTI's Start
 * invalidates stream captures, and those that are not known yet have time for a launch, which makes
 * them known. */
#define STREAM_CAPTURES_OBSERVE_NS (CLOCK_NS_PER_S / 20)

struct stream_captures {
	atomic_uint n; /* with those that are about to begin */
	struct lock lock;
	struct {
		uint64_t id;
		CUstream stream; /* that it began in; NULL: not known */
	} known[STREAM_CAPTURES_MAX];
	size_t n_known;
	unsigned unnamed;
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

/* Before and after the call that begins a stream capture. True: it is the only one. id: its number
 * after a success, else 0. counted: stream_captures_begin() was called for it. */
bool stream_captures_begin(struct stream_captures *s);
void stream_captures_began(struct stream_captures *s, CUstream stream, uint64_t id, bool success,
			   bool counted);

/* Before a launch: waits until that time is over; afterwards returns at once. */
void stream_captures_observe(struct stream_captures *s);

/* A thread has found this stream capture; 0: one without a number. */
void stream_captures_meet(struct stream_captures *s, uint64_t id);

/* A stream capture has ended. seen: its end was seen from the call's beginning, and id is the
 * number that the stream had then. A stream capture that was never counted changes nothing. */
void stream_captures_ended(struct stream_captures *s, CUstream stream, uint64_t id, bool seen);
