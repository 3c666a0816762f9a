/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/sampling.h"

#include <limits.h>

#include "client/sampler/stream.h"
#include "proto/base/buf.h"

struct sampler {
	struct sampling *owner;
	char uuid[SAMPLER_UUID_BYTES];
	struct child child;
	int life, output; /* -1: closed */
	bool watched;
	uv_poll_t poll;
	struct sampler_reader *reader;
	size_t set;	      /* set of the next samples */
	uint64_t interval_ns; /* their interval; 0: that at the beginning */
	bool begun, ended;
	bool strays;		/* it does not sample what was asked for */
	bool is_told;		/* the reason for its end was reported */
	int64_t last_ns;	/* the end of its last sample; 0: none has come */
	struct sampler_end end; /* without its texts */
	uint64_t lost;
	bool is_cut_off; /* its stream has no end: more samples may be lost */
};

struct sampling {
	struct gpuctr *g;
	uv_loop_t *loop;
	const struct run_options *options;
	const struct selected *selected; /* processes whose GPUs are sampled; none: all GPUs */
	const sigset_t *mask;
	struct sinks *sinks;
	struct sampling_user user;
	void *data;

	char path[PATH_MAX];
	struct buf metrics; /* names, as "a,b", in the plan's order */
	size_t n_metrics;
	uint8_t sets[SAMPLER_METRICS_MAX]; /* set of each metric */
	uint64_t intervals_ns[SAMPLER_SETS_MAX];
	size_t n_sets; /* 0: no sampler has begun */
	uint64_t turn_ns, turns, change_ns;
	struct gpuctr_capture *permit; /* NULL: not open, or over */
	struct sampler samplers[SAMPLING_GPUS_MAX];
	size_t n_samplers;
	bool begun, over;
	struct gpuctr_error cut; /* error that ended sampling early; code 0: none */
	uint64_t begin_by_ns;	 /* 0: samplers were not started yet */
	uint64_t cut_by_ns;	 /* when to stop waiting for the daemon's reason; 0: no wait */
	bool is_ready;		 /* a file takes samples */
	/* A sampler has ended early, or could not begin. */
	void (*on_over)(struct sampling *s);
	bool leaves;	/* on_refused() is due when the permit has ended */
	struct buf why; /* why sampling is refused ("": reported), or ended early */

	struct unseen unseen;
	bool is_ended; /* nothing more is recorded */
	struct buf unsampled;
};

/* Is this "capture --timeline", which records no kernels? */
static inline bool sampling_is_alone(const struct sampling *s)
{
	return s->options->timeline.is_wanted;
}

/* --- sampling_why.c */
/* Warns if no kernel has a value, because the last lines of the report are easily overlooked. */
void sampling_warn_of_none(const struct sampling *s, const struct sampled_counts *counts);
/* May the run measure ranges instead? */
bool sampling_may_fall_back(const struct sampling *s);
/* Keeps the reason for a refusal; the first one stays. */
__attribute__((format(printf, 2, 3))) void sampling_note_why(struct sampling *s, const char *format,
							     ...);
/* Keeps the reason, or, if the run may not measure ranges instead, reports it at once with the
 * remedy. code GPUCTR_OK: the reason has no code. */
__attribute__((format(printf, 4, 5))) void
sampling_tell(struct sampling *s, int code, const char *remedy, const char *format, ...);

/* --- samplers.c */
/* Finds the program that samples, or plays recorded samples. False: s->why has the reason. */
bool samplers_find(struct sampling *s);
/* 0, or a negative errno. */
int samplers_start(struct sampling *s, struct sampler *m, const char *const *added);
/* Asks all samplers to end, and then reads their samples until they have ended. */
void samplers_end(struct sampling *s);
