/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Is the program in a phase that is measured (--within, --capture-range-end, --schedule, --step)?
 * Callers on any thread report here when a phase begins or ends. */

#include <stdatomic.h>
#include <stdbool.h>

#include "proto/wire/status.h"
#include "proto/wire/wire.h"

struct phase {
	bool by_profiler, by_range, by_step; /* which events begin phases */
	bool steps_by_profiler, steps_recur; /* what begins steps; if neither, NVTX */
	bool once;			     /* only the first range is measured */
	struct wire_schedule schedule;
	atomic_uint open;	    /* open ranges; 0 or 1 for cudaProfilerStart() and Stop() */
	atomic_bool over;	    /* nothing more will be measured */
	atomic_bool stepless;	    /* no steps were found, so that all launches are measured */
	atomic_uint_fast64_t steps; /* number of steps that have begun */
	atomic_bool scheduled;	    /* the current step is measured */
	atomic_bool waited,
		was_on; /* some launch was outside a phase; some launch was inside one */
};

void phase_init(struct phase *p, const struct wire_selection *selection);

/* Are steps found by launches that recur? */
bool phase_steps_recur(const struct wire_selection *selection);

/* Is a launch made now in a phase that is measured? Costs two loads. */
bool phase_is_on(struct phase *p);

void phase_on_profiler_call(struct phase *p, bool starts);
void phase_on_range_begin(struct phase *p);
void phase_on_range_end(struct phase *p);
void phase_on_step(struct phase *p);

/* If steps are found by launches that recur: no step was found, so every launch is measured; or
 * steps no longer recur, so measuring is over. */
void phase_without_steps(struct phase *p);
void phase_lost_steps(struct phase *p);

/* Is step i, counted from 0 as by torch.profiler.schedule(), measured? */
bool phase_schedule_takes(const struct wire_schedule *s, uint64_t i);

/* True if no further launch will be measured. */
bool phase_is_finished(const struct phase *p);

/* True: there were launches, but none in a phase. r says which event did not occur. */
bool phase_missed(const struct phase *p, struct refusal *r);
