/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Makes the stream. Samples for which the reader is too slow are dropped, counted, and reported as
 * lost. */

#include <stdbool.h>

#include "client/sampler/stream.h"
#include "proto/base/buffer.h"

enum { WRITER_BLOCK_BYTES = 64 << 10 };

/* Zero-initialised by the caller, with the limit set. */
struct sampler_writer {
	struct buffer out; /* whole messages, to be written and consumed by the caller */
	size_t limit;	   /* samples that would make more of out than this are dropped */
	size_t n_metrics[SAMPLER_SETS_MAX];
	struct sampler_set set; /* of the next samples */
	bool turned;		/* which is not told yet */
	uint64_t next;		/* number of the next sample */
	uint64_t lost;	    /* not told of yet, before the block or, without one, the next sample */
	uint64_t dropped;   /* all those */
	uint64_t lost_told; /* in messages */
	uint64_t samples;   /* in messages */
	int64_t end_ns;	    /* of the last sample */

	/* the message that is being made */
	uint8_t block[WRITER_BLOCK_BYTES];
	size_t bytes; /* 0: there is none */
	struct sampler_samples_message head;
};

void sampler_writer_deinit(struct sampler_writer *w);
int sampler_writer_begin(struct sampler_writer *w, const struct sampler_begin *begin); /* -ENOMEM */
/* Samples that follow are of this set. */
void sampler_writer_set(struct sampler_writer *w, const struct sampler_set *set);
/* A sample that does not begin where the last one ended belongs behind a loss:
 * sampler_writer_lost().
 */
void sampler_writer_sample(struct sampler_writer *w, int64_t start_ns, int64_t end_ns,
			   const double *values);
/* n samples are missing before the next. */
void sampler_writer_lost(struct sampler_writer *w, uint64_t n);
/* Moves the block to out, or drops it. */
void sampler_writer_flush(struct sampler_writer *w);
/* Samples, lost and dropped of end are the writer's own. Goes out whatever the limit is; -ENOMEM.
 */
int sampler_writer_end(struct sampler_writer *w, const struct sampler_end *end);
