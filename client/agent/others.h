/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Whether the program, or a tool in it, uses CUPTI's activity records itself. CUPTI has one pair of
 * callbacks for them in a process, and asks nobody before it takes another one. */

#include <cupti_activity.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct activity;
struct profiler;

/* Zeroed at first. Of the thread that starts the activity, and then of the delivering one, but for
 * what is atomic, and for the numbers, which the lock of the records protects. */
struct others {
	bool registered;	/* our callbacks, once and for all */
	atomic_bool are_there;	/* others have registered theirs since */
	atomic_bool were_first; /* a buffer of others came: they lack what we get */
	atomic_bool expected;	/* a kernel was announced in this capture */
	uint64_t n_asked;	/* for buffers, in this capture */
	uint64_t n_heard;	/* buffers that have come back */
	uint64_t n_heard_before;
	unsigned silent; /* batches of late, without a buffer and with records that are missing */
};

/* Does nothing but the first time, so that others' later callbacks are not replaced. */
CUptiResult others_register(struct others *o, const struct profiler *p,
			    CUpti_BuffersCallbackRequestFunc wanted,
			    CUpti_BuffersCallbackCompleteFunc full);

enum { OTHERS_BATCHES = 2, OTHERS_FLUSHES = 5, OTHERS_PATIENCE_MS = 400 };

/* After a batch, or a flush that nobody waits for. missing: some records of
 * kernels have not come. patience: after so many of these the reason is sought. */
void activity_look_for_others(struct activity *v, bool missing, unsigned patience);

/* Before tracing is turned off: what others want must not be. Waits for so long for what is late.
 */
void activity_look_for_others_at_end(struct activity *v, unsigned patience_ms);
