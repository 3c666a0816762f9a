/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The samples of a run with --mode sample: a permit for the GPUs, and a gpuctr-sampler for each,
 * whose samples are recorded beside the run's own capture, a trace, and attributed when it ends.
 *
 *	sampling_begin() ─plan─► permit ─ready─► samplers begin ─on_begun─► the trace is opened
 *	      │                                        │                        │
 *	      └──────────── on_refused ◄───────────────┘         on_cut ◄───────┤
 *	                                                                sampling_end()
 */

#include <uv.h>

#include "client/cli/child.h"
#include "client/cli/run_options.h"
#include "client/cli/sinks.h"
#include "client/cli/unseen.h"

enum { SAMPLING_GPUS_MAX = 16 };

struct sampling;

struct sampling_user {
	/* Of "capture --timeline" alone, which has no trace: the GPU is known. */
	void (*on_opened)(void *user, const struct gpuctr_opened *opened);
	void (*on_begun)(void *user);
	/* Nothing of it runs, and nothing is leased. why: ranges may do, where the options say so;
	 * valid during the call. NULL: it was told, and nothing else will do. */
	void (*on_refused)(void *user, const char *why);
	void (*on_cut)(void *user); /* told why; what was sampled is there */
	void (*on_queued)(void *user, const struct gpuctr_queued *queued);
};

/* Asks for the plan and the permit. g, loop, options, selected and sinks outlive it. Once the trace
 * is ready the sinks get each sample of its GPUs, and when nobody knows what ran there. Before it
 * returns it may be refused. NULL: out of memory, which was told. */
struct sampling *sampling_begin(struct gpuctr *g, uv_loop_t *loop,
				const struct run_options *options, const struct selected *selected,
				const sigset_t *mask, struct sinks *sinks,
				const struct sampling_user *user, void *data);
/* Ends the samplers. Handles of the loop are closed with it. Takes NULL, returns NULL. */
struct sampling *sampling_free(struct sampling *s);

/* The trace was opened with this plan, which lives until its on_end. False: told why. */
bool sampling_join(struct sampling *s, const struct gpuctr_plan *plan);

/* The trace is ready. */
void sampling_play(struct sampling *s);
void sampling_record(struct sampling *s, const struct gpuctr_record *record);
void sampling_copy(struct sampling *s, const struct gpuctr_copy *copy);
/* Hears of processes and of what was seen. */
struct unseen *sampling_unseen(struct sampling *s);
void sampling_tick(struct sampling *s);

/* In the trace's on_end: ends the samplers, waits for what they have sampled, and gives the lease
 * back. */
void sampling_end(struct sampling *s);
/* After the attribution, or without one: tells the sinks how many kernels have no value, and how
 * long a sample is, of the longest where there are several. Warns of a capture that is worth
 * nothing. */
void sampling_describe_end(struct sampling *s);

/* What ended it before it was asked to: its values are those of a part of the run. NULL: nothing
 * did. Valid as long as s. */
const struct gpuctr_error *sampling_error(const struct sampling *s);

/* Has each sampler said its last word? Else samples may be missing at the end. */
bool sampling_is_whole(const struct sampling *s);
/* "a,b": the metrics, once they are known; valid as long as s. */
const char *sampling_metrics(const struct sampling *s);
/* Appends how samples are taken, "each 10.0 us". */
void sampling_describe(const struct sampling *s, struct buf *b);
