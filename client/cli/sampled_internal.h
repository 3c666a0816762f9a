/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/sampled.h"

#include "client/sampler/stream.h"
#include "proto/base/map.h"

enum { SAMPLED_GPUS_MAX = 64 };

/* What is no record: in place of its number, the id that the attribution gives back. */
#define SAMPLED_COPY UINT32_MAX
#define SAMPLED_UNKNOWN (UINT32_MAX - 1) /* a time of which nobody knows what ran */

/* What a set's attribution has told of a record. */
struct sampled_told {
	uint32_t position;
	uint8_t state;			  /* enum attribution_state */
	struct attribution_value *values; /* of one without a position; NULL: none */
};

/* A record: the GPU that has it, or why it is on none. */
struct sampled_place {
	uint8_t gpu;
	uint8_t why; /* enum sampled_reason; SAMPLED_REASONS: it is known when it ran there */
};

struct sampled_set {
	size_t n;
	uint32_t metrics[ATTRIBUTION_METRICS_MAX]; /* of the plan */
};

/* A set's samples of a GPU. */
struct sampled_part {
	struct sampled_gpu *gpu;
	size_t set;
	struct attribution *attribution;
	size_t next;	 /* item of the GPU's */
	int64_t last_ns; /* the end of its last sample; 0: none has come */
};

struct sampled_gpu {
	char uuid[64];
	struct sampled *owner;
	struct sampled_part *parts;	  /* n_sets */
	struct attribution_kernel *items; /* in the order of time, once samples come */
	size_t n_items, max_items;
	bool is_sorted;
	int64_t begin_ns, last_ns; /* of all samples */
};

/* Of a record: why SAMPLED_REASONS, or there is none; too short to tell, value is good for sums. */
struct sampled_metric {
	enum sampled_reason why;
	double value, error;
};

struct sampled {
	const struct gpuctr_plan *plan;
	struct sampled_set sets[SAMPLER_SETS_MAX];
	size_t n_sets;
	struct sampled_gpu gpus[SAMPLED_GPUS_MAX];
	size_t n_gpus;
	struct map devices, streams;
	struct sampled_place *places; /* of the records */
	struct sampled_told *told;    /* n_sets for each */
	size_t n, max, n_items;
	int64_t until_ns;		/* later samples are nobody's */
	double *row;			/* values, errors of a record */
	struct sampled_metric *metrics; /* of a record */
	bool failed;			/* out of memory */
	struct sampled_counts counts;
	sampled_on_pause *on_pause;
	void *on_pause_user;
	bool is_given_up;
};
