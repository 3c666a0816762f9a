/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <uv.h>

#include "client/cli/child.h"
#include "client/cli/progress.h"
#include "client/cli/run_options.h"
#include "client/cli/sampling.h"
#include "client/cli/signals.h"
#include "client/cli/sinks.h"

enum run_state {
	RUN_OPENING,  /* the capture waits for the daemon's answer, or in the queue */
	RUN_RUNNING,  /* the program runs, the capture is open */
	RUN_ALONE,    /* the program runs, the capture is over */
	RUN_DRAINING, /* the program has ended, the capture delivers what it has */
	RUN_OVER,
};

struct run {
	const struct run_options *options;
	const char *path; /* the file of the program to start; NULL: others start programs, or have
			     done so */
	struct selected selected;
	unsigned n_begun;  /* number of selected processes that have begun; others had ended before
			      the lease was granted */
	unsigned n_ended;  /* number of processes that have begun and ended */
	char owner[64];	   /* the user of the processes, if another one; "": our own */
	unsigned n_ticks;  /* ticks of the timer while processes are measured */
	uint64_t begin_ns; /* when measuring began; 0: not yet */
	enum run_state state;
	int status; /* exit status */
	bool started;
	bool has_operators; /* a record is inside an operator of PyTorch; for --torch */
	bool is_enough;	    /* the capture ends before the program does */
	bool is_finishing;  /* the last values are calculated */
	bool is_given_up;   /* the user interrupted that calculation */
	int drain_ticks;
	int silent_ticks; /* ticks since the connection last brought data */

	uv_loop_t loop;
	uv_poll_t connection, signal_poll, until /* --until-fd of "follow" */;
	uv_timer_t timer;
	uv_timer_t duration; /* ends the measuring, for --duration */
	uv_prepare_t prepare;
	int watched; /* polled events of the connection; 0: none yet; -1: it is over */

	struct gpuctr *g;
	struct gpuctr_capture *capture; /* NULL: not open */
	struct sampling *sampling;	/* NULL: nothing is sampled */
	struct sampling *refused;	/* sampling that was refused; ranges are measured instead */
	struct run_options own; /* options changed by the fallback to ranges, or by `visible` */
	struct strings usual_metrics; /* default metrics of the fallback */
	struct strings visible;	      /* devices of $CUDA_VISIBLE_DEVICES, if the user named none */
	struct gpuctr_plan sampled_plan; /* of a timeline, with its metrics and its GPU */
	struct strings sampled_metrics;
	char chip[32];
	unsigned gpu_index;
	char why[512];		    /* why ranges replace samples; "": they do not */
	sampled_on_pause *on_pause; /* called while values are calculated, outside the loop */
	struct child child;
	struct signals signals;
	struct progress progress;
	struct sinks sinks;
};

/* --- run_capture.c: the handlers of the capture */
extern const struct gpuctr_capture_handler run_handler;

/* Called when the capture, or the permit that it needs, waits in the queue. */
void run_note_queued(struct run *run, const struct gpuctr_queued *queued);

/* Called when no more records come: calculates the values of a sampled run's records. */
void run_finish_sampling(struct run *run);

/* --- timeline.c */
static inline bool run_is_timeline(const struct run *run)
{
	return run->options->timeline.is_wanted;
}

void timeline_on_opened(void *user, const struct gpuctr_opened *opened);
/* Called when the sampler has begun. */
void timeline_begin(struct run *run);
/* Called after the loop. */
void timeline_finish(struct run *run);

/* --- run_permit.c */
static inline bool run_is_permit(const struct run *run)
{
	return run->options->permit != GPUCTR_PERMIT_NONE;
}

void permit_opened(const struct run *run, const struct gpuctr_opened *opened);
void permit_program_end(const struct run *run);
/* The permit ends while the command runs. */
void permit_revoked(const struct gpuctr_error *error);
/* The permit ends after the command. */
void permit_closed(const struct run *run, const struct gpuctr_end *end);

/* --- run_state.c */
/* Ends the run before its program is started. */
void run_refuse(struct run *run, int status);
/* The program has ended, or enough was measured: asks for the last records. */
void run_drain(struct run *run);
/* Called when the last program that is measured has ended. */
void run_programs_end(struct run *run);
/* Ends the capture while programs run on. */
void run_end_capture(struct run *run);
/* Measuring begins, and with it --duration; later calls change nothing. */
void run_begin(struct run *run);
/* Called when the lease of a capture of running processes is granted. Its --duration begins with
 * run_begin(), or after 2 s if nothing is measured until then. */
void run_begin_on_demand(struct run *run);

static inline bool run_is_following(const struct run *run)
{
	return run->options->until_fd >= 0;
}

/* Was the run refused before it measured anything? Then handlers ignore what the daemon sends. */
static inline bool run_is_refused(const struct run *run)
{
	return run->state == RUN_OVER && !run->started;
}

static inline bool run_is_on_demand(const struct run *run)
{
	return !run->path && !run_is_following(run);
}

/* For "follow", whose programs another program starts. */
int run_watch_followed(struct run *run);
void run_begin_followed(struct run *run, struct gpuctr_capture *c);
