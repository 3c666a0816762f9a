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
	/* The GPU is known. Called for "capture --timeline" only, which has no trace. */
	void (*on_opened)(void *user, const struct gpuctr_opened *opened);
	void (*on_begun)(void *user);
	/* Refused: no sampler runs, and no GPU is leased. why: the reason to measure ranges
	 * instead, valid during the call. NULL: the reason was reported, and the run has to end. */
	void (*on_refused)(void *user, const char *why);
	void (*on_cut)(void *user); /* ended early, which was reported; keeps samples */
	void (*on_queued)(void *user, const struct gpuctr_queued *queued);
};

/* Asks for the plan and the permit. g, loop, options, selected, mask and sinks outlive the result.
 * Once the trace is ready, the sinks get each sample of its GPUs, and the times in which nobody
 * knows what ran there. May call on_refused() before it returns. NULL: an error was reported. */
struct sampling *sampling_begin(struct gpuctr *g, uv_loop_t *loop,
				const struct run_options *options, const struct selected *selected,
				const sigset_t *mask, struct sinks *sinks,
				const struct sampling_user *user, void *data);
/* Ends the samplers; the handles of the loop were closed before. Takes NULL, returns NULL. */
struct sampling *sampling_free(struct sampling *s);

/* The trace was opened with this plan. False: the plan does not fit, which was reported. */
bool sampling_join(struct sampling *s, const struct gpuctr_plan *plan);

/* The trace is ready. */
void sampling_play(struct sampling *s);
void sampling_record(struct sampling *s, const struct gpuctr_record *record);
void sampling_copy(struct sampling *s, const struct gpuctr_copy *copy);
/* To be told of processes and of their records. */
struct unseen *sampling_unseen(struct sampling *s);
void sampling_tick(struct sampling *s);

/* Call it in the trace's on_end: ends the samplers, reads their last samples, and gives the lease
 * back. */
void sampling_end(struct sampling *s);
/* Call it after the attribution, if there is one: gives the sinks the number of kernels without a
 * value and the longest interval of samples. Warns if no kernel has a value. */
void sampling_describe_end(struct sampling *s);

/* The error that ended sampling early, so that values cover a part of the run. NULL: none. Valid as
 * long as s. */
const struct gpuctr_error *sampling_error(const struct sampling *s);

/* Has each sampler sent the end of its stream? If not, samples may be missing at the end. */
bool sampling_is_whole(const struct sampling *s);
/* "a,b": the metrics, once they are known; valid as long as s. */
const char *sampling_metrics(const struct sampling *s);
/* Appends how samples are taken, "each 10.0 us". */
void sampling_describe(const struct sampling *s, struct buf *b);
