/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_PHASE_H
#define GPUCTR_AGENT_PHASE_H

/* Is the program in a phase that is measured? --capture-range, --stop-on-range-end, --schedule,
 * --step. The callers that see a phase begin or end report it here, from any thread. */

#include <stdatomic.h>
#include <stdbool.h>

#include "proto/wire/status.h"
#include "proto/wire/wire.h"

struct phase {
	bool by_profiler, by_range, by_step; /* what is waited for */
	bool steps_by_profiler;
	bool once; /* only the first range */
	struct wire_schedule schedule;
	atomic_uint open;	    /* ranges; of the profiler's calls 0 or 1 */
	atomic_bool over;	    /* the one range has ended */
	atomic_uint_fast64_t steps; /* begun */
	atomic_bool scheduled;	    /* the step that runs is measured */
	atomic_bool waited, was_on; /* a launch was left out; one was not */
};

void phase_init(struct phase *p, const struct wire_selection *selection);

/* At a launch: is it made in a phase that is measured? Two loads. */
bool phase_is_on(struct phase *p);

void phase_on_profiler_call(struct phase *p, bool starts);
void phase_on_range_begin(struct phase *p);
void phase_on_range_end(struct phase *p);
void phase_on_step(struct phase *p);

/* Is step i, from 0, measured? As torch.profiler.schedule() counts. */
bool phase_schedule_takes(const struct wire_schedule *s, uint64_t i);

/* Nothing will be measured any more. */
bool phase_is_finished(const struct phase *p);

/* Were there launches, and no phase? Then r says what did not come. */
bool phase_missed(const struct phase *p, struct refusal *r);

#endif
