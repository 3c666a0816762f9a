/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_STREAM_CAPTURES_H
#define GPUCTR_AGENT_STREAM_CAPTURES_H

/* The stream captures that are under way in the process, by which CUDA makes graphs. While there is
 * one nothing may be started or stopped, and no stream asked: it would be invalidated.
 *
 * Those that begin while we look on are counted before they begin. A late capture of ours may find
 * some that have told of themselves to nobody, in one stream or several that have joined: they are
 * known from the first launch into one of these on, by the number that CUDA gives each.
 * Thread-safe.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/agent/lock.h"
#include "client/agent/profiler.h"
#include "proto/base/clock.h"

enum { STREAM_CAPTURES_MAX = 64 }; /* that are known by number; more are only counted */

/* From its first launch on a late capture of ours starts nothing for so long: CUPTI's Start
 * invalidates stream captures, and one that is not met yet has time for a launch. */
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

/* CUDA's number of the one that the stream is part of; 0: of none, or of one that was invalidated,
 * whose number CUDA does not tell any more. */
uint64_t stream_captures_find(const struct profiler *p, CUstream stream, bool *ret_captures);

/* Around the call that begins one; id is what its stream is part of after a success, else 0. True:
 * it is the only one. counted: the call was seen from its beginning. */
bool stream_captures_begin(struct stream_captures *s);
void stream_captures_began(struct stream_captures *s, CUstream stream, uint64_t id, bool success,
			   bool counted);

/* Before a launch: comes back when that time is over, at once from then on. */
void stream_captures_observe(struct stream_captures *s);

/* Somebody has met this one; 0: one without a number. */
void stream_captures_meet(struct stream_captures *s, uint64_t id);

/* It has ended; id is what the stream was part of before, if that is known (seen). One that nobody
 * has met is not known. */
void stream_captures_ended(struct stream_captures *s, CUstream stream, uint64_t id, bool seen);

#endif
