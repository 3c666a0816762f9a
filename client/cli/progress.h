/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <gpuctr/gpuctr.h>

#include "proto/base/buf.h"

/* What a waiting or measuring client prints on stderr: on a terminal twice a second, elsewhere
 * every five seconds and only while it waits. Nothing if quiet. The caller sets quiet, wanted,
 * duration_ns and samples, and zeroes the rest. */
struct progress {
	bool quiet;
	uint64_t wanted;      /* launches of each process that are measured; 0: all */
	uint64_t duration_ns; /* of the whole run; 0: no limit */
	uint64_t told_ns;     /* when the last line was shown */
	uint64_t began_ns;    /* when the timed part began; 0: it has not */
	uint64_t records;     /* number of records at told_ns */
	bool samples;	      /* records are samples of a GPU, and of no process */
	unsigned position;    /* in the queue, as last shown */
	bool measuring;	      /* the client no longer waits in the queue */
	bool told_ranked;     /* tell_ranked() was called */
};

/* Has the holder started this process, and does the holder therefore wait for us? If so, reports it
 * with the remedy. */
bool progress_refuse_own_holder(const struct gpuctr_queued *queued);
void progress_queued(struct progress *p, const struct gpuctr_queued *queued);
void progress_kernels(struct progress *p, uint64_t records, unsigned processes);
