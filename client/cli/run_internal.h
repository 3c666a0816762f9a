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
	RUN_OPENING,  /* no answer, or in the queue */
	RUN_RUNNING,  /* the program runs, the capture is open */
	RUN_ALONE,    /* the program runs, the capture is over */
	RUN_DRAINING, /* the program has ended, the capture delivers what it has */
	RUN_OVER,
};

struct run {
	const struct run_options *options;
	const char *path; /* the file of the program to start; NULL: others start programs, or have
			     started them */
	struct selected selected;
	unsigned n_begun;  /* how many of these have begun; others had ended before the lease was
			      granted */
	unsigned n_ended;  /* of those that have begun */
	char owner[64];	   /* the user who runs them, if it is another one; "" */
	unsigned n_ticks;  /* since they are measured */
	uint64_t begin_ns; /* when measuring began; 0: it has not */
	enum run_state state;
	int status; /* exit status */
	bool started;
	bool has_operators; /* of PyTorch, for --torch */
	bool is_enough;	    /* the capture ends before the program does */
	bool is_finishing;  /* the last values are calculated */
	bool is_given_up;   /* they are not */
	int drain_ticks;
	int silent_ticks; /* for how long the connection has brought nothing */

	uv_loop_t loop;
	uv_poll_t connection, signal_poll, until /* of those who are followed */;
	uv_timer_t timer;
	uv_timer_t duration; /* of measuring */
	uv_prepare_t prepare;
	int watched; /* events of the connection, 0: not watched */

	struct gpuctr *g;
	struct gpuctr_capture *capture;	 /* NULL: not open */
	struct sampling *sampling;	 /* NULL: values are counted */
	struct sampling *refused;	 /* what became ranges */
	struct run_options own;		 /* the options of that */
	struct strings usual_metrics;	 /* of these */
	struct strings visible;		 /* and its devices, where nobody named any */
	struct gpuctr_plan sampled_plan; /* of a timeline, with its metrics and its GPU */
	struct strings sampled_metrics;
	char chip[32];
	unsigned gpu_index;
	char why[512];		    /* they are others than were asked for; "" */
	sampled_on_pause *on_pause; /* while it is attributed: the loop does not run */
	struct child child;
	struct signals signals;
	struct progress progress;
	struct sinks sinks;
};

/* --- run_capture.c: the handlers of the capture */
extern const struct gpuctr_capture_handler run_handler;

/* The capture, or the permit that it needs, waits. */
void run_note_queued(struct run *run, const struct gpuctr_queued *queued);

/* Nothing more is recorded: the records of a sampled run get their values. */
void run_finish_sampling(struct run *run);

/* --- timeline.c */
static inline bool run_is_timeline(const struct run *run)
{
	return run->options->timeline.is_wanted;
}

void timeline_on_opened(void *user, const struct gpuctr_opened *opened);
/* The sampler has begun. */
void timeline_begin(struct run *run);
/* After the loop. */
void timeline_finish(struct run *run);

/* --- run_permit.c */
static inline bool run_is_permit(const struct run *run)
{
	return run->options->permit != GPUCTR_PERMIT_NONE;
}

void permit_opened(const struct run *run, const struct gpuctr_opened *opened);
void permit_program_end(const struct run *run);
/* While the command runs. */
void permit_revoked(const struct gpuctr_error *error);
/* After the command has ended. */
void permit_closed(const struct run *run, const struct gpuctr_end *end);

/* --- run_state.c */
/* The program is not started, and the run is over. */
void run_refuse(struct run *run, int status);
/* The program has ended, or enough was measured: asks for the last records. */
void run_drain(struct run *run);
/* What is measured has ended. */
void run_programs_end(struct run *run);
/* Ends the capture while programs run on. */
void run_end_capture(struct run *run);
/* Measuring begins, and with it --duration; later calls change nothing. */
void run_begin(struct run *run);
/* The capture, which starts no program, is there. Its --duration begins with run_begin(), or 2 s
 * later where nothing is measured until then. */
void run_begin_on_demand(struct run *run);

static inline bool run_is_following(const struct run *run)
{
	return run->options->until_fd >= 0;
}

/* Refused before anything was measured: what the daemon sends all the same has no place to go. */
static inline bool run_is_refused(const struct run *run)
{
	return run->state == RUN_OVER && !run->started;
}

static inline bool run_is_on_demand(const struct run *run)
{
	return !run->path && !run_is_following(run);
}

/* Of programs of others: */
int run_watch_followed(struct run *run);
void run_begin_followed(struct run *run, struct gpuctr_capture *c);
