/* SPDX-License-Identifier: Apache-2.0 */

/* The changes of a run's state that more than one file makes; run.c draws the states. */

#include "client/cli/run_internal.h"

#include <string.h>
#include <unistd.h>

#include "client/cli/say.h"
#include "proto/base/clock.h"

/* A process needs about 0.3 s to open CUPTI when its capture begins, and 0.3 s more to get the
 * counters at its first launch. --duration waits no longer than this for the first launch. */
enum { FIRST_PATIENCE_MS = 2000 };

void run_refuse(struct run *run, int status)
{
	run->status = status;
	run->state = RUN_OVER;
}

void run_drain(struct run *run)
{
	/* A Ctrl-C that has ended the programs may still wait to be read. It is dropped, so that it
	 * does not give up the last records. (The kernel signals a whole process group before
	 * anybody can reap a member.) */
	signals_drop(&run->signals);
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
	struct run *run = timer->loop->data;

	if (run->state != RUN_RUNNING || run->is_enough) {
		return;
	}
	if (run->path && !run->progress.quiet) {
		say("--duration: %g s are over", (double)run->options->duration_ns / 1e9);
	}
	run_end_capture(run);
}

static void start_duration(struct run *run, uint64_t patience_ms)
{
	uint64_t duration_ns = run->options->duration_ns;

	if (duration_ns > 0) {
		uv_update_time(&run->loop);
		uv_timer_start(&run->duration, on_duration,
			       (duration_ns + 999999) / 1000000 + patience_ms, 0);
	}
}

void run_begin(struct run *run)
{
	if (run->begin_ns == 0) {
		run->begin_ns = clock_now_ns();
		run->progress.began_ns = run->begin_ns;
		start_duration(run, 0);
	}
}

void run_begin_on_demand(struct run *run)
{
	run->started = true;
	run->status = 0;
	run->state = RUN_RUNNING;
	start_duration(run, FIRST_PATIENCE_MS);
}

/* --- programs of others ----------------------------------------------------------------------- */

/* "follow" writes environment variables to --ready-fd, and waits for the end of --until-fd. The
 * variables fit into an empty pipe, so that write() does not block. */
static bool hand_out(int fd, const char *const *variables)
{
	CLEAN_BUF struct buf b = { 0 };

	for (; *variables; variables++) {
		buf_add(&b, *variables, strlen(*variables) + 1);
	}
	return !b.failed && write(fd, b.data, b.n) == (ssize_t)b.n;
}

static void on_until(uv_poll_t *handle, int status, int events)
{
	struct run *run = handle->loop->data;
	char ignored[64];

	if (status == 0 && read(run->options->until_fd, ignored, sizeof(ignored)) > 0) {
		return;
	}
	uv_poll_stop(handle);
	if (run->state == RUN_OPENING) {
		run_refuse(run,
			   EXIT_REFUSED); /* the programs have ended before the lease was granted */
	}
	run_programs_end(run);
}

int run_watch_followed(struct run *run)
{
	int r = uv_poll_init(&run->loop, &run->until, run->options->until_fd);

	return r ? r : uv_poll_start(&run->until, UV_READABLE, on_until);
}

void run_begin_followed(struct run *run, struct gpuctr_capture *c)
{
	const char *const *variables = gpuctr_capture_environment(c, run->options->agent);

	if (!variables) {
		say_gpuctr_error(gpuctr_last_error(run->g));
		run_refuse(run, EXIT_REFUSED);
		return;
	}
	if (!hand_out(run->options->ready_fd, variables)) {
		say("nobody waits for this capture any more: nothing is measured");
		run_refuse(run, EXIT_REFUSED);
		return;
	}
	close(run->options->ready_fd);
	run->started = true;
	run->status = 0;
	run->state = RUN_RUNNING;
}
