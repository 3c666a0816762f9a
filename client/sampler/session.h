/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* PM sampling of one GPU, from opening the libraries to disabling it. Functions return 0, or an
 * enum sampler_reason with r filled. */

#include "client/sampler/evaluator.h"
#include "client/sampler/metrics.h"
#include "client/sampler/pm.h"
#include "client/sampler/writer.h"
#include "proto/nvidia/host.h"

struct session_options {
	const char *gpu; /* index or UUID */
	const char *metrics[SAMPLER_METRICS_MAX];
	size_t n_metrics;
	uint64_t interval_ns;  /* 0: the shortest that does not lose samples, from 10 us on */
	uint64_t buffer_bytes; /* 0: chosen by the interval */
	uint64_t turn_ns;      /* mean turn of each set of metrics; 0: several sets are refused */
};

struct session_set {
	struct metrics_set metrics;
	uint64_t interval_ns;
	struct image images[2], *image; /* image: the one into which CUPTI decodes */
};

struct session {
	const struct session_options *options;
	struct vendor_driver driver;
	struct vendor_host vendor;
	struct pm pm;
	struct host host;
	struct session_set sets[SAMPLER_SETS_MAX], *set; /* set: whose turn it is */
	size_t n_sets;
	uint8_t numbers[SAMPLER_METRICS_MAX]; /* of each metric, its set */
	char uuid[SAMPLER_UUID_BYTES];
	struct evaluator evaluator;
	struct image *given; /* image that the evaluator has; NULL: none */

	bool has_incomplete; /* the last sample, in an image that is half full */
	bool skips;	     /* the next sample is left out, because it began before sampling */
	bool turned;	     /* no sample of this turn has come */
	bool set_back;	     /* the machine's clock was, and samples since are lost */
	int64_t end_ns;	     /* of the last sample */
	uint64_t overflows;
	unsigned in_a_row;	/* overflows, each soon after the one before */
	struct refusal trouble; /* error of the last change of sets that failed */
	/* By the monotonic clock: */
	uint64_t turn_at_ns;  /* when the turn ends, or a change that failed is tried again */
	uint64_t change_ns;   /* when the last change began */
	uint64_t progress_ns; /* when the last sample came, plus the time of later changes */
	uint64_t began_ns, drained_ns; /* the last drain's begin and end */
	uint64_t overflow_ns;
	uint64_t behind_ns; /* since when drains leave samples behind; 0: the last one did not */
};

/* Zero-initialises *s. Call session_close() even if this fails. */
int session_open(struct session *s, const struct session_options *o, struct refusal *r);
int session_start(struct session *s, struct refusal *r);
/* When the next drain is due, by the monotonic clock. */
uint64_t session_next_ns(const struct session *s);
/* Takes the samples that are there, and begins the next turn when it is time. */
int session_drain(struct session *s, struct sampler_writer *w, struct refusal *r);
/* Stops sampling, and takes the samples that are left. */
int session_stop(struct session *s, struct sampler_writer *w, struct refusal *r);
void session_close(struct session *s);
