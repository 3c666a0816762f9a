/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <gpuctr/gpuctr.h>

#include "proto/base/buf.h"

/* What a waiting or measuring client prints on stderr: on a terminal twice a second, elsewhere
 * every five seconds and only while it waits. Nothing if quiet. Zero-initialised, but for quiet and
 * what is known of the end. */
struct progress {
	bool quiet;
	uint64_t wanted;      /* launches of each process that are measured; 0: all */
	uint64_t duration_ns; /* of the whole; 0: until it ends */
	uint64_t told_ns;     /* when the last line was shown */
	uint64_t began_ns;    /* when the timed part began; 0: it has not */
	uint64_t records;     /* at told_ns */
	bool samples;	      /* records are samples of a GPU, and of no process */
	unsigned position;    /* in the queue, as last told */
	bool measuring;	      /* nobody waits any more */
	bool told_ranked;     /* that the holder is another rank */
};

/* Reports with the remedy if the holder waits for the calling process, because it started that
 * process. Returns whether it does. */
bool progress_refuse_own_holder(const struct gpuctr_queued *queued);
void progress_queued(struct progress *p, const struct gpuctr_queued *queued);
void progress_kernels(struct progress *p, uint64_t records, unsigned processes);
