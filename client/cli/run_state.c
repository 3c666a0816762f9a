/* SPDX-License-Identifier: Apache-2.0 */

/* The changes of a run's state that more than one file makes; run.c draws the states. */

#include "client/cli/run_internal.h"

#include "client/cli/say.h"
#include "proto/base/clock.h"

void run_refuse(struct run *run, int status)
{
	run->status = status;
	run->state = RUN_OVER;
}

void run_drain(struct run *run)
{
	run->state = RUN_DRAINING;
	run->silent_ticks = 0;
	if (!run->capture || gpuctr_capture_close(run->capture) != 0) {
		run->state = RUN_OVER;
	}
}

void run_programs_end(struct run *run)
{
	if (run->state == RUN_RUNNING) {
		run_drain(run);
	} else if (run->state == RUN_ALONE) {
		run->state = RUN_OVER;
	}
}

void run_end_capture(struct run *run)
{
	run->is_enough = true;
	if (run_is_on_demand(run)) {
		run_drain(run);
	} else if (run->capture) {
		gpuctr_capture_close(run->capture); /* on_end comes even if that fails */
	}
}

static void on_duration(uv_timer_t *timer)
{
	struct run *run = timer->data;

	if (run->state != RUN_RUNNING || run->is_enough) {
		return;
	}
	if (run->path && !run->progress.quiet) {
		say("--duration: %g s are over", (double)run->options->duration_ns / 1e9);
	}
	run_end_capture(run);
}

void run_begin(struct run *run)
{
	uint64_t duration_ns = run->options->duration_ns;

	if (run->begin_ns > 0) {
		return;
	}
	run->begin_ns = clock_now_ns();
	run->begun_ns = clock_wall_ns();
	run->progress.began_ns = run->begin_ns;
	if (duration_ns > 0) {
		uv_update_time(&run->loop);
		uv_timer_start(&run->duration, on_duration, (duration_ns + 999999) / 1000000, 0);
	}
}
