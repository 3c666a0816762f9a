/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Makes the stream of stream.h. Samples for which the reader is too slow are dropped, counted, and
 * reported as lost. */

#include <stdbool.h>

#include "client/sampler/stream.h"
#include "proto/base/buffer.h"

enum { WRITER_BLOCK_BYTES = 64 << 10 };

/* Zero-initialised by the caller, with the limit set. */
struct sampler_writer {
	struct buffer out; /* whole messages, to be written and consumed by the caller */
	size_t limit;	   /* most bytes in out: samples beyond it are dropped */
	size_t n_metrics[SAMPLER_SETS_MAX];
	struct sampler_set set; /* set of the next samples */
	bool turned;		/* the change to this set is not written yet */
	uint64_t next;		/* number of the next sample */
	uint64_t lost; /* lost and not yet reported, before the block, or before the next sample */
	uint64_t dropped;   /* samples dropped so far */
	uint64_t lost_told; /* in messages */
	uint64_t samples;   /* in messages */
	int64_t end_ns;	    /* end of the last sample */

	/* the message that is being made */
	uint8_t block[WRITER_BLOCK_BYTES];
	size_t bytes; /* 0: there is none */
	struct sampler_samples_message head;
};

void sampler_writer_deinit(struct sampler_writer *w);
int sampler_writer_begin(struct sampler_writer *w, const struct sampler_begin *begin); /* -ENOMEM */
/* Samples that follow are of this set. */
void sampler_writer_set(struct sampler_writer *w, const struct sampler_set *set);
/* Adds a sample. If it does not begin where the last one ended, call sampler_writer_lost() or
 * sampler_writer_set() before. */
void sampler_writer_sample(struct sampler_writer *w, int64_t start_ns, int64_t end_ns,
			   const double *values);
/* n samples are missing before the next. */
void sampler_writer_lost(struct sampler_writer *w, uint64_t n);
/* Moves the block to out, or drops it. */
void sampler_writer_flush(struct sampler_writer *w);
/* Writes the end, whatever the limit is. The writer itself sets samples, lost and dropped. -ENOMEM.
 */
int sampler_writer_end(struct sampler_writer *w, const struct sampler_end *end);
