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
	size_t set;	      /* of the next samples */
	uint64_t interval_ns; /* of these; 0: as it began */
	bool begun, ended;
	bool strays;		/* it samples what it was not asked for */
	bool is_told;		/* why it is over */
	int64_t last_ns;	/* the end of its last sample; 0: none has come */
	struct sampler_end end; /* but for its texts */
	uint64_t lost;
	bool is_cut_off; /* it has ended without a last word: it may have lost more */
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
	struct buf metrics; /* "a,b", in the plan's order */
	size_t n_metrics;
	uint8_t sets[SAMPLER_METRICS_MAX]; /* of each metric, its set */
	uint64_t intervals_ns[SAMPLER_SETS_MAX];
	size_t n_sets; /* 0: no sampler has begun */
	uint64_t turn_ns, turns, change_ns;
	struct gpuctr_capture *permit; /* NULL: not open, or over */
	struct sampler samplers[SAMPLING_GPUS_MAX];
	size_t n_samplers;
	bool begun, over;
	struct gpuctr_error cut; /* what ended it early; code 0: it was not cut off */
	uint64_t begin_by_ns;	 /* 0: they were not started yet */
	uint64_t cut_by_ns;	 /* the samplers have ended: when that is the reason; 0: not yet */
	bool is_ready;		 /* for samples: there is a file to keep them */
	/* Of the samplers: no more comes, or nothing could begin. */
	void (*on_over)(struct sampling *s);
	bool leaves;	/* refused, once the permit is given back */
	struct buf why; /* it is refused ("": told), or was over early */

	struct unseen unseen;
	bool is_ended; /* nothing more is recorded */
	struct buf unsampled;
};

/* No kernels are recorded beside the samples. */
static inline bool sampling_is_alone(const struct sampling *s)
{
	return s->options->timeline.is_wanted;
}

/* --- sampling_why.c */
/* The end of a capture that is worth nothing is not told in its last lines alone. */
void sampling_warn_of_none(const struct sampling *s, const struct sampled_counts *counts);
/* Something else will do. */
bool sampling_may_fall_back(const struct sampling *s);
/* Why it is refused; the first reason stays. */
__attribute__((format(printf, 2, 3))) void sampling_note_why(struct sampling *s, const char *format,
							     ...);
/* The same, and where nothing else will do it is said at once, with the remedy. code GPUCTR_OK: it
 * has none. */
__attribute__((format(printf, 4, 5))) void
sampling_tell(struct sampling *s, int code, const char *remedy, const char *format, ...);

/* --- samplers.c */
/* What samples, or plays recorded samples. False: why is known. */
bool samplers_find(struct sampling *s);
/* 0, or a negative errno. */
int samplers_start(struct sampling *s, struct sampler *m, const char *const *added);
/* They are asked to end, all before one is waited for, and what they have sampled is read until
 * they have. */
void samplers_end(struct sampling *s);
